import HaulBus
import HaulContract
import HaulTestSupport
import Testing

/// A service that learns of an end may push the job again within the same millisecond.
@Suite struct PushAfterEndTests {
    private static let now = ClockedQueue.dawn + 5000
    private static let element = #"{"url":"http://h/2","id":"1","at":\#(now)}"#

    /// A queue in which job `1`, which was pushed five seconds ago, runs.
    private func running() async throws -> (ClockedQueue, Claim) {
        let c = try await ClockedQueue()
        try await c.f.push(#"{"url":"http://h/1","id":"1","at":\#(ClockedQueue.dawn)}"#)
        let claim = try #require(try await c.claim())
        try await c.set(5000)
        return (c, claim)
    }

    private func settle(_ c: ClockedQueue, _ claim: Claim, _ settlement: Settlement) async throws {
        _ = try await c.queue.settle([RunEnd(claim.run, settlement, RunReport())], worker: c.f.worker, next: [])
    }

    private func settledUntil(_ c: ClockedQueue) async throws -> Int64? {
        try await c.queue.job("1")?.integer("settled_until")
    }

    private static let ends: [Settlement] = [
        QueueFixture.done, .failed(Failure(.http(404), "gone"), retryable: false, received: 0),
    ]

    @Test("a push in the millisecond in which a run has ended its job begins the job anew", arguments: ends)
    func pushed(end: Settlement) async throws {
        let (c, claim) = try await running()
        try await settle(c, claim, end)
        try await c.f.push(Self.element)
        let next = try #require(try await c.claim())
        #expect(String(decoding: next.spec, as: UTF8.self) == Self.element)
        // The same element again is a repeat, although the second run ends in this millisecond, too.
        try await settle(c, next, end)
        try await c.f.push(Self.element)
        #expect(try await c.claim() == nil)
        #expect(try await settledUntil(c) == Self.now)
        try await c.f.expectOrder()
    }

    @Test(
        "a push that is newer than a removal begins its job, although a run has ended later and the job went on since",
        arguments: [true, false])
    func removedSince(_ isByPush: Bool) async throws {
        let (c, claim) = try await running()
        func request(_ operation: ControlOperation, at time: Int64, _ claims: [Claim] = []) async throws {
            try await c.queue.request(operation, of: ["1"], at: ClockedQueue.dawn + time)
            var tick = Tick(c.f.worker, runs: claims.map { ($0.run, RunReport()) })
            try await c.queue.perform(&tick)
        }
        if isByPush {
            // A push waits behind a cancel that the run has not seen when it ends.
            try await c.set(1500)
            try await request(.cancelled, at: 1000, [claim])
            try await c.f.push(#"{"url":"http://h/2","id":"1"}"#)
            #expect(try await c.claim() == nil)
            try await c.set(5000)
            try await settle(c, claim, QueueFixture.done)
        } else {
            try await settle(c, claim, Self.ends[1])
            try await request(.running, at: 5000)
        }
        #expect(try await c.queue.job("1")?.state == .queued)
        try await request(.removed, at: 2000)
        #expect(try await c.queue.job("1")?.state == nil)
        try await c.f.push(#"{"url":"http://h/3","id":"1","at":\#(ClockedQueue.dawn + 3000)}"#)
        #expect(try await c.claim()?.job().urls == ["http://h/3"])
        try await c.f.expectOrder()
    }

    @Test("a push in the millisecond in which the deadline has failed its job begins the job anew")
    func overdue() async throws {
        let c = try await ClockedQueue()
        try await c.f.push(
            #"{"url":"http://h/1","id":"1","at":\#(ClockedQueue.dawn),"delay":10,"deadline":5}"#)
        #expect(try await c.claim() == nil)
        try await c.set(5000)
        var tick = Tick(c.f.worker, runs: [])
        try await c.queue.perform(&tick)
        #expect(try await c.queue.job("1")?.state == .failed)
        try await c.f.push(Self.element)
        #expect(try await c.claim() != nil)
        try await c.f.expectOrder()
    }

    @Test("a push that a running job has taken in the millisecond of its end is done with it", arguments: ends)
    func taken(end: Settlement) async throws {
        let (c, claim) = try await running()
        try await c.f.push(Self.element)
        #expect(try await c.claim() == nil)
        try await settle(c, claim, end)
        #expect(try await settledUntil(c) == Self.now)
        try await c.f.push(Self.element)
        #expect(try await c.claim() == nil)
        try await c.f.expectOrder()
    }

    @Test("a removal forgets what an end has settled, but not what a cancel in the millisecond of that end has")
    func forgotten() async throws {
        for isCancelled in [false, true] {
            let (c, claim) = try await running()
            let waiting = #"{"url":"http://h/3","id":"1","at":\#(Self.now - 1)}"#
            try await settle(c, claim, QueueFixture.done)
            if isCancelled { try await c.queue.request(.cancelled, of: ["1"], at: Self.now) }
            var tick = Tick(c.f.worker, runs: [])
            try await c.queue.perform(&tick)
            try await c.queue.request(.removed, of: ["1"], at: Self.now - 2)
            tick = Tick(c.f.worker, runs: [])
            try await c.queue.perform(&tick)
            try await c.f.push(waiting)
            #expect(try await (c.claim() == nil) == isCancelled)
            try await c.f.expectOrder()
        }
    }
}
