import HaulBus
import HaulContract
import HaulHTTPServer
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulWeb

/// aria2's JSON-RPC. Tests/web/aria2.sh uses it with a client of aria2 and a real worker.
@Suite struct Aria2Tests {
    private struct Bench {
        let fixture: WebFixture

        init(_ change: @escaping (inout WebConfiguration) -> Void = { _ in }) async throws {
            fixture = try await WebFixture {
                $0.aria2 = .default
                change(&$0)
            }
        }

        func call(
            _ method: String, _ params: String = "[]", fields: [(name: String, value: String)] = []
        ) async throws -> JSON {
            let text = #"{"jsonrpc":"2.0","id":"1","method":"\#(method)","params":\#(params)}"#
            let response = await fixture.send("POST", "/jsonrpc", text, fields: fields)
            #expect(response.status == 200 && response["Access-Control-Allow-Origin"] == "*")
            return try #require(response.json)
        }

        func result(_ method: String, _ params: String = "[]") async throws -> JSON {
            let json = try await call(method, params)
            return try #require(json["result"], "\(method): \(json.text)")
        }

        func message(_ method: String, _ params: String = "[]") async throws -> String? {
            try await call(method, params)["error"]?["message"]?.string
        }
    }

    @Test("a download is added, shown, paused, resumed and removed as by aria2") func life() async throws {
        let bench = try await Bench()
        let options =
            #"{"out":"film.bin","dir":"films","checksum":"sha-256=\#(String(repeating: "a", count: 64))","split":"5","max-download-limit":"1M","header":["A: b"],"referer":"*","unknown":"x"}"#
        let gid = try #require(
            try await bench.result("aria2.addUri", #"[["http://h/film.bin?sig=1"],\#(options)]"#).string)
        #expect(gid.utf8.count == 16)
        #expect(try await bench.result("aria2.tellStatus", "[\"\(gid)\"]")["status"]?.string == "waiting")
        #expect(try await bench.result("aria2.tellWaiting", "[0,10]").array?.first?["gid"]?.string == gid)
        let claim = try #require(try await bench.fixture.claim())
        let job = try claim.job()
        #expect(job.path == "films/film.bin" && job.connections == 5 && job.limitRate == 1 << 20)
        #expect(job.headers.contains { $0.name == "Referer" && $0.value == "http://h/film.bin?sig=1" })
        #expect(
            try await bench.result("aria2.tellActive", #"[["gid","status"]]"#).text
                == #"[{"gid":"\#(gid)","status":"active"}]"#)
        #expect(try await bench.result("aria2.pause", "[\"\(gid)\"]").string == gid)
        try await bench.fixture.tick([claim])
        try await bench.fixture.settle(claim, .paused)
        #expect(try await bench.result("aria2.tellStatus", "[\"\(gid)\"]")["status"]?.string == "paused")
        _ = try await bench.result("aria2.unpauseAll")
        try await bench.fixture.tick()
        let again = try #require(try await bench.fixture.claim())
        try await bench.fixture.settle(again, WebFixture.done)
        let status = try await bench.result("aria2.tellStatus", "[\"\(gid)\"]")
        #expect(status["status"]?.string == "complete" && status["completedLength"]?.string == "3")
        #expect(status["files"]?.array?.first?["path"]?.string == "f" && status["errorCode"]?.string == "0")
        #expect(status["files"]?.array?.first?["uris"]?.array?.first?["uri"]?.string == "http://h/film.bin?[masked]")
        #expect(try await bench.result("aria2.tellStopped", "[-1,1]").array?.count == 1)
        #expect(try await bench.result("aria2.getGlobalStat")["numStopped"]?.string == "1")
        #expect(try await bench.message("aria2.pause", "[\"\(gid)\"]")?.contains("has stopped") == true)
        #expect(try await bench.result("aria2.removeDownloadResult", "[\"\(gid)\"]").string == "OK")
        try await bench.fixture.tick()
        #expect(try await bench.message("aria2.tellStatus", "[\"\(gid)\"]")?.contains("is not found") == true)
    }

    /// Its element has left the list when the search comes there, and its hash was not there before.
    @Test("a download that a worker takes meanwhile is found") func claimedMeanwhile() async throws {
        let bench = try await Bench()
        for number in 1...200 {
            let gid = try #require(try await bench.result("aria2.addUri", #"[["http://h/\#(number)"]]"#).string)
            async let claim = bench.fixture.claim()
            repeat {
                let answer = try await bench.call("aria2.tellStatus", "[\"\(gid)\"]")
                let status = try #require(answer["result"]?["status"]?.string, "\(answer.text)")
                if status == "active" { break }
            } while true
            try await bench.fixture.settle(try #require(try await claim), WebFixture.done)
        }
    }

    /// AriaNg asks for the options of a failed download, and adds it again with them and with the URLs of its record.
    @Test("a retry by AriaNg retries the job itself, so that its query, headers and checksum are kept")
    func retry() async throws {
        let bench = try await Bench()
        let checksum = "sha-256=\(String(repeating: "a", count: 64))"
        let options = #"{"out":"a.bin","dir":"films/new","checksum":"\#(checksum)","header":["A: b"],"max-tries":"1"}"#
        let gid = try #require(
            try await bench.result("aria2.addUri", #"[["http://h/film.bin?sig=1"],\#(options)]"#).string)
        let claim = try #require(try await bench.fixture.claim())
        #expect(try await bench.result("aria2.getOption", "[\"\(gid)\"]").text == #"{"dir":"films/new","out":"a.bin"}"#)
        try await bench.fixture.settle(claim, .failed(Failure(.http(404), "gone"), retryable: false, received: 0))
        let known = try await bench.result("aria2.getOption", "[\"\(gid)\"]").text
        let retry = #"[["http://h/film.bin?[masked]"],\#(known)]"#
        #expect(try await bench.result("aria2.addUri", retry).string == gid)
        // AriaNg removes the old result at once if it is set so. The retry is not lost.
        let refusal = try await bench.message("aria2.removeDownloadResult", "[\"\(gid)\"]")
        #expect(refusal?.contains("has not stopped yet") == true)
        try await bench.fixture.tick()
        let again = try #require(try await bench.fixture.claim())
        let job = try again.job()
        #expect(again.run.id == gid && job.path == "films/new/a.bin" && job.checksum != nil)
        #expect(job.urls.first == "http://h/film.bin?sig=1" && job.headers.contains { $0.name == "A" })
        #expect(try await bench.message("aria2.addUri", retry)?.contains("has not failed") == true)
    }

    @Test("an unknown method or value gets aria2's error, and one request may have several calls") func errors()
        async throws
    {
        let bench = try await Bench()
        #expect(try await bench.message("aria2.addTorrent", #"["AA=="]"#) == "No such method: aria2.addTorrent")
        #expect(try await bench.message("aria2.addUri", "[[]]") == "URI is not provided.")
        #expect(try await bench.message("aria2.addUri", #"[["ftp://h/"]]"#)?.hasPrefix("url: ") == true)
        #expect(
            try await bench.message("aria2.changeGlobalOption", #"[{"seed-time":"1"}]"#)?.contains("cannot be changed")
                == true)
        _ = try await bench.result("aria2.changeGlobalOption", #"[{"max-overall-download-limit":"2M"}]"#)
        #expect(try await bench.result("aria2.getGlobalOption")["max-overall-download-limit"]?.string == "2097152")
        let many = try await bench.result(
            "system.multicall",
            #"[[{"methodName":"aria2.getVersion","params":[]},{"methodName":"aria2.tellStatus","params":["nobody"]}]]"#)
        #expect(many.array?.first?.array?.first?["version"] != nil && many.array?.last?["code"]?.integer == 1)
        for (text, code) in [("{", -32700), ("{}", -32600), ("[]", -32600)] {
            let response = await bench.fixture.send("POST", "/jsonrpc", text)
            #expect(response.json?["error"]?["code"]?.integer == Int64(code), "\(response.text)")
        }
        let batch = await bench.fixture.send(
            "POST", "/jsonrpc", #"[{"id":1,"method":"system.listMethods"},{"id":2,"method":"no"}]"#)
        #expect(batch.json?.array?.count == 2)
        #expect(try await WebFixture().send("POST", "/jsonrpc", "{}").status == 405)
    }

    @Test("pauseAll is for all jobs, however many there are") func all() async throws {
        let bench = try await Bench()
        let redis = bench.fixture.queue.redis
        let jobs = (0..<12_000).map { #"{"url":"http://h/\#($0)","id":"j\#($0)"}"# }
        try await redis.send(Command(arguments: ["LPUSH", "haul:{default}:jobs"] + jobs))
        #expect(try await bench.result("aria2.pauseAll").string == "OK")
        #expect(try await redis.send(Command("HLEN", "haul:{default}:want")).int == 12_000)
    }

    @Test("a change requires an operator's token, and a call from another site's page always requires one")
    func secrets() async throws {
        let accounts = try Accounts(
            "o operator \(Accounts.hash(token: "right"))\nv viewer \(Accounts.hash(token: "look"))")
        let bench = try await Bench { $0.accounts = accounts }
        let add = #"["http://h/"]"#
        #expect(try await bench.message("aria2.getVersion") == "Unauthorized")
        #expect(try await bench.message("aria2.addUri", "[\"token:wrong\",\(add)]") == "Unauthorized")
        #expect(try await bench.message("aria2.addUri", "[\"token:look\",\(add)]")?.contains("viewer") == true)
        #expect(try await bench.result("aria2.tellActive", #"["token:look"]"#).array?.isEmpty == true)
        #expect(try await bench.result("aria2.addUri", "[\"token:right\",\(add)]").string?.utf8.count == 16)
        let foreign = [
            (name: "origin", value: "https://ariang.example"), (name: "sec-fetch-site", value: "cross-site"),
        ]
        #expect(try await bench.call("aria2.getVersion", #"["token:right"]"#, fields: foreign)["result"] != nil)
        let open = try await Bench()
        #expect(try await open.call("aria2.getVersion", fields: foreign)["error"]?["code"]?.integer == 1)
        #expect(try await open.result("aria2.getVersion")["version"] != nil)
        #expect(await open.fixture.send("OPTIONS", "/jsonrpc").status == 204)
    }

    @Test("frames of a WebSocket are read as RFC 6455 says, and others end the connection") func frames() throws {
        func masked(_ first: UInt8, _ payload: [UInt8]) -> [UInt8] {
            var bytes = WebSocketReader.frame(first & 0x0F, payload)
            bytes[0] = first
            bytes[1] |= 0x80
            let header = bytes.count - payload.count
            return bytes[..<header] + [1, 2, 3, 4] + payload.enumerated().map { $1 ^ [1, 2, 3, 4][$0 & 3] }
        }
        for count in [0, 5, 125, 126, 65_535, 65_536] {
            let text = [UInt8](repeating: 0x61, count: count)
            var reader = WebSocketReader(maxLength: 1 << 20)
            // One byte at a time, with a ping between two pieces of a message.
            let bytes = masked(0x01, text) + masked(0x89, [7]) + masked(0x80, text) + masked(0x88, [])
            var messages: [WebSocketReader.Message] = []
            for byte in count < 1000 ? bytes.map({ [$0] }) : [bytes] {
                reader.add(byte)
                while let message = try reader.next() { messages.append(message) }
            }
            #expect(messages == [.ping([7]), .text(text + text), .close], "\(count)")
        }
        for (bytes, code) in [
            (WebSocketReader.frame(0x1, [1]), 1002), (masked(0xC1, [1]), 1002), (masked(0x82, [1]), 1003),
            (masked(0x81, [UInt8](repeating: 0, count: 2000)), 1009), (masked(0x80, [1]), 1002),
            (masked(0x09, []), 1002),
        ] as [([UInt8], UInt16)] {
            var reader = WebSocketReader(maxLength: 1000)
            reader.add(bytes)
            #expect(throws: WebSocketReader.Violation(code: code)) { try reader.next() }
        }
    }
}
