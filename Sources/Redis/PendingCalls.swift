import HaulExecutors

/// The callers that wait for replies on a connection, in the order of their commands.
struct PendingCalls {
    typealias Outcome = Result<[RedisValue], RedisError>

    private struct Caller {
        let number: Int
        let count: Int
        let timeout: Duration
        let deadline: ContinuousClock.Instant
        var replies: [RedisValue] = []
        /// nil once the caller was cancelled. Its replies are still read, and dropped.
        var continuation: CheckedContinuation<Outcome, Never>?
    }

    private var waiting = Deque<Caller>()
    private var lastNumber = 0

    var isEmpty: Bool { waiting.isEmpty }

    /// Returns a new number for a caller that will be appended.
    mutating func drawNumber() -> Int {
        lastNumber += 1
        return lastNumber
    }

    /// The first reply of the caller at the front, while that caller waits for more replies. nil if there is none yet.
    var firstReply: RedisValue? { isEmpty ? nil : waiting[0].replies.first }

    /// Adds a caller that awaits `count` replies. Returns the caller's deadline.
    mutating func append(
        _ continuation: CheckedContinuation<Outcome, Never>, as number: Int, awaiting count: Int, for timeout: Duration
    ) -> ContinuousClock.Instant {
        let deadline = ContinuousClock.now + timeout
        waiting.append(
            Caller(number: number, count: count, timeout: timeout, deadline: deadline, continuation: continuation))
        return deadline
    }

    /// Resumes a cancelled caller with `.cancelled` if that caller still waits. Its entry in the queue remains.
    mutating func release(_ number: Int) {
        guard let index = (0..<waiting.count).first(where: { waiting[$0].number == number }) else { return }
        waiting[index].continuation.take()?.resume(returning: .failure(.cancelled))
    }

    /// Gives the next reply to the caller at the front, and resumes that caller after its last reply. Must not be
    /// called while `isEmpty`.
    mutating func deliver(_ value: RedisValue) {
        waiting[0].replies.append(value)
        guard waiting[0].replies.count == waiting[0].count, let caller = waiting.popFirst() else { return }
        caller.continuation?.resume(returning: .success(caller.replies))
    }

    /// The earliest deadline of all callers, and the timeout that led to that deadline.
    var earliestTimeout: (deadline: ContinuousClock.Instant, timeout: Duration)? {
        (0..<waiting.count).map { (waiting[$0].deadline, waiting[$0].timeout) }.min { $0.0 < $1.0 }
    }

    /// Resumes all callers with `error`, and removes them.
    mutating func fail(_ error: RedisError) {
        while let caller = waiting.popFirst() {
            caller.continuation?.resume(returning: .failure(error))
        }
    }
}
