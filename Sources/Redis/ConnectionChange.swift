/// What a client reports about its connection to Redis.
package enum ConnectionChange: Sendable {
    /// The connection has ended, or none could be opened. Reported once, until the connection is back.
    case lost(RedisError)
    /// There is a connection again, so long after the loss.
    case recovered(after: Duration)
}

/// Reports each loss of a connection once, and its recovery.
struct ConnectionReports: Sendable {
    private let report: (@Sendable (ConnectionChange) -> Void)?
    private var lost: ContinuousClock.Instant?

    init(_ report: (@Sendable (ConnectionChange) -> Void)?) { self.report = report }

    mutating func lose(_ error: RedisError) {
        guard lost == nil else { return }
        lost = .now
        report?(.lost(error))
    }

    mutating func recover() {
        guard let lost else { return }
        self.lost = nil
        report?(.recovered(after: .now - lost))
    }

    /// No caller needs a connection any more, so its recovery is not reported.
    mutating func forget() { lost = nil }
}
