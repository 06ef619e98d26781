import Dispatch
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
        // Each other job waits for its turn, so that the test decides when it ends.
        let turns = DispatchSemaphore(value: 0)
        defer {
            latch.open()
            for _ in 0..<6 { turns.signal() }
        }
        let origin = try OriginServer { request in
            guard request.path == "/long" else {
                turns.wait()
                return OriginReply(body: Array("small".utf8))
            }
            var reply = OriginReply.file(FileBytes(seed: 1, count: 3000), to: request)
            reply.hold = (100, latch)
            return reply
        }
        let worker = try fleet.worker("w") { $0.slots = 6 }
        let task = Task { try await worker.run() }
        try await fleet.push(#"{"url":"\#(origin.url("/long"))","id":"long","connections":1}"#)
        try await fleet.wait("long", for: .running)
        for number in 0..<40 {
            try await fleet.push(#"{"url":"\#(origin.url("/\(number)"))","id":"j\#(number)","path":"\#(number)"}"#)
        }
        try await eventually("six running jobs") { try await fleet.queue.count(in: .running) == 6 }
        var configuration = WorkerConfiguration(
            redis: fleet.queue.redis.url, root: fleet.root.path, name: "w")
        configuration.slots = 2
        _ = try await worker.apply(configuration)
        for ended in 1...30 {
            turns.signal()
            try await eventually("\(ended) jobs") { try await fleet.queue.count(in: .completed) == ended }
            // Each of the five slots may begin one more job, and then ends.
            if ended >= 10 { #expect(try await fleet.queue.count(in: .running) <= 2) }
        }
        try await eventually("the next job") { try await fleet.queue.count(in: .running) == 2 }
        #expect(try await fleet.queue.count(in: .queued) == 9)
        #expect(try await fleet.state("long") == .running)
        latch.open()
        task.cancel()
        try await task.value
        try await fleet.expectOrder()
    }
}
