import HaulActivities
import HaulBus
import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulWorker

/// When a run reports how far it is.
@Suite struct CheckpointTests {
    @Test("a checkpoint of many bytes is urgent, and a smaller one waits for its interval or its turn") func due() {
        var pace = CheckpointSchedule()
        let never = Duration.seconds(3600)
        #expect(pace.next(arrived: 0, interval: .zero) == nil)
        #expect(pace.next(arrived: 1, interval: never) == nil)
        #expect(pace.next(arrived: 1, interval: nil) == nil)
        #expect(pace.next(arrived: 1, interval: .zero) == .canWait)
        #expect(pace.next(arrived: 32 << 20, interval: never) == nil)
        #expect(pace.next(arrived: 32 << 20, interval: .zero) == .urgent)
        #expect(pace.next(arrived: 32 << 20, interval: .zero) == nil)
        #expect(pace.next(arrived: 64 << 20, interval: nil) == .urgent)
        pace.markStillDue()
        #expect(pace.next(arrived: 64 << 20, interval: never) == .urgent)
    }

    @Test("two hundred fast runs do not take the turns of a thousand slow runs") func turns() {
        let start = ContinuousClock.now
        var fast = Array(repeating: CheckpointSchedule(), count: 200)
        var slow = Array(repeating: (pace: CheckpointSchedule(), last: 0), count: 1000)
        for second in 1...100 {
            let now = start + .seconds(second)
            var budget = CheckpointBudget(runs: fast.count + slow.count)
            for index in fast.indices {
                budget.record(
                    fast[index].next(arrived: Int64(second) * 50_000_000, interval: budget.interval, now: now))
            }
            for index in slow.indices {
                let due = slow[index].pace.next(
                    arrived: Int64(second) * 100_000, interval: budget.interval, now: now)
                budget.record(due)
                if due != nil { slow[index].last = second }
            }
        }
        // A checkpoint is due 12 seconds after the last one, and others may go first for another 12 seconds.
        #expect(slow.allSatisfy { $0.last >= 76 })
    }

    @Test("a slow small file has checkpoints, so that lost workers do not bring it nearer to crash_loop")
    func slowAndSmall() async throws {
        let fleet = try await Fleet()
        let bytes = FileBytes(seed: 82, count: 40_000)
        let latch = Latch()
        let origin = try OriginServer { request in
            var reply = OriginReply.file(bytes, to: request)
            if request.number == 1 { reply.hold = (10_000, latch) }
            return reply
        }
        let key = fleet.queue.keys.job("j")
        try await fleet.withWorker("w") {
            try await fleet.push(#"{"url":"\#(origin.url("/a"))","id":"j"}"#)
            try await fleet.wait("j", for: .running)
            try await fleet.queue.redis.send(Command("HSET", key, "crashes", "5"))
            try await eventually { try await fleet.queue.job("j")?.offsets.intervals == [0..<10_000] }
            #expect(try await fleet.queue.redis.send(Command("HEXISTS", key, "crashes")).int == 0)
        }
        latch.open()
        try await fleet.withWorker("next") { try await fleet.wait("j", for: .completed) }
        #expect(fleet.root.holds("a", bytes))
        #expect(origin.requests.map { $0.headers["range"] } == [nil, "bytes=10000-"])
    }
}
