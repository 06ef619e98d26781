import Foundation
import Glibc
import HaulTestSupport
import Testing

/// Requests through real workers that are killed, and `haul call`.
@Suite(.timeLimit(.minutes(3))) struct CallTests {
    /// When the worker is killed.
    enum Stage: CaseIterable {
        /// It waits for its turn at the host: nothing has been sent.
        case waiting
        /// The server has the request, and has not answered.
        case sent
        /// The server has answered, and Redis does not have the result.
        case responded
    }

    @Test("a POST is sent once, whenever its worker is killed", arguments: Stage.allCases)
    func killed(_ stage: Stage) async throws {
        let latch = Latch()
        let origin = try OriginServer { request in
            if request.path == "/blocker" || stage != .waiting && request.path == "/post" { latch.wait() }
            return OriginReply(body: Array("ok".utf8))
        }
        let fleet = try await ProcessFleet()
        let one = try ChildProcess("haul", fleet.arguments("one") + ["--connections-per-host", "1"])
        if stage == .waiting {
            try await fleet.push(origin.url("/blocker"), as: "blocker", more: #","kind":"request""#)
            try await eventually("the other request") { origin.requests.contains { $0.path == "/blocker" } }
        }
        try await fleet.push(origin.url("/post"), as: "post", more: #","kind":"request","method":"POST","retries":9"#)
        switch stage {
        case .waiting: try await fleet.wait("post", for: "running")
        case .sent: try await eventually("the request") { origin.requests.contains { $0.path == "/post" } }
        case .responded:
            try await eventually("the request") { origin.requests.contains { $0.path == "/post" } }
            // From now on Redis receives nothing.
            fleet.server.signal(SIGSTOP)
            latch.open()
            try await eventually("the answer") { origin.bytesSent("/post") == 2 }
        }
        one.kill(SIGKILL)
        _ = try? await one.wait()
        latch.open()
        if stage == .responded { fleet.server.signal(SIGCONT) }
        let two = try fleet.worker("two")
        try await eventually("the other worker to work", within: .seconds(40)) { two.standardError.contains("working") }
        let end = stage == .waiting ? "completed" : "failed"
        try await eventually("the job to end", within: .seconds(40), every: .milliseconds(50)) {
            ["completed", "failed"].contains(try await fleet.field("state", of: "post"))
        }
        // Redis may have received the settle before it was stopped.
        if stage != .responded { #expect(try await fleet.field("state", of: "post") == end) }
        if try await fleet.field("state", of: "post") == "failed" {
            #expect(try await fleet.field("error", of: "post") == "outcome_unknown")
        }
        #expect(origin.requests.filter { $0.path == "/post" }.count == 1)
        two.kill(SIGTERM)
        #expect(try await two.wait() == 0)
    }

    @Test("haul call prints the server's response, and its exit status shows success") func command() async throws {
        let bench = try await CommandBench()
        let origin = try OriginServer { request in
            switch request.path {
            case "/missing": OriginReply(404, body: Array("no such thing".utf8))
            case "/echo": OriginReply(201, headers: [("X-Method", request.method)], body: request.body.bytes)
            default: OriginReply(headers: [("ETag", "\"e\"")], body: Array("n\(request.number)".utf8))
            }
        }
        let worker = try bench.worker("one")
        let plain = try await bench.haul("call", "--queue", "default", origin.url("/a"), origin.url("/b"))
        #expect(plain.status == 0 && plain.out == "n1n1", "\(plain.err)")
        let echo = try await bench.haul(
            "call", "--queue", "default", "-i", origin.url("/echo"), "-d", "a=1", "-d", "@-", "-H", "X-A: b", "-u",
            "me:p@ss", input: "b=2")
        #expect(echo.status == 0 && echo.out.hasPrefix("HTTP 201\n") && echo.out.hasSuffix("\n\na=1&b=2"))
        let seen = try #require(origin.requests.last)
        #expect(seen.method == "POST" && seen.headers["x-a"] == "b")
        #expect(seen.headers["content-type"] == "application/x-www-form-urlencoded")
        #expect(seen.headers["authorization"] == "Basic bWU6cEBzcw==")
        let json = try await bench.haul(
            "call", "--queue", "default", origin.url("/echo"), "--json", "{\"a\": 1}", "-X", "PUT", "--query", "q=a b")
        #expect(json.status == 0, "\(json)")
        let put = try #require(origin.requests.last)
        #expect(put.method == "PUT" && put.path == "/echo?q=a+b")
        #expect(put.headers["content-type"] == "application/json" && put.headers["content-length"] == "8")
        let tags = ["--data-urlencode", "tag=a b", "--data-urlencode", "tag=c"]
        let tagged = try bench.start(["call", "--queue", "default", origin.url("/echo")] + tags)
        #expect(try await tagged.wait() == 0 && tagged.standardOutput == "tag=a+b&tag=c", "\(tagged.standardError)")
        let deep = String(repeating: "[", count: 64) + String(repeating: "]", count: 64)
        let nested = try await bench.haul("call", "--queue", "default", origin.url("/echo"), "--json", deep)
        #expect(nested.status == 2 && nested.err.contains("nested deeper than 64 levels"), "\(nested)")
        let missing = try await bench.haul("call", "--queue", "default", origin.url("/missing"))
        #expect(missing.status == 1 && missing.out == "no such thing" && missing.err.contains("http_404"))
        #expect(
            try await bench.haul("call", "--queue", "default", origin.url("/missing"), "--expect", "200-299,404").status
                == 0)
        let file = bench.root.file("body")
        #expect(
            try await bench.haul("call", "--queue", "default", origin.url("/echo"), "--data-binary", "x", "-o", file)
                .out == "")
        #expect(FileManager.default.contents(atPath: file) == Data("x".utf8))
        // Without a response a file stays as it was, and none is made.
        for output in [file, bench.root.file("none")] {
            let unsent = try await bench.haul(
                "call", "--queue", "default", "-o", output, "http://127.0.0.1:1/", "--retries", "0")
            #expect(unsent.status == 1 && unsent.err.contains("http://127.0.0.1:1/"), "\(unsent)")
        }
        #expect(FileManager.default.contents(atPath: file) == Data("x".utf8))
        #expect(!FileManager.default.fileExists(atPath: bench.root.file("none")))
        // The cache answers without the server.
        for _ in 1...2 {
            let fresh = try await bench.haul("call", "--queue", "default", "--fresh-for", "100", origin.url("/fresh"))
            #expect(fresh.out == "n1" && fresh.status == 0)
        }
        #expect(
            try await bench.haul("cache", "size", "--url", "*/fresh").out.hasPrefix("1 response, 2 B\nthe queue keeps ")
        )
        let list = try await bench.haul("cache", "list", "--json", "--url", "*/fresh", "--method", "get")
        let id =
            try #require(try JSONSerialization.jsonObject(with: Data(list.out.utf8)) as? [String: Any])["id"] as? String
        #expect(try await bench.haul("cache", "show", try #require(id)).out == "n1")
        #expect(try await bench.haul("cache", "size", "--older", "1h").out.hasPrefix("0 responses, 0 B\n"))
        #expect(try await bench.haul("cache", "clear", "--url", "*/fresh").out == "1 cleared\n")
        #expect(try await bench.haul("queue", "changes").out.contains("remove"))
        // A response that exceeds the queue's setting is dropped and reported.
        #expect(try await bench.haul("queue", "set", "max_responses_bytes", "0").status == 0)
        // The oldest responses are dropped first, some with each call.
        try await eventually("older responses to be dropped") {
            try await bench.haul("cache", "size").out.hasPrefix("0 responses")
        }
        let dropped = try await bench.haul("call", "--queue", "default", "--id", "dropped", origin.url("/a"))
        #expect(dropped.status == 0 && dropped.out.isEmpty && dropped.err.contains("the response was dropped"))
        let shown = try await bench.haul("cache", "show", "dropped")
        #expect(shown.status == 1 && shown.err.contains("max_responses_bytes"))
        #expect(try await bench.haul("show", "dropped").out.contains("HTTP 200 to GET; the response was dropped"))
        #expect(try await bench.haul("queue", "unset", "max_responses_bytes").status == 0)
        try await eventually("the fresh response to be dropped") {
            try await bench.haul("cache", "list", "--json", "--url", "*/fresh").out.isEmpty
        }
        let pushed = try await bench.haul("call", "--queue", "other", "--no-wait", "h.invalid/a", "-G", "-d", "q=1")
        #expect(pushed.status == 0, "\(pushed)")
        #expect(
            try await bench.server.cli("LRANGE", "haul:{other}:jobs", "0", "-1").contains(
                #""url":"https://h.invalid/a?q=1""#))
        for (arguments, words) in [
            (["call", "--queue", "default", origin.url("/a"), "-d", "x", "--json", "1"], "only one of"),
            (["call", "--queue", "default", "ftp://h/"], "url: must be"),
            (["call", "--queue", "default", origin.url("/a"), "--expect", "2xx"], "expect: must be"),
            (["call", "--queue", "default", "http://h/", "--json", "{"], "must be JSON"),
            (["call", "--queue", "default", origin.url("/a"), "-H", "x"], "Name: value"),
            (["call", "--queue", "default", origin.url("/a"), "-d", "@/no/such"], "cannot be read"),
            (["cache", "list", "--older", "x"], "--older"), (["worker", "--root", "/tmp", "--kinds", "x"], "--kinds"),
        ] {
            let process = try bench.start(arguments)
            #expect(try await process.wait() == 2, "\(arguments)")
            #expect(process.standardError.contains(words), "\(arguments): \(process.standardError)")
        }
        worker.kill(SIGTERM)
        #expect(try await worker.wait() == 0)
    }
}
