import HaulBus
import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

/// Several runs that are settled with one call, and several jobs that are claimed with it.
@Suite struct BatchTests {
    private let f: QueueFixture

    init() async throws { f = try await QueueFixture() }

    private func run(_ ids: String...) async throws -> [Run] {
        for id in ids { try await f.push(#"{"url":"http://h/\#(id)","id":"\#(id)"}"#) }
        var runs: [Run] = []
        for _ in ids { runs.append(try #require(try await f.claim()).run) }
        return runs
    }

    /// Settles runs and asks for `count` jobs. Returns the ids of the jobs, and then why there were no more.
    private func settle(_ ends: [RunEnd], next count: Int) async throws -> [String] {
        let tokens = (0..<count).map { _ in Token.make() }
        let reply = try await f.queue.settle(ends, worker: f.worker, next: tokens)
        #expect(try reply.isOurs.allSatisfy { try $0.get() })
        for case (.job(let claim), let token) in zip(reply.next, tokens) { #expect(claim.run.token == token) }
        return reply.next.map {
            switch $0 {
            case .job(let claim): claim.run.id
            case .empty: "empty"
            default: "\($0)"
            }
        }
    }

    @Test("all offsets of a run are reported, however many there are") func manyOffsets() async throws {
        let runs = try await run("a", "b")
        let intervals = (0..<10_000).map { Int64($0) * 10..<Int64($0) * 10 + 5 }
        var report = RunReport()
        report.offsets = ByteIntervals(intervals)
        let reply = try await f.queue.tick(f.worker, fields: [], runs: [(runs[0], report), (runs[1], RunReport())])
        #expect(reply.fenced.isEmpty)
        let failure = Settlement.failed(Failure(.http(404), "m"), retryable: false, received: 0)
        _ = try await settle([RunEnd(runs[0], failure, report), RunEnd(runs[1], QueueFixture.done)], next: 0)
        #expect(try await f.redis.send(Command("HLEN", f.queue.keys.offsets("a"))).int == intervals.count)
        #expect(try await f.state("b") == .completed)
        try await f.expectOrder()
    }

    @Test("one call does not read many large elements") func large() async throws {
        let runs = try await run("a", "b", "c", "d")
        let body = String(repeating: "x", count: 10_000)
        for id in ["e", "f", "g"] {
            try await f.push(#"{"url":"http://h","id":"\#(id)","method":"POST","body":"\#(body)"}"#)
        }
        // Reading an element of 10 KB can take Redis a millisecond, so one such element is enough for a call.
        #expect(try await settle(runs.map { RunEnd($0, QueueFixture.done) }, next: 4) == ["e", "more"])
        #expect(try await f.claim()?.run.id == "f")
        #expect(try await f.claim()?.run.id == "g")
        try await f.expectOrder()
    }

    @Test("a settle of several runs keeps `max_running`, and returns held elements to the queue")
    func limit() async throws {
        let runs = try await run("a", "b", "c", "d")
        try await f.redis.send(Command("HSET", f.queue.keys.settings, "max_running", 3))
        for id in ["e", "f", "g", "h"] { try await f.push(#"{"url":"http://h/\#(id)","id":"\#(id)"}"#) }
        for _ in 1...3 {
            try await f.redis.send(Command("LMOVE", f.queue.keys.jobs, f.queue.keys.held("w1"), "RIGHT", "LEFT"))
        }
        let ends = runs.prefix(3).map { RunEnd($0, QueueFixture.done) }
        #expect(try await settle(ends, next: 3) == ["e", "f", "full"])
        #expect(try await f.redis.send(Command("LLEN", f.queue.keys.held("w1"))).int == 0)
        try await f.expectOrder()
        #expect(try await settle([RunEnd(runs[3], QueueFixture.done)], next: 1) == ["g"])
    }

    @Test("a job that is requeued may be claimed with the same call, under another token") func again() async throws {
        let runs = try await run("a", "b", "c")
        let retry = Settlement.retry(after: .zero, Failure(.connect, "m"))
        let ends = [
            RunEnd(runs[0], .released(why: "test")), RunEnd(runs[1], QueueFixture.done), RunEnd(runs[2], retry),
        ]
        #expect(try await settle(ends, next: 3) == ["a", "empty"])
        #expect(try await f.queue.job("a")?.state == .running)
        // A settle that is sent again does not end the new run.
        let reply = try await f.queue.settle(ends, worker: f.worker, next: [])
        #expect(try reply.isOurs.map { try $0.get() } == [true, true, true])
        #expect(try await f.state("a") == .running)
        try await f.expectOrder()
    }
}
