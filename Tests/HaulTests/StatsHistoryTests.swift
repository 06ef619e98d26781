import Foundation
import HaulContract
import HaulTestSupport
import Testing

@Suite struct StatsHistoryTests {
    @Test("the history is printed as rows of bars, and as objects") func history() async throws {
        let fleet = try await ProcessFleet(held: nil)
        func stats(_ more: String...) async throws -> String {
            let process = try ChildProcess("haul", ["stats", "--history", "--redis", fleet.server.url] + more)
            #expect(try await process.wait() == 0)
            return process.standardOutput
        }
        #expect(try await stats() == "nothing has happened in the last 48 hours\n")
        let worker = try ChildProcess(
            "haul", fleet.arguments("w") + ["--http", "unix:" + fleet.root.file(".http"), "--export-queues"])
        try await fleet.push("one")
        try await fleet.push("two")
        try await fleet.push("http://127.0.0.1:1/", as: "refused", more: #","retries":0"#)
        for id in ["one", "two"] { try await fleet.wait(id, for: "completed") }
        try await fleet.wait("refused", for: "failed")
        try await eventually("the ticks to report it") {
            try await fleet.server.cli("HMGET", "haul:{default}:totals", "completed", "failed", "received")
                == "2\n1\n\(2 * ProcessFleet.bytes.count)"
        }
        let objects = try await stats("--json").split(separator: "\n").map { try JSON($0.utf8) }
        #expect(objects.reduce(0) { $0 + ($1["completed"]?.integer ?? 0) } == 2)
        #expect(objects.reduce(0) { $0 + ($1["received"]?.integer ?? 0) } == 2 * ProcessFleet.bytes.count)
        let text = try await stats()
        #expect(text.contains("The last hour, by the minute:") && text.contains("The last two days, by the hour:"))
        #expect(text.contains(#/completed {9}2 [▁-█_.:=+*#-]{60}\n/#), "\(text)")
        #expect(text.contains(#/failed {12}1 [▁-█_.:=+*#-]{48}\n/#), "\(text)")
        #expect(text.contains("received     3.2 MB "))
        #expect(text.split(separator: "\n").allSatisfy { $0.count <= 80 })

        let curl = try ChildProcess(
            "curl", ["-s", "--unix-socket", fleet.root.file(".http"), "http://worker/metrics"])
        #expect(try await curl.wait() == 0)
        try await Promtool.check(curl.standardOutput)
        #expect(curl.standardOutput.contains("haul_queue_events_total{queue=\"default\",event=\"completed\"} 2\n"))
        #expect(curl.standardOutput.contains("haul_queue_jobs{queue=\"default\",state=\"failed\"} 1\n"))
        #expect(curl.standardOutput.contains("haul_queue_failures_total{queue=\"default\",code=\"connect\"} 1\n"))
        let bytes = 2 * ProcessFleet.bytes.count
        #expect(curl.standardOutput.contains("haul_queue_received_bytes_total{queue=\"default\"} \(bytes)\n"))
        try await fleet.end(worker)
    }
}
