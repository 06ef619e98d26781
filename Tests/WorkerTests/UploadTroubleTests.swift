import HaulBus
import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulWorker

@Suite("Servers that do odd things with uploads", .timeLimit(.minutes(2)))
struct UploadTroubleTests {
    private let bytes = FileBytes(seed: 8, count: 3_000_000).all

    private func fleet() async throws -> Fleet {
        let fleet = try await Fleet()
        try fleet.place("f", bytes)
        return fleet
    }

    @Test("interim responses do not count as the response", arguments: [100, 102, 103])
    func interim(_ status: Int) async throws {
        let origin = try OriginServer(intake: { _ in
            var intake = OriginIntake()
            intake.preamble = "HTTP/1.1 \(status) Interim\r\nLink: </a>\r\n\r\n"
            return intake
        }) { _ in OriginReply(201) }
        let fleet = try await fleet()
        try await fleet.withWorker("w") {
            let record = try await fleet.upload("f", origin.url("/f"), #""file":"f""#)
            #expect(record.state == .completed && record["status"] == "201", "\(record["message"] ?? "")")
            #expect(origin.requests.map(\.body.bytes) == [bytes])
        }
    }

    @Test(
        "a 401 is answered with the URL's login, and is the response if there is none",
        arguments: ["PUT", "POST"])
    func challenge(_ method: String) async throws {
        let origin = try OriginServer { request in
            guard request.headers["authorization"]?.hasPrefix("Digest ") == true else {
                let demand = #"Digest realm="r", nonce="n", qop="auth", algorithm=SHA-256"#
                return OriginReply(401, headers: [("WWW-Authenticate", demand)])
            }
            return OriginReply(201)
        }
        let fleet = try await fleet()
        let url = origin.url("/f")
        try await fleet.withWorker("w") {
            let more = #""file":"f","method":"\#(method)","retries":0"#
            let none = try await fleet.upload("none", url, more)
            #expect(none.state == .failed && none["error"] == "http_401" && none["status"] == "401")
            let login = try await fleet.upload(
                "login", url.replacing("http://", with: "http://a:b@"), more)
            #expect(login.state == .completed && login["received"] == "3000000", "\(login["message"] ?? "")")
            #expect(origin.requests.last?.body.bytes == bytes)
        }
    }

    @Test("a response of 10 GB is not read to its end, and is not kept", arguments: ["announced", "endless"])
    func response(_ how: String) async throws {
        let file = FileBytes(seed: 9, count: 10_000_000_000)
        let origin = try OriginServer { _ in
            var reply = OriginReply(200)
            reply.body = .file(file, 0..<file.count)
            if how == "endless" { reply.framing = .chunked }
            return reply
        }
        let fleet = try await fleet()
        try await fleet.withWorker("w") {
            let record = try await fleet.upload("f", origin.url("/f"), #""file":"f","retries":0"#)
            #expect(record.state == .failed && record["error"] == "too_large", "\(record["message"] ?? "")")
            #expect(record["message"]?.contains("max_response") == true && record["body"] == nil)
            #expect(origin.bytesSent("/f") < 100_000_000)
        }
    }

    @Test("a response that refuses the body in its middle counts", arguments: [403, 413, 507])
    func middle(_ status: Int) async throws {
        let server = RawServer { connection in
            guard connection.readRequest() != nil else { return }
            connection.send("HTTP/1.1 100 Continue\r\n\r\n")
            _ = connection.peek(100_000)
            connection.send("HTTP/1.1 \(status) Early\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno")
            connection.waitForClose()
        }
        defer { server.stop() }
        let fleet = try await fleet()
        try await fleet.withWorker("w") {
            let record = try await fleet.upload("f", server.url, #""file":"f","retries":0"#)
            #expect(record.state == .failed && record["error"] == "http_\(status)", "\(record["message"] ?? "")")
            #expect(record["status"] == "\(status)" && record["body"] == "no" && server.connections == 1)
        }
    }

    @Test("the queue's rate applies to uploads") func sharedRate() async throws {
        let origin = try OriginServer { _ in OriginReply() }
        let fleet = try await fleet()
        try await fleet.queue.setSetting("rate", to: "1000000")
        try await fleet.withWorker("w") {
            // The worker knows the limit from its first tick.
            try await fleet.push(#"{"url":"\#(origin.url("/first"))","id":"first"}"#)
            try await fleet.wait("first", for: .completed)
            let begun = ContinuousClock.now
            let record = try await fleet.upload("f", origin.url("/f"), #""file":"f""#)
            #expect(record.state == .completed)
            #expect(ContinuousClock.now - begun > .seconds(1.5))
        }
    }
}
