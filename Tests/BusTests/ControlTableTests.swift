import HaulBus
import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

/// The tables of docs/reference/ordering.md: what an operation does, and what a push does, in every state.
@Suite struct ControlTableTests {
    /// Brings job "1" into `state`. Returns its claim if it runs.
    private func bring(_ f: QueueFixture, to state: JobState) async throws -> Claim? {
        try await f.push(#"{"url":"http://h/1","id":"1"\#(state == .scheduled ? #","delay":1000"# : "")}"#)
        guard let claim = try await f.claim() else {
            #expect(state == .scheduled)
            return nil
        }
        switch state {
        case .scheduled: break
        case .running: return claim
        case .queued: try await f.settle(claim, .released(why: "test"))
        case .completed: try await f.settle(claim, QueueFixture.done)
        case .failed: try await f.settle(claim, .failed(Failure(.io, "m"), retryable: true, received: 0))
        case .paused, .cancelled:
            try await f.queue.request(state == .paused ? .paused : .cancelled, of: ["1"])
            try await apply(f, claim)
        }
        #expect(try await f.state("1") == state)
        return nil
    }

    /// Makes a tick, and stops the run if the tick has an operation for it.
    private func apply(_ f: QueueFixture, _ claim: Claim?) async throws {
        let reply = try await f.tick(claim.map { [$0] } ?? [])
        guard let claim, let operation = reply.operations[claim.run.token] else { return }
        try await f.settle(claim, operation == .paused ? .paused : .cancelled)
    }

    /// nil if the job is forgotten.
    private static func result(of operation: ControlOperation, in state: JobState) -> JobState? {
        switch (operation, state) {
        case (.paused, .queued), (.paused, .scheduled), (.paused, .running), (.paused, .paused): .paused
        case (.cancelled, .queued), (.cancelled, .scheduled), (.cancelled, .running), (.cancelled, .paused): .cancelled
        case (.running, .scheduled), (.running, .paused), (.running, .failed): .queued
        case (.removed, _), (.deleted, _): nil
        default: state
        }
    }

    @Test("an operation that redis-cli writes does what the table says, in every state", arguments: JobState.allCases)
    func operations(_ state: JobState) async throws {
        for operation in [ControlOperation.paused, .cancelled, .running, .removed, .deleted] {
            let f = try await QueueFixture()
            let claim = try await bring(f, to: state)
            try await f.redis.send(Command("HSET", f.queue.keys.want, "1", operation.rawValue))
            try await apply(f, claim)
            #expect(try await f.state("1") == Self.result(of: operation, in: state), "\(operation) of \(state)")
            #expect(try await f.redis.send(Command("HLEN", f.queue.keys.want)).int == 0)
            try await f.expectOrder()
        }
    }

    @Test("two operations, one after the other, do what the table says for each", arguments: JobState.allCases)
    func pairs(_ state: JobState) async throws {
        let operations = [ControlOperation.paused, .cancelled, .running, .removed]
        for first in operations {
            for second in operations {
                let f = try await QueueFixture()
                let claim = try await bring(f, to: state)
                try await f.queue.request(first, of: ["1"])
                try await apply(f, claim)
                try await f.queue.request(second, of: ["1"])
                try await apply(f, claim)
                var expected = Self.result(of: first, in: state)
                // An operation for a forgotten job leaves a tombstone, which has no state.
                if let middle = expected { expected = Self.result(of: second, in: middle) }
                #expect(try await f.state("1") == expected, "\(first), \(second) of \(state)")
                try await f.expectOrder()
            }
        }
    }

    @Test(
        "a later operation replaces one that the run has not received yet",
        arguments: [ControlOperation.cancelled, .running])
    func overtaken(_ second: ControlOperation) async throws {
        let f = try await QueueFixture()
        let claim = try #require(try await bring(f, to: .running))
        try await f.queue.request(.paused, of: ["1"])
        let other = WorkerIdentity(name: "other", store: "s")
        // Another worker's tick applies the operations.
        _ = try await f.queue.tick(other, fields: [], runs: [])
        try await f.queue.request(second, of: ["1"])
        _ = try await f.queue.tick(other, fields: [], runs: [])
        try await apply(f, claim)
        #expect(try await f.state("1") == (second == .cancelled ? .cancelled : .running))
        try await f.expectOrder()
    }

    @Test(
        "an operation for an unknown job applies to its first push",
        arguments: [ControlOperation.paused, .cancelled, .removed])
    func early(_ operation: ControlOperation) async throws {
        let f = try await QueueFixture()
        try await f.queue.request(operation, of: ["1"])
        try await f.tick()
        try await f.push(#"{"url":"http://h/1","id":"1"}"#)
        #expect(try await f.claim() == nil)
        #expect(try await f.state("1") == (operation == .paused ? .paused : operation == .cancelled ? .cancelled : nil))
        try await f.expectOrder()
    }

    enum Kind: CaseIterable { case job, oldJob, continuation, oldTicket }

    @Test("a push does what the table says, in every state", arguments: JobState.allCases)
    func pushes(_ state: JobState) async throws {
        for kind in Kind.allCases {
            let f = try await QueueFixture()
            let before = UnixTime.milliseconds
            try await eventually { UnixTime.milliseconds > before }
            _ = try await bring(f, to: state)
            let element =
                switch kind {
                case .job: #"{"url":"http://h/2","id":"1"}"#
                case .oldJob: #"{"url":"http://h/2","id":"1","at":\#(before)}"#
                case .continuation: #"{"id":"1"}"#
                case .oldTicket: #"{"id":"1","t":"0123"}"#
                }
            // To the front of the queue, so that the job's own ticket comes after it.
            try await f.redis.send(Command("RPUSH", f.queue.keys.jobs, element))
            let claim = try await f.claim()
            let url = claim.flatMap { try? $0.job().urls[0] }
            let runs: Bool =
                switch (kind, state) {
                case (_, .queued): true
                case (.job, .paused), (.job, .failed), (.job, .cancelled), (.job, .completed): true
                case (.continuation, .paused), (.continuation, .failed), (.continuation, .scheduled): true
                default: false
                }
            #expect((claim != nil) == runs, "\(kind) in \(state)")
            // A newer URL replaces the old one, because signed URLs expire.
            if kind == .job, runs { #expect(url == "http://h/2", "\(state)") }
            if kind == .oldTicket || kind == .continuation, runs { #expect(url == "http://h/1", "\(kind) \(state)") }
            let isRejected = try await f.redis.send(Command("LLEN", f.queue.keys.rejected)).int == 1
            #expect(isRejected == (kind == .continuation && (state == .completed || state == .cancelled)))
            if !runs { #expect(try await f.state("1") == state, "\(kind) in \(state)") }
            // The job's own ticket has been claimed as well, and starts no second run.
            #expect(try await f.redis.send(Command("LLEN", f.queue.keys.jobs)).int == 0)
            try await f.expectOrder()
        }
    }

    @Test("a hundred pushes of the same URL at once start one run") func hundred() async throws {
        let f = try await QueueFixture()
        let url = try RedisURL(f.server.url)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<100 {
                group.addTask {
                    let redis = Redis(url, name: "producer-\(number)")
                    try await redis.send(Command("LPUSH", f.queue.keys.jobs, #"{"url":"http://h/same"}"#))
                    await redis.close()
                }
            }
            try await group.waitForAll()
        }
        let claims = Shared<[Claim]>([])
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<10 {
                group.addTask {
                    for _ in 0..<20 {
                        if let claim = try await f.claim("w\(number)") { claims.change { $0.append(claim) } }
                    }
                }
            }
            try await group.waitForAll()
        }
        #expect(claims.value.count == 1)
        #expect(try await f.redis.send(Command("LLEN", f.queue.keys.jobs)).int == 0)
    }
}
