import Foundation
import HaulTestSupport
import Testing

@Suite struct EventsCommandTests {
    private let bench: CommandBench

    init() async throws {
        bench = try await CommandBench()
        try await bench.server.cli("HSET", "haul:{default}:settings", "event_stream", "1000")
    }

    /// Adds an event of this moment, and returns its entry.
    private func keep(_ id: String) async throws -> String {
        let at = Int64(Date().timeIntervalSince1970 * 1000)
        let event = #"{"v":1,"event":"completed","id":"\#(id)","queue":"default","epoch":1,"seq":\#(at),"at":\#(at)}"#
        return try await bench.server.cli(
            "XADD", "haul:{default}:log", "*", "event", "completed", "id", id, "data", event)
    }

    @Test("`--since` says from when on the queue has kept events, unless it has kept all that is asked for")
    func since() async throws {
        _ = try await keep("a")
        let early = try await bench.haul("events", "--since", "1h")
        #expect(early.status == 0 && early.out.contains("a") && early.err.contains("keeps no event from before"))
        let all = try await bench.haul("events")
        #expect(all.status == 0 && all.out == early.out && all.err.isEmpty, "\(all.err)")
    }

    @Test("`--follow` says where events may be missing, and goes on") func missing() async throws {
        let entry = try await keep("first")
        let process = try bench.start(["events", "--follow"])
        try await eventually("the first event", within: .seconds(30)) { process.standardOutput.contains("first") }
        try await bench.server.cli("XDEL", "haul:{default}:log", entry)
        _ = try await keep("second")
        try await eventually("the second event", within: .seconds(30)) { process.standardOutput.contains("second") }
        #expect(process.standardError.contains("events may be missing here"), "\(process.standardError)")
        process.kill(SIGTERM)
        _ = try await process.wait()
    }
}
