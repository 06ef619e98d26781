import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulBus

/// Control operations count in the order of their times, in whatever order they arrive.
@Suite struct ArrivalTests {

    /// Brings jobs into `state`, which is nil for unknown jobs. Returns the claims of running jobs.
    private func bring(_ c: ClockedQueue, _ ids: [String], to state: JobState?) async throws -> [Claim] {
        guard let state else { return [] }
        var claims: [Claim] = []
        for id in ids {
            let delay = state == .scheduled ? #","delay":1000"# : ""
            try await c.f.push(#"{"url":"http://h/\#(id)","id":"\#(id)"\#(delay)}"#)
            guard let claim = try await c.claim() else { continue }
            switch state {
            case .queued:
                try await c.queue.settle(claim.run, as: .released(why: "test"), worker: c.f.worker)
                // Otherwise the next call claims it again.
                try await c.f.redis.send(Command("DEL", c.queue.keys.jobs))
            case .completed: try await c.queue.settle(claim.run, as: QueueFixture.done, worker: c.f.worker)
            case .failed:
                try await c.queue.settle(
                    claim.run, as: .failed(Failure(.io, "m"), retryable: true, received: 0), worker: c.f.worker)
            case .paused, .cancelled:
                let operation: ControlOperation = state == .paused ? .paused : .cancelled
                try await c.apply([(id, Operation(kind: operation, time: ClockedQueue.dawn))])
                try await c.queue.settle(
                    claim.run, as: state == .paused ? .paused : .cancelled, worker: c.f.worker)
            case .running, .scheduled: claims.append(claim)
            }
        }
        return claims
    }

    @Test(
        "any order of arrival of control operations ends in the state of the order of their times",
        arguments: JobState.allCases.map { Optional($0) } + [nil])
    func permutations(_ state: JobState?) async throws {
        let seed = UInt64.random(in: 0..<1_000_000)
        var random = SeededGenerator(state: seed)
        let c = try await ClockedQueue()
        let histories = (0..<100).map { _ in
            let operations: [ControlOperation] = [.paused, .cancelled, .running, .removed]
            var hasRetry = false
            return (1...Int.random(in: 2...5, using: &random)).map { number in
                var operation = operations.randomElement(using: &random)!
                // Only the newest retry of a failed job is known, and not whether a cancel came between two of them.
                if state == .failed, operation == .running, hasRetry { operation = .paused }
                hasRetry = hasRetry || operation == .running
                return Operation(kind: operation, time: ClockedQueue.dawn + Int64(number * 10))
            }
        }
        // A job for each history in the order of times, and another one for an order of arrival.
        let arrivals = histories.map { $0.shuffled(using: &random) }
        let all = histories.enumerated().map { ("t\($0)", $1) } + arrivals.enumerated().map { ("a\($0)", $1) }
        let claims = try await bring(c, all.map(\.0), to: state)
        try await c.set(1000)
        for step in 0..<5 {
            try await c.apply(all.compactMap { $0.1.count > step ? (id: $0.0, operation: $0.1[step]) : nil })
        }
        for claim in claims {
            let want = try await c.f.redis.send(Command("HGET", c.queue.keys.job(claim.run.id), "want")).string
            guard let want else { continue }
            try await c.queue.settle(
                claim.run, as: want == "paused" ? .paused : .cancelled, worker: c.f.worker)
        }
        for number in histories.indices {
            let inTime = try await end(of: "t\(number)", c)
            let arrived = try await end(of: "a\(number)", c)
            let order = arrivals[number].map { "\($0.kind) \($0.time - ClockedQueue.dawn)" }.joined(separator: ", ")
            #expect(arrived == inTime, "seed \(seed): \(state?.rawValue ?? "unknown"): \(order)")
        }
    }

    /// What became of a job. A retry that is older than a cancel starts nothing, so a failed job may stay failed where
    /// it would have been cancelled.
    private func end(of id: String, _ c: ClockedQueue) async throws -> String {
        guard let state = try await c.queue.job(id)?.state else { return "unknown" }
        return state == .failed || state == .cancelled ? "ended" : state.rawValue
    }

    @Test(
        "a `running` revokes no newer pause behind a cancel, whichever of them arrives first",
        arguments: [true, false])
    func behindCancel(isLate: Bool) async throws {
        let c = try await ClockedQueue()
        let claim = try #require(try await bring(c, ["1"], to: .running).first)
        try await c.set(1000)
        try await c.apply([("1", Operation(kind: .cancelled, time: ClockedQueue.dawn + 1))])
        try await c.f.push(#"{"url":"http://h/1","id":"1","at":\#(ClockedQueue.dawn + 2)}"#)
        #expect(try await c.claim() == nil)
        let rest = [
            Operation(kind: .running, time: ClockedQueue.dawn + 3),
            Operation(kind: .paused, time: ClockedQueue.dawn + 5),
        ]
        for operation in isLate ? rest.reversed() : rest { try await c.apply([("1", operation)]) }
        try await c.queue.settle(claim.run, as: .cancelled, worker: c.f.worker)
        #expect(try await c.queue.job("1")?.state == .paused)
    }
}

/// A control operation, and the time when it was made.
private struct Operation {
    let kind: ControlOperation
    let time: Int64
}

extension ClockedQueue {
    /// Writes one operation for each id, and makes ticks until all of them are applied.
    fileprivate func apply(_ operations: [(id: String, operation: Operation)]) async throws {
        let pairs = operations.flatMap { [$0.id, "\($0.operation.kind.rawValue) \($0.operation.time)"] }
        guard !pairs.isEmpty else { return }
        try await f.redis.send(Command(arguments: ["HSET", queue.keys.want] + pairs))
        repeat {
            try await queue.tick(f.worker, runs: [])
        } while try await f.redis.send(Command("HLEN", queue.keys.want)).int != 0
    }
}
