import HaulExecutors

/// Who waits for replies on a connection, in the order in which they asked.
struct Callers {
    typealias Answer = Result<[RedisValue], RedisError>

    private struct Caller {
        let number: Int
        let count: Int
        let timeout: Duration
        let deadline: ContinuousClock.Instant
        var replies: [RedisValue] = []
        /// nil once the caller has gone: its replies are read all the same, and dropped.
        var continuation: CheckedContinuation<Answer, Never>?
    }

    private var waiting = Deque<Caller>()
    private var lastNumber = 0

    var isEmpty: Bool { waiting.isEmpty }

    /// A number for one who is about to come.
    mutating func drawNumber() -> Int {
        lastNumber += 1
        return lastNumber
    }

    /// The first reply to the one who is to be answered next, while more are awaited.
    var firstReply: RedisValue? { isEmpty ? nil : waiting[0].replies.first }

    /// Adds one who awaits `count` replies, and returns until when.
    mutating func append(
        _ continuation: CheckedContinuation<Answer, Never>, as number: Int, awaiting count: Int, for timeout: Duration
    ) -> ContinuousClock.Instant {
        let deadline = ContinuousClock.now + timeout
        waiting.append(
            Caller(number: number, count: count, timeout: timeout, deadline: deadline, continuation: continuation))
        return deadline
    }

    /// Lets one go who was cancelled, if it still waits.
    mutating func release(_ number: Int) {
        guard let index = (0..<waiting.count).first(where: { waiting[$0].number == number }) else { return }
        waiting[index].continuation.take()?.resume(returning: .failure(.cancelled))
    }

    /// Gives a reply to the one whose it is; there must be one.
    mutating func deliver(_ value: RedisValue) {
        waiting[0].replies.append(value)
        guard waiting[0].replies.count == waiting[0].count, let caller = waiting.popFirst() else { return }
        caller.continuation?.resume(returning: .success(caller.replies))
    }

    /// Who has to be answered first, however long the line.
    var mostUrgent: (deadline: ContinuousClock.Instant, timeout: Duration)? {
        (0..<waiting.count).map { (waiting[$0].deadline, waiting[$0].timeout) }.min { $0.0 < $1.0 }
    }

    /// Nobody will be answered any more.
    mutating func fail(_ error: RedisError) {
        while let caller = waiting.popFirst() {
            caller.continuation?.resume(returning: .failure(error))
        }
    }
}
