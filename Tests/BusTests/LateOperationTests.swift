import HaulBus
import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

/// Control operations and pushes count in the order of their timestamps, even if an older operation is applied after a
/// newer one.
@Suite struct LateOperationTests {
    /// A push or an operation, so many milliseconds after a timestamp in the past.
    enum Act: Sendable, CustomStringConvertible {
        case push(Int64)
        case ask(ControlOperation, Int64)

        var description: String {
            switch self {
            case .push(let timestamp): "push@\(timestamp)"
            case .ask(let operation, let timestamp): "\(operation)@\(timestamp)"
            }
        }
    }

    /// A run that began at the timestamp `start`, and an operation 100 ms later of which it does not know.
    private func run(asked operation: ControlOperation) async throws -> (f: QueueFixture, start: Int64, claim: Claim) {
        let (f, start) = (try await QueueFixture(), Self.start)
        try await act(.push(0), start, f)
        let claim = try #require(try await f.claim())
        try await act(.ask(operation, 100), start, f)
        try await f.tick()
        return (f, start, claim)
    }

    /// A minute ago.
    private static var start: Int64 { UnixTime.milliseconds - 60_000 }

    private func act(_ act: Act, _ start: Int64, _ f: QueueFixture) async throws {
        switch act {
        case .push(let timestamp): try await f.push(#"{"url":"http://h/1","id":"1","at":\#(start + timestamp)}"#)
        case .ask(let operation, let timestamp): try await f.queue.request(operation, of: ["1"], at: start + timestamp)
        }
    }

    @Test(
        "of two operations that a run has not received, the newer timestamp counts for pushes",
        arguments: [
            (ControlOperation.cancelled, ControlOperation.cancelled, JobState.cancelled), (.removed, .cancelled, nil),
            (.deleted, .removed, nil), (.cancelled, .paused, .cancelled), (.cancelled, .removed, nil),
            (.paused, .cancelled, .paused), (.paused, .removed, .paused),
        ] as [(ControlOperation, ControlOperation, JobState?)])
    func lowered(_ newer: ControlOperation, _ older: ControlOperation, _ end: JobState?) async throws {
        let f = try await QueueFixture()
        let start = Self.start
        try await act(.push(0), start, f)
        let claim = try #require(try await f.claim())
        for operation in [Act.ask(newer, 1600), .ask(older, 400)] {
            try await act(operation, start, f)
            try await f.tick()
        }
        try await act(.push(1000), start, f)
        #expect(try await f.claim() == nil)
        let received = try await f.tick([claim]).operations.values.first
        try await f.settle(claim, received == .paused ? .paused : .cancelled)
        #expect(try await f.claim() == nil)
        #expect(try await f.state("1") == end)
        try await act(.push(1601), start, f)
        #expect(try await f.claim() != nil)
        try await f.expectOrder()
    }

    @Test("a cancel ends a kept push that is older, even if a newer continuation is kept with it")
    func between() async throws {
        let (f, start, claim) = try await run(asked: .paused)
        try await act(.push(200), start, f)
        try await f.push(#"{"id":"1","at":\#(start + 400)}"#)
        #expect(try await f.claim() == nil)
        try await act(.ask(.cancelled, 300), start, f)
        #expect(try await f.tick([claim]).operations.values.first == .cancelled)
        try await f.settle(claim, .cancelled)
        #expect(try await f.claim() == nil)
        #expect(try await f.state("1") == .cancelled)
        try await f.expectOrder()
    }

    @Test("a push behind a cancel is done, even if a newer continuation was claimed before the push")
    func overtaken() async throws {
        let (f, start, claim) = try await run(asked: .cancelled)
        try await f.push(#"{"id":"1","at":\#(start + 400)}"#)
        #expect(try await f.claim() == nil)
        try await f.push(#"{"url":"http://h/2","id":"1","at":\#(start + 300),"size":4}"#)
        #expect(try await f.claim() == nil)
        try await f.settle(claim, .cancelled)
        #expect(try #require(try await f.claim()).job().size == 4)
        try await f.expectOrder()
    }

    @Test("a cancel between two kept pushes leaves the newer one, which restarts the job")
    func betweenPushes() async throws {
        let (f, start, claim) = try await run(asked: .removed)
        try await act(.push(200), start, f)
        try await f.push(#"{"url":"http://h/2","id":"1","at":\#(start + 400),"size":4}"#)
        #expect(try await f.claim() == nil)
        try await act(.ask(.cancelled, 300), start, f)
        #expect(try await f.tick([claim]).operations.values.first != nil)
        try await f.settle(claim, .cancelled)
        #expect(try #require(try await f.claim()).job().size == 4)
        try await f.expectOrder()
    }

    @Test("a push that waited behind a cancel shows the URL of the newer push that renews it")
    func renewed() async throws {
        let (f, start, claim) = try await run(asked: .cancelled)
        try await act(.push(200), start, f)
        try await f.push(#"{"url":"http://h/2","id":"1","at":\#(start + 300)}"#)
        #expect(try await f.claim() == nil)
        try await f.settle(claim, .cancelled)
        #expect(try await f.queue.job("1")?["url"] == "http://h/2")
        #expect(try #require(try await f.claim()).job().urls == ["http://h/2"])
        try await f.expectOrder()
    }

    @Test(
        "a pause older than a continuation that was claimed does not stop the run; a newer pause does",
        arguments: [true, false])
    func taken(_ isTimed: Bool) async throws {
        let f = try await QueueFixture()
        try await f.push(#"{"url":"http://h/1","id":"1"}"#)
        let claim = try #require(try await f.claim())
        let before = try await f.queue.time()
        try await eventually { try await f.queue.time() > before + 1 }
        try await f.push(#"{"id":"1"}"#)
        #expect(try await f.claim() == nil)
        // As an operation for a batch, which members get later.
        try await f.queue.request(.paused, of: ["1"], at: before)
        #expect(try await f.tick([claim]).operations.isEmpty)
        let after = try await f.queue.time() + 1
        try await eventually { try await f.queue.time() > after }
        let text = isTimed ? "paused \(after)" : "paused"
        try await f.redis.send(Command("HSET", f.queue.keys.want, "1", text))
        #expect(try await f.tick([claim]).operations.values.first == .paused)
        try await f.expectOrder()
    }

    @Test(
        "operations and pushes of a paused or unknown job count in the order of their timestamps",
        arguments: [
            ([.push(0), .ask(.paused, 1000), .ask(.removed, 700), .push(900)], .paused),
            ([.push(0), .ask(.removed, 700), .ask(.paused, 1000), .push(900)], .paused),
            ([.push(0), .ask(.removed, 700), .push(900), .ask(.paused, 1000)], .paused),
            ([.ask(.removed, 700), .ask(.paused, 1000), .push(900)], .paused),
            ([.push(0), .ask(.paused, 1000), .ask(.cancelled, 700), .push(900)], .paused),
            ([.push(0), .ask(.paused, 1000), .ask(.cancelled, 700)], .cancelled),
            ([.ask(.paused, 500), .ask(.cancelled, 400), .push(0)], .cancelled),
            ([.ask(.cancelled, 400), .ask(.paused, 500), .push(0)], .cancelled),
            ([.ask(.paused, 500), .ask(.cancelled, 400), .push(450)], .paused),
            ([.push(0), .ask(.paused, 100), .ask(.running, 2000), .ask(.paused, 1000)], .queued),
            ([.push(0), .ask(.running, 2000), .ask(.paused, 1000)], .queued),
            ([.push(0), .ask(.running, 2000), .ask(.paused, 2001)], .paused),
            ([.push(0), .ask(.running, 2000), .ask(.cancelled, 1000)], .cancelled),
        ] as [([Act], JobState)])
    func stopped(_ acts: [Act], _ end: JobState) async throws {
        let f = try await QueueFixture()
        let start = Self.start
        for each in acts {
            try await act(each, start, f)
            // The push is claimed. If it would run, the job is requeued.
            if let claim = try await f.claim() { try await f.settle(claim, .released(why: "test")) }
            try await f.tick()
        }
        #expect(try await f.state("1") == end, "\(acts)")
        try await f.expectOrder()
    }
}
