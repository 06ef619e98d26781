import HaulBus
import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulWorker

/// A limit of slots that changes while jobs run.
@Suite struct SlotsTests {
    @Test("no more slots end than a lower limit requires") func lowered() {
        let slots = Slots(limit: 5)
        for _ in 0..<5 { #expect(slots.take()) }
        slots.setLimit(3)
        let decisions = (0..<5).map { _ in slots.mayGoOn() }
        #expect(decisions == [false, false, true, true, true])
        #expect(slots.taken == 5 && !slots.take())
        slots.release(isEnding: true)
        #expect(slots.mayGoOn() && !slots.take())
        slots.release(isEnding: true)
        #expect(slots.mayGoOn() && !slots.take())
        slots.release(isEnding: false)
        #expect(slots.take() && !slots.take())
        slots.setLimit(4)
        #expect(slots.mayGoOn() && slots.take())
        slots.close()
        #expect(!slots.mayGoOn())
    }

    @Test("a lower number of slots applies while jobs wait, and a running job goes on") func reload() async throws {
        let fleet = try await Fleet()
        let latch = Latch()
        defer { latch.open() }
        let origin = try OriginServer { request in
            var reply = OriginReply(body: Array("small".utf8))
            if request.path == "/long" {
                reply = OriginReply.file(FileBytes(seed: 1, count: 3000), to: request)
                reply.hold = (100, latch)
            } else {
                reply.delay = .milliseconds(20)
            }
            return reply
        }
        let worker = try fleet.worker("w") { $0.slots = 6 }
        let task = Task { try await worker.run() }
        try await fleet.push(#"{"url":"\#(origin.url("/long"))","id":"long","connections":1}"#)
        try await fleet.wait("long", for: .running)
        func push(_ numbers: Range<Int>) async throws {
            for number in numbers {
                try await fleet.push(#"{"url":"\#(origin.url("/\(number)"))","id":"j\#(number)","path":"\#(number)"}"#)
            }
        }
        /// The largest number of running jobs that was seen until this many jobs have ended.
        func most(until count: Int) async throws -> Int {
            var most = 0
            try await eventually("\(count) jobs", within: .seconds(60), every: .milliseconds(2)) {
                let stats = try await fleet.queue.stats()
                most = max(most, stats.counts[.running] ?? 0)
                return stats.counts[.completed] ?? 0 >= count
            }
            return most
        }
        try await push(0..<400)
        _ = try await most(until: 20)
        var configuration = WorkerConfiguration(
            redis: fleet.queue.redis.url, root: fleet.root.path, name: "w")
        configuration.slots = 2
        _ = try await worker.apply(configuration)
        let applied = try await fleet.queue.stats().counts[.completed] ?? 0
        // Each slot may end one more job.
        _ = try await most(until: applied + 10)
        #expect(try await most(until: applied + 100) == 2)
        #expect(try await fleet.queue.stats().counts[.queued] ?? 0 > 0)
        #expect(try await fleet.state("long") == .running)
        latch.open()
        task.cancel()
        try await task.value
        try await fleet.expectOrder()
    }
}
