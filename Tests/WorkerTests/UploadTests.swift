import Foundation
import HaulBus
import HaulContract
import HaulRedis
import HaulTestSupport
import Synchronization
import Testing

@testable import HaulWorker

/// Helpers for the tests of uploads.
extension Fleet {
    /// Writes a file into the root.
    func place(_ name: String, _ bytes: [UInt8]) throws {
        let url = URL(filePath: root.path).appending(path: name)
        try FileManager.default.createDirectory(at: url.deletingLastPathComponent(), withIntermediateDirectories: true)
        try Data(bytes).write(to: url)
    }

    func end(_ id: String) async throws -> JobRecord {
        var record: JobRecord?
        try await eventually("\(id) to end", within: .seconds(40)) {
            record = try await queue.job(id)
            return record?.hasEnded ?? false
        }
        return try #require(record)
    }

    func upload(_ id: String, _ url: String, _ more: String) async throws -> JobRecord {
        try await push(#"{"kind":"upload","id":"\#(id)","url":"\#(url)",\#(more)}"#)
        return try await end(id)
    }
}

@Suite("Uploads", .timeLimit(.minutes(2)))
struct UploadTests {
    private static let big = FileBytes(seed: 3, count: 24 << 20).all
    private let bytes = Array(UploadTests.big.prefix(3_000_000))

    @Test("a file of any size is sent as the body, with its digest if asked for, and the response is kept")
    func file() async throws {
        let origin = try OriginServer {
            OriginReply(201, headers: [("ETag", "\"7\"")], body: Array("got \($0.path)".utf8))
        }
        let fleet = try await Fleet()
        try fleet.place("a/big file.bin", bytes)
        try fleet.place("empty", [])
        try await fleet.withWorker("w") {
            let put = try await fleet.upload(
                "put", origin.url("/x/?q=1"), #""file":"a/big file.bin","content_digest":"sha-256","query":{"n":2}"#)
            #expect(put.state == .completed && put["status"] == "201" && put["etag"] == "\"7\"")
            #expect(put["body"] == "got /x/big%20file.bin?q=1&n=2" && put["received"] == "3000000")
            let request = try #require(origin.requests.last)
            #expect(request.method == "PUT" && request.body.bytes == bytes)
            #expect(request.headers["content-length"] == "3000000")
            #expect(request.headers["content-type"] == "application/octet-stream")
            let digest = Base64.encode(SHA256.digest(bytes))
            #expect(request.headers["content-digest"] == "sha-256=:\(digest):")
            let post = try await fleet.upload(
                "post", origin.url("/y"),
                #""file":"empty","method":"POST","headers":{"Content-Type":"a/b","X":"y"},"expect":[204]"#)
            #expect(post.state == .failed && post["error"] == "http_201" && post["body"] == "got /y")
            let empty = try #require(origin.requests.last)
            #expect(empty.method == "POST" && empty.body.isWhole && empty.headers["content-length"] == "0")
            #expect(empty.headers["content-type"] == "a/b" && empty.headers["x"] == "y")
        }
    }

    @Test("several files are sent as one multipart form, with its fields") func form() async throws {
        let origin = try OriginServer { _ in OriginReply() }
        let fleet = try await Fleet()
        try fleet.place("a.bin", bytes)
        try fleet.place("b.txt", Array("text".utf8))
        try await fleet.withWorker("w") {
            let record = try await fleet.upload(
                "f", origin.url("/form"),
                #""files":[{"file":"a.bin"},{"file":"b.txt","name":"no\"te","type":"text/plain","filename":"ü.txt"}],"#
                    + #""form":{"title":"Ünï","n":1}"#)
            #expect(record.state == .completed && record["received"] == "3000004")
        }
        let request = try #require(origin.requests.first)
        let type = try #require(request.headers["content-type"])
        let boundary = try #require(type.split(separator: "boundary=").last.map(String.init))
        #expect(request.method == "POST" && type == "multipart/form-data; boundary=\(boundary)")
        var expected: [UInt8] = []
        func add(_ text: String) { expected += Array(text.utf8) }
        add("--\(boundary)\r\nContent-Disposition: form-data; name=\"title\"\r\n\r\nÜnï\r\n")
        add("--\(boundary)\r\nContent-Disposition: form-data; name=\"n\"\r\n\r\n1\r\n")
        add("--\(boundary)\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.bin\"\r\n")
        add("Content-Type: application/octet-stream\r\n\r\n")
        expected += bytes
        add("\r\n--\(boundary)\r\nContent-Disposition: form-data; name=\"no%22te\"; filename=\"ü.txt\"\r\n")
        add("Content-Type: text/plain\r\n\r\ntext\r\n--\(boundary)--\r\n")
        #expect(request.body.bytes == expected && request.headers["content-length"] == "\(expected.count)")
    }

    @Test("with `each` the files that failed are named, and only they are sent again") func each() async throws {
        let origin = try OriginServer { request in
            OriginReply(request.path == "/b" && request.number == 1 ? 503 : request.path == "/c" ? 404 : 200)
        }
        let fleet = try await Fleet()
        for name in ["a", "b", "c", "d"] { try fleet.place(name, Array(name.utf8)) }
        try await fleet.withWorker("w") {
            let three = #""files":[{"file":"a"},{"file":"b"},{"file":"d"}],"each":true"#
            let record = try await fleet.upload("three", origin.url("/"), three)
            #expect(record.state == .completed && record["received"] == "3")
            #expect(
                record["files"]
                    == #"[{"file":"a","status":200},{"file":"b","status":200},{"file":"d","status":200}]"#)
            #expect(origin.requests.map(\.path) == ["/a", "/b", "/d", "/b"])
            let all = try await fleet.upload(
                "all", origin.url("/"), #""files":[{"file":"a"},{"file":"c"},{"file":"d"}],"each":true,"retries":0"#)
            #expect(all.state == .failed && all["error"] == "http_404")
            #expect(all["message"]?.hasPrefix("1 of 3 files were not sent (c): ") == true)
            #expect(
                all["files"]
                    == #"[{"file":"a","status":200},{"file":"c","status":404,"error":"http_404"},{"file":"d","status":200}]"#
            )
            // A retry by a user sends what is missing.
            let before = origin.requests.count
            try await fleet.queue.request(.running, of: ["all"])
            try await eventually { origin.requests.count > before }
            _ = try await fleet.end("all")
            #expect(origin.requests[before...].map(\.path) == ["/c"])
        }
    }

    @Test("two files that `each` would put under one URL are not sent, because the second would replace the first")
    func equalNames() async throws {
        let origin = try OriginServer { _ in OriginReply(200) }
        let fleet = try await Fleet()
        for name in ["a/film", "b/film"] { try fleet.place(name, Array(name.utf8)) }
        try await fleet.withWorker("w") {
            let files = #""files":[{"file":"a/film"},{"file":"b/film"}],"each":true,"retries":0"#
            for (id, path) in [("folder", "/"), ("name", "/x?y=/")] {
                let record = try await fleet.upload(id, origin.url(path), files)
                #expect(record.state == .failed && record["error"] == "bad_job", "\(record.fields)")
                #expect(record["message"]?.hasPrefix("a/film and b/film would both be sent to ") == true)
            }
            #expect(origin.requests.isEmpty)
            // With other names, or by POST to a URL that takes them one after another, nothing is replaced.
            let named = #""files":[{"file":"a/film"},{"file":"b/film","filename":"g"}],"each":true"#
            #expect(try await fleet.upload("named", origin.url("/"), named).state == .completed)
            let posted = try await fleet.upload("posted", origin.url("/inbox"), #""method":"POST",\#(files)"#)
            #expect(posted.state == .completed)
            #expect(origin.requests.map(\.path) == ["/film", "/g", "/inbox", "/inbox"])
        }
    }

    @Test(
        "a file that cannot be sent fails with the reason, before a server is asked",
        arguments: [
            ("none", "source_missing"), ("out", "path_forbidden"), ("directory", "bad_job"), ("pipe", "bad_job"),
            ("a/b", "source_missing"),
        ])
    func missing(_ file: String, _ code: String) async throws {
        let origin = try OriginServer { _ in OriginReply() }
        let fleet = try await Fleet()
        let outside = TemporaryDirectory()
        try Data("secret".utf8).write(to: URL(filePath: outside.path).appending(path: "f"))
        symlink(outside.path + "/f", fleet.root.path + "/out")
        mkdir(fleet.root.path + "/directory", 0o777)
        mkfifo(fleet.root.path + "/pipe", 0o666)
        try fleet.place("a", [1])
        try fleet.place("real", [7])
        symlink("real", fleet.root.path + "/inner")
        try await fleet.withWorker("w") {
            let record = try await fleet.upload("x", origin.url("/x"), #""file":"\#(file)""#)
            #expect(record.state == .failed && record["error"] == code, "\(record["message"] ?? "")")
            #expect(record["retryable"] == "0" && origin.connections == 0)
            let inner = try await fleet.upload("inner", origin.url("/x"), #""file":"inner""#)
            #expect(inner.state == .completed && origin.requests.last?.body.bytes == [7])
        }
    }

    @Test(
        "a file that changes while it is sent fails, and never arrives whole",
        arguments: ["grow", "shrink", "touch", "replace", "vanish"])
    func changed(_ how: String) async throws {
        let latch = Latch()
        let origin = try OriginServer(intake: { _ in
            var intake = OriginIntake()
            intake.hold = (100_000, latch)
            return intake
        }) { _ in OriginReply() }
        let fleet = try await Fleet()
        let big = Self.big
        try fleet.place("f", big)
        let path = fleet.root.path + "/f"
        try await fleet.withWorker("w") {
            try await fleet.push(#"{"kind":"upload","id":"f","url":"\#(origin.url("/f"))","file":"f"}"#)
            try await eventually { origin.bytesReceived("/f") == 100_000 }
            switch how {
            case "grow":
                let file = try FileHandle(forWritingTo: URL(filePath: path))
                try file.seekToEnd()
                try file.write(contentsOf: Data([1]))
            case "shrink": truncate(path, 1000)
            case "touch":
                try FileManager.default.setAttributes(
                    [.modificationDate: Date(timeIntervalSince1970: 1)], ofItemAtPath: path)
            case "replace":
                try Data(big).write(to: URL(filePath: path + "2"))
                rename(path + "2", path)
            default: unlink(path)
            }
            latch.open()
            let record = try await fleet.end("f")
            #expect(record.state == .failed && record["error"] == "source_changed", "\(record["message"] ?? "")")
            #expect(origin.requests.allSatisfy { !$0.body.isWhole })
        }
    }

    @Test(
        "a POST is sent once, and a PUT is retried",
        arguments: [
            ("PUT", "cut"), ("POST", "cut"), ("POST", "hang"), ("PUT", "hang"), ("POST", "unsent"), ("key", "cut"),
        ])
    func once(_ method: String, _ fault: String) async throws {
        let bodies = Mutex(0)
        let origin = try OriginServer(intake: { request in
            var intake = OriginIntake()
            if request.number == 1, fault == "cut" { (intake.cut, intake.isReset) = (100_000, true) }
            return intake
        }) { request in
            bodies.withLock { $0 += 1 }
            var reply = OriginReply()
            if request.number == 1, fault == "hang" { reply.delay = .seconds(3) }
            return reply
        }
        let listener = try LoopbackListener()
        let port = listener.port
        listener.stop()
        let fleet = try await Fleet()
        try fleet.place("f", bytes)
        let more = method == "key" ? #","method":"POST","idempotent":true"# : #","method":"\#(method)""#
        let url = fault == "unsent" ? "http://127.0.0.1:\(port)/f" : origin.url("/f")
        try await fleet.withWorker("w") {
            let record = try await fleet.upload("f", url, #""file":"f","stall_timeout":1,"retries":1\#(more)"#)
            if fault == "unsent" {
                #expect(record["error"] == "connect" && record["attempt"] == "1" && record["retryable"] == "1")
            } else if method == "POST" {
                #expect(record["error"] == "outcome_unknown" && origin.requests.count <= 1)
                // A retry by a user permits a second POST.
                try await fleet.queue.request(.running, of: ["f"])
                try await fleet.wait("f", for: .completed)
            } else {
                #expect(record.state == .completed && origin.requests.last?.body.bytes == bytes)
            }
        }
    }

    @Test("a response before the whole body has arrived counts, but never as success", arguments: [413, 401, 417, 200])
    func early(_ status: Int) async throws {
        let origin = try OriginServer(intake: { request in
            var intake = OriginIntake()
            if status != 417 || request.headers["expect"] != nil {
                intake.refusal = OriginReply(status, body: Array("no".utf8))
            }
            return intake
        }) { _ in OriginReply(201) }
        let fleet = try await Fleet()
        try fleet.place("f", bytes)
        try await fleet.withWorker("w") {
            let record = try await fleet.upload("f", origin.url("/f"), #""file":"f","retries":0"#)
            switch status {
            case 417: #expect(record.state == .completed && record["status"] == "201")
            case 200: #expect(record["error"] == "incomplete" && record["status"] == "200")
            default: #expect(record["error"] == "http_\(status)" && record["body"] == "no")
            }
            #expect(origin.bytesReceived("/f") == (status == 417 ? Int64(bytes.count) : 0))
        }
    }

    @Test(
        "a redirect takes the file along, except 303, which is followed by a GET", arguments: [301, 302, 303, 307, 308])
    func redirect(_ status: Int) async throws {
        let other = try OriginServer { _ in OriginReply(body: Array("there".utf8)) }
        let origin = try OriginServer { _ in OriginReply(status, headers: [("Location", other.url("/b"))]) }
        let fleet = try await Fleet()
        try fleet.place("f", Array("data".utf8))
        try await fleet.withWorker("w") {
            let record = try await fleet.upload(
                "f", origin.url("/a"), #""file":"f","method":"POST","headers":{"Authorization":"Bearer x"}"#)
            #expect(record.state == .completed && record["body"] == "there")
        }
        let seen = try #require(other.requests.first)
        #expect(seen.method == (status == 303 ? "GET" : "POST"))
        #expect(seen.body.text == (status == 303 ? "" : "data") && seen.headers["authorization"] == nil)
    }

    @Test("an upload reports bytes sent, keeps its rate limit, and obeys pause, cancel and deadline")
    func steered() async throws {
        let origin = try OriginServer { _ in OriginReply() }
        let fleet = try await Fleet()
        try fleet.place("f", bytes)
        try await fleet.withWorker("w") {
            for id in ["paused", "cancelled", "late"] {
                let deadline = id == "late" ? #","deadline":2"# : ""
                try await fleet.push(
                    #"{"kind":"upload","id":"\#(id)","url":"\#(origin.url("/" + id))","file":"f","limit_rate":300000\#(deadline)}"#
                )
            }
            try await eventually("progress") {
                let received = try await fleet.queue.job("paused")?.integer("received") ?? 0
                return received > 100_000 && received < 3_000_000
            }
            #expect(try await fleet.queue.job("paused")?["total"] == "3000000")
            try await fleet.queue.request(.paused, of: ["paused"])
            try await fleet.queue.request(.cancelled, of: ["cancelled"])
            try await fleet.wait("paused", for: .paused)
            try await fleet.wait("cancelled", for: .cancelled)
            let late = try await fleet.end("late")
            #expect(late["error"] == "deadline")
            #expect(origin.requests.allSatisfy { !$0.body.isWhole })
            try await fleet.queue.request(.cancelled, of: ["paused"])
            try await fleet.wait("paused", for: .cancelled)
        }
    }
}
