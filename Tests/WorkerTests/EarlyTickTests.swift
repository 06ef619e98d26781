import Glibc
import HaulBus
import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulWorker

/// What a worker reports to Redis between two ticks for the whole queue.
@Suite struct EarlyTickTests {
    @Test("a message about a pending operation makes the worker report that run, and no other")
    func hint() async throws {
        let fleet = try await Fleet()
        let latch = Latch()
        defer { latch.open() }
        let origin = try OriginServer { request in
            var reply = OriginReply.file(FileBytes(seed: 5, count: 200_000), to: request)
            reply.hold = (70_000, latch)
            return reply
        }
        let ids = (0..<40).map { "job-\($0)" }
        try await fleet.withWorker("w", slots: 40) {
            for id in ids { try await fleet.push(#"{"url":"\#(origin.url("/\(id)"))","id":"\#(id)"}"#) }
            for id in ids { try await fleet.wait(id, for: .running) }
            let monitor = try ChildProcess("redis-cli", ["-s", fleet.server.socket, "monitor"])
            try await eventually { monitor.standardOutput.hasPrefix("OK") }
            /// The ids of the runs that each call reports.
            func calls(_ function: String) -> [[String]] {
                let lines = monitor.standardOutput.split(separator: "\n").filter { $0.contains("_\(function)\"") }
                return lines.map { line in ids.filter { line.contains("\"\($0)\"") } }
            }
            try await eventually("a tick that reports all runs in two calls") {
                calls("tick").contains { $0.count == Tick.maxRuns } && calls("tick").contains { $0.count == 8 }
            }
            // A full tick at the same time may have reported the run already.
            var isAlone = false
            for id in ids.prefix(10) where !isAlone {
                try await fleet.queue.redis.send(Command("PUBLISH", fleet.queue.keys.control, id))
                isAlone = (try? await eventually("a call", within: .seconds(2)) { calls("tick").contains([id]) }) != nil
            }
            #expect(isAlone)
            try await fleet.queue.request(.paused, of: ["job-7"])
            try await fleet.wait("job-7", for: .paused)
            monitor.kill(SIGTERM)
            _ = try await monitor.wait()
            latch.open()
            for id in ids where id != "job-7" { try await fleet.wait(id, for: .completed) }
        }
    }

    @Test("the limits of thousands of hosts are not read again with each tick") func limits() async throws {
        let fleet = try await Fleet()
        for page in 0..<20 {
            let fields = (0..<500).flatMap { ["h\(page * 500 + $0)", #"{"rate":1000}"#] }
            try await fleet.queue.redis.send(Command(arguments: ["HSET", fleet.queue.keys.limits] + fields))
        }
        try await fleet.withWorker("w") {
            let monitor = try ChildProcess("redis-cli", ["-s", fleet.server.socket, "monitor"])
            func count(_ text: String) -> Int {
                monitor.standardOutput.split(separator: "\n").count { $0.contains(text) }
            }
            try await eventually("the limits to be read") { count(#""HGETALL" "haul:{default}:limits""#) > 0 }
            let (ticks, reads) = (count("_tick\""), count(#""HGETALL" "haul:{default}:limits""#))
            try await eventually("six more ticks", within: .seconds(60)) { count("_tick\"") >= ticks + 6 }
            #expect(count(#""HGETALL" "haul:{default}:limits""#) <= reads + 2)
            monitor.kill(SIGTERM)
            _ = try await monitor.wait()
        }
    }
}
