import HaulContract
import HaulTestSupport
import Testing

@testable import HaulActivities

/// A download by another method than GET, which a server may execute each time that it is sent.
@Suite struct SentOnceTests {
    private static let bytes = FileBytes(seed: 81, count: 2000)

    private func job(_ url: String, _ change: (inout Job) -> Void) -> Job {
        var job = Job(id: "j", urls: [url])
        change(&job)
        return job
    }

    enum Fault: CaseIterable { case broken, refused, down }

    @Test("a POST that its server may have executed is not sent to another mirror", arguments: Fault.allCases)
    func mirrorOfPost(_ fault: Fault) async throws {
        let bench = try DownloadBench()
        let first = try OriginServer { request in
            var reply = OriginReply.file(Self.bytes, to: request)
            (reply.cut, reply.end) = (100, .reset)
            return fault == .refused ? OriginReply(503) : reply
        }
        let second = try OriginServer { .file(Self.bytes, to: $0) }
        let both = job(first.url("/a")) {
            $0.urls.append(second.url("/a"))
            $0.method = "POST"
        }
        if fault == .down { first.stop() }
        let outcome = await bench.run(both)
        switch fault {
        case .broken: #expect(outcome.code == .outcomeUnknown)
        case .refused: #expect(outcome.code == .http(503))
        case .down: #expect(outcome.file != nil, "nothing was sent to the first one")
        }
        #expect(second.requests.count == (fault == .down ? 1 : 0))
    }

    @Test("a request that an earlier run has sent is not sent again, unless it was a GET", arguments: ["GET", "POST"])
    func sent(method: String) async throws {
        let bench = try DownloadBench()
        let origin = try OriginServer { .file(Self.bytes, to: $0) }
        var assignment = Assignment(
            job: job(origin.url("/a")) { $0.method = method }, token: "t", key: String(repeating: "a", count: 40),
            clock: SharedClock(serverTime: UnixTime.milliseconds))
        assignment.wasSent = true
        let download = Download(assignment, bench.download(assignment.job).io, context: bench.context)
        let outcome = await download.outcome()
        #expect(method == "GET" ? outcome.file != nil : outcome.code == .outcomeUnknown)
        #expect(origin.requests.count == (method == "GET" ? 1 : 0))
    }
}
