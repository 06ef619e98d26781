import Glibc
import HaulContract
import HaulTestSupport
import Testing

/// What `haul show` says of one job.
@Suite(.timeLimit(.minutes(2))) struct ShowCommandTests {
    private func push(_ element: String, until state: String, _ bench: CommandBench) async throws {
        let id = try #require(try JSON(element)["id"]?.string)
        try await bench.server.cli("LPUSH", "haul:{default}:jobs", element)
        try await eventually("\(id) to be \(state)") {
            try await bench.server.cli("HGET", "haul:{default}:job:\(id)", "state") == state
        }
    }

    @Test("a scheduled job says when it starts, for people and as in lists") func scheduled() async throws {
        let bench = try await CommandBench()
        let worker = try bench.worker("w")
        try await push(#"{"url":"http://127.0.0.1:1/","id":"later","delay":7200}"#, until: "scheduled", bench)
        let score = try await bench.server.cli("ZSCORE", "haul:{default}:scheduled", "later")
        let due = try #require(Int64(score))
        let shown = try await bench.haul("show", "later")
        let starts = ["119m", "2h"].map { "scheduled, starts in \($0)\n" }
        #expect(starts.contains { shown.out.contains($0) }, "\(shown)")
        #expect(shown.out.contains("\n  due ") && shown.err.isEmpty, "\(shown)")
        let json = try JSON(try await bench.haul("show", "later", "--json").out)
        #expect(json["timestamp"]?.integer == due, "\(json.text)")
        let listed = try JSON(try await bench.haul("list", "--state", "scheduled", "--json").out)
        #expect(listed["timestamp"]?.integer == due, "\(listed.text)")
        let all = try await bench.haul("show", "later", "--all").out
        #expect(all.contains("\ntimestamp") && all.contains(score), "\(all)")
        worker.kill(SIGTERM)
        #expect(try await worker.wait() == 0)
    }

    @Test("a job that waits for its next attempt says when that begins") func retried() async throws {
        let bench = try await CommandBench()
        let origin = try OriginServer { _ in OriginReply(503, headers: [("Retry-After", "3000")]) }
        let worker = try bench.worker("w")
        try await push(#"{"url":"\#(origin.url("/f"))","id":"again"}"#, until: "scheduled", bench)
        let shown = try await bench.haul("show", "again")
        #expect(shown.out.contains("scheduled, is tried again in "), "\(shown)")
        worker.kill(SIGTERM)
        #expect(try await worker.wait() == 0)
    }

    @Test("a job that joins a paused batch names the batch, and who has paused it", arguments: [true, false])
    func batch(isRecorded: Bool) async throws {
        let bench = try await CommandBench()
        let worker = try bench.worker("w")
        let element = #"{"url":"http://127.0.0.1:1/","batch":"night","delay":7200,"id":"#
        try await push(element + #""first"}"#, until: "scheduled", bench)
        #expect(try await bench.haul("show", "first").out.contains("night\n"))
        #expect(try await bench.haul("pause", "--batch", "night").status == 0)
        try await eventually("the batch to be paused") {
            try await bench.server.cli("HGET", "haul:{default}:batch:night", "want") == "paused"
        }
        if !isRecorded { try await bench.server.cli("DEL", "haul:{default}:changes") }
        try await push(element + #""late"}"#, until: "paused", bench)
        let shown = try await bench.haul("show", "late")
        #expect(shown.out.contains(isRecorded ? "paused by " : "paused with its batch night"), "\(shown)")
        #expect(shown.out.contains("night, paused" + (isRecorded ? " by " : "\n")), "\(shown)")
        worker.kill(SIGTERM)
        #expect(try await worker.wait() == 0)
    }
}
