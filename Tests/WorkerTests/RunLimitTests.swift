import HaulBus
import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulWorker

@Suite("Limits of a run that its job cannot lift", .timeLimit(.minutes(1)))
struct RunLimitTests {
    private let file = FileBytes(seed: 8, count: 3_000_000)

    @Test("max_seconds ends a run as too_slow, and the next run continues where it was") func seconds() async throws {
        let fleet = try await Fleet()
        let latch = Latch()
        defer { latch.open() }
        let origin = try OriginServer { [file] request in
            var reply = OriginReply.file(file, to: request)
            if request.number == 1 { reply.hold = (after: 1_500_000, until: latch) }
            return reply
        }
        try await fleet.queue.set(.maxSeconds, to: "2")
        try await fleet.withWorker("w") {
            let record = try await fleet.download("j", origin.url("/"), #","path":"f","connections":1,"deadline":60"#)
            #expect(record.state == .completed, "\(record["error"] ?? "") \(record["message"] ?? "")")
        }
        #expect(origin.requests.count >= 2 && origin.requests.last?.headers["range"] != nil)
    }

    @Test("a run that never ends fails as too_slow once its retries are spent, and names the limit")
    func spent() async throws {
        let fleet = try await Fleet()
        let latch = Latch()
        defer { latch.open() }
        let origin = try OriginServer { [file] request in
            var reply = OriginReply.file(file, to: request)
            reply.hold = (after: 10, until: latch)
            return reply
        }
        try await fleet.queue.setLimit(of: "127.0.0.1", to: #"{"max_seconds":1}"#)
        try await fleet.withWorker("w") {
            let record = try await fleet.download("j", origin.url("/"), #","path":"f","retries":0"#)
            #expect(record.state == .failed && record["error"] == "too_slow" && record["retryable"] == "1")
            #expect(
                record["message"]?.contains("1 seconds that max_seconds allows") == true, "\(record["message"] ?? "")")
        }
    }

    @Test("a limit of time does not end a request as undone whose outcome is unknown", arguments: [true, false])
    func request(isDeadline: Bool) async throws {
        let fleet = try await Fleet()
        let latch = Latch()
        defer { latch.open() }
        let origin = try OriginServer { _ in
            var reply = OriginReply(body: Array("late".utf8))
            reply.hold = (after: 1, until: latch)
            return reply
        }
        if !isDeadline { try await fleet.queue.set(.maxSeconds, to: "1") }
        let deadline = isDeadline ? #","deadline":1"# : ""
        try await fleet.withWorker("w") {
            try await fleet.push(
                #"{"kind":"request","id":"p","url":"\#(origin.url("/"))","body":"x","method":"POST"\#(deadline)}"#)
            let record = try await fleet.end("p")
            #expect(record.state == .failed && record["error"] == "outcome_unknown", "\(record["message"] ?? "")")
        }
        #expect(origin.requests.count == 1)
    }

    @Test("min_speed of the queue or the host ends a slow download, unless the job's own is stricter")
    func speed() async throws {
        let fleet = try await Fleet()
        let file = FileBytes(seed: 9, count: 500_000)
        func origin(_ pace: Int) throws -> OriginServer {
            try OriginServer { request in
                var reply = OriginReply.file(file, to: request)
                reply.pace = pace
                return reply
            }
        }
        // A slow run that receives as much as counts as progress elsewhere fails like one that receives hardly anything.
        let (fast, slow, strict) = (try origin(60_000), try origin(2_000), try origin(2_000))
        try await fleet.queue.set(.minSpeed, to: "10000")
        try await fleet.queue.setLimit(of: "127.0.0.1:\(strict.port)", to: #"{"min_speed":600000}"#)
        let jobs: [(id: String, origin: OriginServer, own: String, limit: Int?)] = [
            ("enough", fast, "", nil), ("slow", slow, "", 10_000), ("lifted", slow, #","min_speed":1"#, 10_000),
            ("steady", fast, #","min_speed":200000"#, 200_000),
            ("host", strict, #","min_speed":200000"#, 600_000), ("own", slow, #","min_speed":900000"#, 900_000),
        ]
        try await fleet.withWorker("w", slots: jobs.count, { $0.speedWindow = 2 }) {
            for job in jobs {
                let path = "\"path\":\"\(job.id)\",\"connections\":1,\"retries\":0"
                try await fleet.push(#"{"id":"\#(job.id)","url":"\#(job.origin.url("/"))",\#(path)\#(job.own)}"#)
            }
            for job in jobs {
                let record = try await fleet.end(job.id)
                guard let limit = job.limit else {
                    #expect(record.state == .completed, "\(record["message"] ?? "")")
                    continue
                }
                #expect(
                    record.state == .failed && record["error"] == "too_slow", "\(job.id) \(record["message"] ?? "")")
                #expect(record["message"]?.contains("slower than the \(limit) bytes") == true, "\(job.id)")
            }
        }
    }

    @Test("max_bytes of the queue refuses a file that its job would allow") func bytes() async throws {
        let fleet = try await Fleet()
        let origin = try OriginServer { [file] in OriginReply.file(file, to: $0) }
        try await fleet.queue.set(.maxBytes, to: "2999999")
        try await fleet.withWorker("w") {
            let record = try await fleet.download("j", origin.url("/"), #","path":"f","max_bytes":5000000"#)
            #expect(record.state == .failed && record["error"] == "too_large")
            #expect(record["message"]?.contains("2999999") == true)
            try await fleet.queue.set(.maxBytes, to: "3000000")
            #expect(
                try await fleet.download("k", origin.url("/"), #","path":"g","max_bytes":5000000"#).state == .completed)
        }
    }
}
