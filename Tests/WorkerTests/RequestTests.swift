import HaulBus
import HaulContract
import HaulHTTP
import HaulRedis
import HaulTestSupport
import Synchronization
import Testing

@testable import HaulActivities
@testable import HaulWorker

@Suite("Requests", .timeLimit(.minutes(2)))
struct RequestTests {
    private func end(_ fleet: Fleet, _ id: String) async throws -> JobRecord {
        var record: JobRecord?
        try await eventually("\(id) to end", within: .seconds(30)) {
            record = try await fleet.queue.job(id)
            return record?.hasEnded ?? false
        }
        return try #require(record)
    }

    private func call(_ fleet: Fleet, _ id: String, _ url: String, _ more: String = "") async throws -> JobRecord {
        try await fleet.push(#"{"kind":"request","id":"\#(id)","url":"\#(url)"\#(more)}"#)
        return try await end(fleet, id)
    }

    @Test("bodies, queries and header fields arrive as they are given, and the response is kept") func bodies()
        async throws
    {
        let origin = try OriginServer { request in
            OriginReply(
                request.path == "/binary" ? 206 : 200, headers: [("X-A", "1"), ("x-a", "2"), ("Set-Cookie", "a, b")],
                body: request.path == "/binary" ? [0, 255] : Array("wörld".utf8))
        }
        let fleet = try await Fleet()
        try await fleet.withWorker("w") {
            let cases: [(String, String, [UInt8], String?)] = [
                (#","json":{"a" : [1.50,null]}"#, "POST", Array(#"{"a" : [1.50,null]}"#.utf8), "application/json"),
                (
                    #","form":{"a b":"c&d=é","n":1.50,"t":true},"method":"PUT""#, "PUT",
                    Array("a+b=c%26d%3D%C3%A9&n=1.50&t=true".utf8), "application/x-www-form-urlencoded"
                ),
                (#","body_base64":"AAEC/w==""#, "POST", [0, 1, 2, 255], "application/octet-stream"),
                (#","body":"a\u0000b","headers":{"content-type":"x/y"}"#, "POST", [97, 0, 98], "x/y"),
                (#","query":{"q":"a b","n":2}"#, "GET", [], nil),
                (#","method":"PATCH","body":"""#, "PATCH", [], "text/plain; charset=utf-8"),
            ]
            for (number, (more, method, body, type)) in cases.enumerated() {
                let record = try await call(fleet, "b\(number)", origin.url("/\(number)?x=1#f"), more)
                #expect(record.state == .completed && record["status"] == "200" && record["body"] == "wörld")
                let response = StoredResponse(hash: record.fields)
                #expect(response?["x-a"] == "1, 2" && response?["set-cookie"] == "a, b")
                let request = try #require(origin.requests.last)
                #expect(request.method == method && request.body.bytes == body, "\(more)")
                #expect(request.headers["content-type"] == type, "\(more)")
                #expect(request.path == (number == 4 ? "/4?x=1&q=a+b&n=2" : "/\(number)?x=1"))
            }
            let binary = try await call(fleet, "binary", origin.url("/binary"))
            #expect(binary["body_base64"] == "AP8=" && binary["body"] == nil && binary["status"] == "206")
        }
    }

    @Test("an unexpected status fails with its response; a long response is too large") func expected() async throws {
        let origin = try OriginServer { request in
            switch request.path {
            case "/404": return OriginReply(404, body: Array("gone".utf8))
            case "/403", "/503":
                var reply = OriginReply(request.path == "/403" ? 403 : 503, body: [UInt8](repeating: 65, count: 70_000))
                if request.path == "/503" { reply.framing = .chunked }
                return reply
            case "/endless":
                var reply = OriginReply(body: [UInt8](repeating: 65, count: 200_000))
                reply.framing = .chunked
                return reply
            default:
                var reply = OriginReply()
                (reply.declaredLength, reply.cut) = (10_000_000_000, 10)
                return reply
            }
        }
        let fleet = try await Fleet()
        try await fleet.withWorker("w") {
            let missing = try await call(fleet, "a", origin.url("/404"))
            #expect(missing.state == .failed && missing["error"] == "http_404" && missing["body"] == "gone")
            let expected = try await call(fleet, "b", origin.url("/404"), #","expect":[200,"400-499"]"#)
            #expect(expected.state == .completed && expected["status"] == "404")
            for path in ["/endless", "/long"] {
                let long = try await call(fleet, "c" + path.dropFirst(), origin.url(path))
                #expect(long["error"] == "too_large" && long["retryable"] == "0", "\(path)")
            }
            // What a long error page says is left out, and what the status says counts.
            let refused = try await call(fleet, "e", origin.url("/403"))
            #expect(refused["error"] == "http_403" && refused["status"] == "403" && (refused["body"] ?? "").isEmpty)
            let busy = try await call(fleet, "f", origin.url("/503"), #","retries":0"#)
            #expect(busy["error"] == "http_503" && busy["retryable"] == "1" && (busy["body"] ?? "").isEmpty)
            let most = try await call(fleet, "d", origin.url("/endless"), #","max_response":200000"#)
            #expect(most.state == .completed && most["received"] == "200000")
        }
    }

    @Test("redirects keep or drop the body as RFC 9110 allows", arguments: [301, 303, 307, 308])
    func redirects(_ status: Int) async throws {
        let other = try OriginServer { _ in OriginReply(body: Array("there".utf8)) }
        let origin = try OriginServer { _ in OriginReply(status, headers: [("Location", other.url("/b"))]) }
        let fleet = try await Fleet()
        try await fleet.withWorker("w") {
            let record = try await call(
                fleet, "r", origin.url("/a"), #","json":[1],"idempotent":true,"headers":{"Authorization":"Bearer x"}"#)
            #expect(record.state == .completed && record["body"] == "there")
        }
        let seen = try #require(other.requests.first)
        #expect(other.requests.count == 1 && origin.requests.count == 1)
        #expect(seen.method == (status >= 307 ? "POST" : "GET"))
        #expect(seen.body.text == (status >= 307 ? "[1]" : ""))
        #expect(seen.headers["content-type"] == (status >= 307 ? "application/json" : nil))
        #expect(seen.headers["idempotency-key"] == (status >= 307 ? "r" : nil))
        #expect(seen.headers["authorization"] == nil)
    }

    @Test(
        "a request that may be repeated is retried, and a POST is sent once",
        arguments: ["POST", "PATCH", "PURGE", "PUT", "GET", "leave", "key"])
    func once(_ method: String) async throws {
        let origin = try OriginServer { request in
            var reply = OriginReply(body: Array("ok".utf8))
            if request.number == 1 {
                switch request.path {
                case "/partly": (reply.status, reply.cut, reply.end) = (201, 1, .reset)
                case "/silent": reply.delay = .seconds(3)
                default: reply.status = 503
                }
            }
            return reply
        }
        // Takes the first request, and closes the connection without a response.
        let count = Mutex(0)
        let mute = RawServer { connection in
            guard connection.readRequest() != nil else { return }
            let number = count.withLock { count in
                count += 1
                return count
            }
            if number > 1 { connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok") }
        }
        defer { mute.stop() }
        let more =
            switch method {
            case "leave": #","method":"POST","idempotent":true"#
            case "key": #","method":"POST","headers":{"Idempotency-Key":"k"}"#
            default: #","method":"\#(method)""#
            }
        let isOnce = ["POST", "PATCH", "PURGE"].contains(method)
        let fleet = try await Fleet()
        try await fleet.withWorker("w") {
            let busy = try await call(fleet, "busy", origin.url("/busy"), more)
            #expect(busy.state == (isOnce ? .failed : .completed))
            #expect(origin.requests.count == (isOnce ? 1 : 2))
            if isOnce { #expect(busy["error"] == "http_503" && busy["retryable"] == "0") }
            let silent = try await call(fleet, "silent", origin.url("/silent"), more + #","stall_timeout":1"#)
            #expect(silent.state == (isOnce ? .failed : .completed))
            let cut = try await call(fleet, "cut", "http://127.0.0.1:\(mute.port)/file", more)
            #expect(cut.state == (isOnce ? .failed : .completed))
            #expect(mute.connections == (isOnce ? 1 : 2))
            if isOnce {
                #expect(silent["error"] == "outcome_unknown" && cut["error"] == "outcome_unknown")
                #expect(cut["message"]?.contains("see idempotent") == true)
                let partly = try await call(fleet, "partly", origin.url("/partly"), more)
                #expect(partly["error"] == "outcome_unknown", "\(partly["error"] ?? "")")
                #expect(partly["message"]?.contains("began to respond with 201") == true)
            }
            if method == "leave" {
                #expect(origin.requests.allSatisfy { ["busy", "silent"].contains($0.headers["idempotency-key"]) })
            }
        }
    }

    @Test("a POST that was certainly not sent is retried") func unsent() async throws {
        let listener = try LoopbackListener()
        let port = listener.port
        listener.stop()
        let fleet = try await Fleet()
        try await fleet.withWorker("w") {
            try await fleet.push(
                #"{"kind":"request","id":"p","url":"http://127.0.0.1:\#(port)/","method":"POST","retries":9}"#)
            try await eventually("a failed attempt") { try await fleet.queue.job("p")?["attempt"] != nil }
            let record = try #require(try await fleet.queue.job("p"))
            #expect(record["error"] == "connect" && record["sent"] == nil && !record.state.isFinal)
            try await fleet.queue.request(.cancelled, of: ["p"])
            try await fleet.wait("p", for: .cancelled)
        }
    }

    @Test("fresh_for reuses a kept response while it is fresh, and then asks the server") func fresh() async throws {
        let version = Mutex("\"1\"")
        let origin = try OriginServer { request in
            let etag = version.withLock { $0 }
            var reply = OriginReply(headers: [("ETag", etag)], body: Array("v\(request.number)".utf8))
            if request.headers["if-none-match"] == etag {
                (reply.status, reply.framing, reply.body) = (304, .none, .bytes([]))
            }
            return reply
        }
        let fleet = try await Fleet()
        try await fleet.withWorker("w") {
            func ask(_ more: String) async throws -> JobRecord {
                let before = try await fleet.queue.job("c")?.integer("finished") ?? 0
                try await fleet.push(#"{"kind":"request","id":"c","url":"\#(origin.url("/a"))"\#(more)}"#)
                try await eventually("the next end of the job") {
                    let record = try await fleet.queue.job("c")
                    return record?.hasEnded == true && record?.integer("finished") ?? 0 > before
                }
                return try #require(try await fleet.queue.job("c"))
            }
            #expect(try await ask(#","fresh_for":100"#)["body"] == "v1")
            let cached = try await ask(#","fresh_for":100"#)
            #expect(cached["body"] == "v1" && cached["unchanged"] == "1" && origin.requests.count == 1)
            // The response is older than it may be. The server says that nothing has changed.
            let asked = try await ask(#","fresh_for":0"#)
            #expect(asked["body"] == "v1" && asked["unchanged"] == "1" && origin.requests.count == 2)
            // A request with other header fields is not answered by it.
            let other = try await ask(#","fresh_for":100,"headers":{"Accept":"x/y"}"#)
            #expect(other["body"] == "v3" && other["unchanged"] == nil)
            // What an earlier push expected says nothing about this one.
            let refused = try await ask(#","fresh_for":0,"headers":{"Accept":"x/y"},"expect":[204],"retries":0"#)
            #expect(refused.state == .failed && refused["error"] == "http_200", "\(refused.fields)")
            version.withLock { $0 = "\"2\"" }
            #expect(try await ask(#","fresh_for":0,"headers":{"Accept":"x/y"}"#)["body"] == "v5")
            // Without `fresh_for` the request has no condition.
            _ = try await ask("")
            #expect(origin.requests.last?.headers["if-none-match"] == nil)
        }
    }

    @Test(
        "a kept response is confirmed by its date only if the date was a minute old", arguments: [59, 60])
    func date(_ age: Int64) async throws {
        let modified: Int64 = 784_111_777
        let origin = try OriginServer { request in
            let headers = [("Date", HTTPDate.text(modified + age)), ("Last-Modified", HTTPDate.text(modified))]
            if request.headers["if-modified-since"] != nil { return OriginReply(304, headers: headers) }
            return OriginReply(headers: headers, body: Array("v\(request.number)".utf8))
        }
        let fleet = try await Fleet()
        try await fleet.withWorker("w") {
            for number in 1...2 {
                try await fleet.push(#"{"kind":"request","id":"c","url":"\#(origin.url("/a"))","fresh_for":0}"#)
                try await eventually("the next end of the job") {
                    let hasEnded = try await fleet.queue.job("c")?.hasEnded
                    return origin.requests.count == number && hasEnded == true
                }
            }
            try await eventually("the body") {
                try await fleet.queue.job("c")?["body"] == (age < 60 ? "v2" : "v1")
            }
            #expect(try await fleet.queue.job("c")?["unchanged"] == (age < 60 ? nil : "1"))
        }
    }

    @Test("a 304 confirms a kept response only if it is of the same resource, and of the same version")
    func otherResource() async throws {
        let modified = ("Last-Modified", HTTPDate.text(784_111_777))
        let (target, tag) = (Shared("/v1"), Shared("\"1\""))
        let origin = try OriginServer { request in
            if request.path == "/latest" { return OriginReply(302, headers: [("Location", target.value)]) }
            let headers = [modified, ("Date", HTTPDate.text(784_222_222)), ("ETag", tag.value)]
            guard request.headers["if-none-match"] == nil else { return OriginReply(304, headers: headers) }
            return OriginReply(headers: headers, body: Array(request.path.utf8))
        }
        let fleet = try await Fleet()
        try await fleet.withWorker("w") {
            func ask() async throws -> [String] {
                let before = origin.requests.count
                let timestamp = try await fleet.queue.time()
                try await fleet.push(
                    #"{"kind":"request","id":"c","url":"\#(origin.url("/latest"))","fresh_for":0,"at":\#(timestamp + 1)}"#
                )
                try await eventually("the end") {
                    try await fleet.queue.job("c")?.hasEnded(since: timestamp + 1) == true
                }
                let job = try #require(try await fleet.queue.job("c"))
                return [job["body"] ?? "", job["unchanged"] ?? ""] + origin.requests.dropFirst(before).map(\.path)
            }
            let first = try await ask()
            #expect(first == ["/v1", "", "/latest", "/v1"])
            #expect(try await ask() == ["/v1", "1", "/latest", "/v1"])
            // Rolled back: the older resource would be unmodified since the date of the newer one.
            target.value = "/v0"
            #expect(try await ask() == ["/v0", "", "/latest", "/v0"])
            #expect(try await ask() == ["/v0", "1", "/latest", "/v0"])
            // The 304 names another version.
            tag.value = "\"2\""
            #expect(try await ask() == ["/v0", "", "/latest", "/v0", "/latest", "/v0"])
        }
    }

    @Test("fresh_for never reuses a response that the job does not expect") func unexpectedIsNeverFresh() async throws {
        let origin = try OriginServer { request in
            var reply = OriginReply(body: Array("v\(request.number)".utf8))
            if request.number == 1 { reply.status = 404 }
            return reply
        }
        let fleet = try await Fleet()
        try await fleet.withWorker("w") {
            let element = #"{"kind":"request","id":"c","url":"\#(origin.url("/a"))","fresh_for":100,"retries":0}"#
            try await fleet.push(element)
            try await fleet.wait("c", for: .failed)
            try await fleet.queue.request(.running, of: ["c"])
            try await fleet.wait("c", for: .completed)
            #expect(try await fleet.queue.job("c")?["body"] == "v2")
        }
    }

    @Test("pause and cancel stop a request, and a POST that was stopped is not sent again")
    func stopped() async throws {
        let latch = Latch()
        defer { latch.open() }
        let origin = try OriginServer { request in
            if request.number == 1 { latch.wait() }
            return OriginReply(body: Array("late".utf8))
        }
        let fleet = try await Fleet()
        try await fleet.withWorker("w") {
            for (id, method) in [("get", "GET"), ("post", "POST"), ("cancelled", "POST")] {
                try await fleet.push(
                    #"{"kind":"request","id":"\#(id)","url":"\#(origin.url("/" + id))","method":"\#(method)"}"#)
            }
            try await eventually("all requests to arrive") { origin.requests.count == 3 }
            // The first request of each connection gets no answer, so only the requests can end them.
            try await fleet.queue.request(.paused, of: ["get", "post"])
            try await fleet.queue.request(.cancelled, of: ["cancelled"])
            try await fleet.wait("get", for: .paused)
            try await fleet.wait("post", for: .paused)
            try await fleet.wait("cancelled", for: .cancelled)
            try await fleet.queue.request(.running, of: ["get", "post"])
            #expect(try await end(fleet, "get")["body"] == "late")
            #expect(try await end(fleet, "post")["error"] == "outcome_unknown")
            #expect(origin.requests.filter { $0.path == "/post" }.count == 1)
            // A retry by a user permits a second POST.
            try await fleet.queue.request(.running, of: ["post"])
            try await fleet.wait("post", for: .completed)
            #expect(origin.requests.filter { $0.path == "/post" }.count == 2)
        }
    }

    @Test("a worker that shuts down finishes a POST, and returns a GET to the queue") func shutdown() async throws {
        let latch = Latch()
        let origin = try OriginServer { _ in
            latch.wait()
            return OriginReply(body: Array("done".utf8))
        }
        let fleet = try await Fleet()
        let worker = try fleet.worker("w")
        let running = Task { try await worker.run() }
        try await fleet.push(#"{"kind":"request","id":"p","url":"\#(origin.url("/p"))","method":"POST"}"#)
        try await fleet.push(#"{"kind":"request","id":"g","url":"\#(origin.url("/g"))"}"#)
        try await eventually("both requests to arrive") { origin.requests.count == 2 }
        running.cancel()
        try await eventually("the GET to be put back") { try await fleet.state("g") == .queued }
        latch.open()
        try await running.value
        #expect(try await fleet.queue.job("p")?["body"] == "done")
        #expect(origin.requests.filter { $0.path == "/p" }.count == 1)
        try await fleet.expectOrder()
    }

    @Test("a worker that does not do requests leaves them to other workers") func kinds() async throws {
        let origin = try OriginServer { _ in OriginReply(body: Array("x".utf8)) }
        let fleet = try await Fleet()
        try await fleet.withWorker("old", { $0.kinds = [.download] }) {
            try await fleet.push(#"{"kind":"request","id":"r","url":"\#(origin.url("/a"))"}"#)
            try await fleet.push(#"{"id":"d","url":"\#(origin.url("/b"))"}"#)
            try await fleet.wait("d", for: .completed)
            #expect(try await fleet.state("r") == nil)
            try await fleet.withWorker("new") {
                let record = try await end(fleet, "r")
                #expect(record.state == .completed)
            }
        }
    }
}
