import HaulBus
import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulWorker

@Suite("max_running over a fleet")
struct LimitTests {
    @Test("a free permit is taken at once, without a tick or another worker's call") func busy() async throws {
        let fleet = try await Fleet()
        let jobs = 200
        let bytes = FileBytes(seed: 5, count: 1000)
        let origin = try OriginServer { OriginReply.file(bytes, to: $0) }
        try await fleet.queue.setSetting("max_running", to: "3")
        for number in 0..<jobs { try await fleet.push(#"{"url":"\#(origin.url("/\(number)"))","id":"\#(number)"}"#) }
        try await fleet.queue.redis.send(Command("CONFIG", "RESETSTAT"))
        try await fleet.withWorker("one") {
            try await fleet.withWorker("two") {
                // With a tick for each job this would take more than a minute.
                try await eventually("all to be completed", within: .seconds(25), every: .milliseconds(100)) {
                    try await fleet.queue.stats().counts[.completed] == jobs
                }
            }
        }
        let text = try await fleet.queue.redis.send(Command("INFO", "commandstats")).string ?? ""
        let line = try #require(text.split(separator: "\r\n").first { $0.hasPrefix("cmdstat_fcall:calls=") })
        let calls = try #require(Int(line.dropFirst(20).prefix { $0 != "," }))
        // One call for each job, and the ticks and waits of at most 25 seconds.
        #expect(calls < jobs + 150)
    }

    @Test("a permit that one worker releases is taken by another worker at once", arguments: [true, false])
    func handedOn(_ isCancelled: Bool) async throws {
        let fleet = try await Fleet()
        let latch = Latch()
        defer { latch.open() }
        let bytes = FileBytes(seed: 6, count: 100_000)
        let origin = try OriginServer { request in
            var reply = OriginReply.file(bytes, to: request)
            if request.path == "/first" { reply.hold = (1000, latch) }
            return reply
        }
        try await fleet.queue.setSetting("max_running", to: "1")
        let second = try fleet.worker("second") { $0.slots = 1 }
        var running: Task<Void, any Error>?
        defer { running?.cancel() }
        try await fleet.withWorker("one", slots: 1) {
            try await fleet.push(#"{"url":"\#(origin.url("/first"))","id":"first"}"#)
            try await fleet.wait("first", for: .running)
            running = Task { try await second.run() }
            try await fleet.push(#"{"url":"\#(origin.url("/second"))","id":"second"}"#)
            if isCancelled {
                try await fleet.queue.request(.cancelled, of: ["first"])
                try await fleet.wait("second", for: .completed)
            }
        }
        // The first worker has ended, and has put its job back if that still ran.
        latch.open()
        try await fleet.wait("second", for: .completed)
        try await fleet.wait("first", for: isCancelled ? .cancelled : .completed)
        running?.cancel()
        try await running?.value
        try await fleet.expectOrder()
    }
}
