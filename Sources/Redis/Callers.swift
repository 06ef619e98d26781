import Executors

/// Who waits for replies on a connection, in the order in which they asked.
struct Callers {
    typealias Answer = Result<[RedisValue], RedisError>

    private struct Caller {
        let count: Int
        let timeout: Duration
        let deadline: ContinuousClock.Instant
        var replies: [RedisValue] = []
        /// nil once the caller has gone: its replies are read all the same, and dropped.
        var continuation: CheckedContinuation<Answer, Never>?
    }

    private var waiting = Deque<Caller>()
    /// How many have been answered, which numbers those that wait.
    private var answered = 0

    var isEmpty: Bool { waiting.isEmpty }

    /// The number of the next one who comes.
    var nextNumber: Int { answered + waiting.count }

    /// The first reply to the one who is to be answered next, while more are awaited.
    var firstReply: RedisValue? { isEmpty ? nil : waiting[0].replies.first }

    /// Adds one who awaits `count` replies, and returns until when.
    mutating func append(
        _ continuation: CheckedContinuation<Answer, Never>, awaiting count: Int, for timeout: Duration
    ) -> ContinuousClock.Instant {
        let deadline = ContinuousClock.now + timeout
        waiting.append(Caller(count: count, timeout: timeout, deadline: deadline, continuation: continuation))
        return deadline
    }

    /// Lets one go who was cancelled, if it still waits.
    mutating func release(_ number: Int) {
        guard number >= answered, number < nextNumber else { return }
        waiting[number - answered].continuation.take()?.resume(returning: .failure(.cancelled))
    }

    /// Gives a reply to the one whose it is; there must be one.
    mutating func deliver(_ value: RedisValue) {
        waiting[0].replies.append(value)
        guard waiting[0].replies.count == waiting[0].count, let caller = waiting.popFirst() else { return }
        answered += 1
        caller.continuation?.resume(returning: .success(caller.replies))
    }

    /// Who has to be answered first, however long the line.
    var mostUrgent: (deadline: ContinuousClock.Instant, timeout: Duration)? {
        (0..<waiting.count).map { (waiting[$0].deadline, waiting[$0].timeout) }.min { $0.0 < $1.0 }
    }

    /// Nobody will be answered any more.
    mutating func fail(_ error: RedisError) {
        while let caller = waiting.popFirst() {
            answered += 1
            caller.continuation?.resume(returning: .failure(error))
        }
    }
}
