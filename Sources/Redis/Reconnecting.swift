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

/// How long to wait before the next try to connect, or to send a command again.
enum Backoff {
    /// A random time of 5 ms or more: up to 20 ms for 0 failures, doubled with each failure, at most a second. The
    /// jitter keeps the workers of a fleet from reconnecting all at the same time.
    ///
    /// - Parameter failures: The number of failures in a row.
    static func milliseconds(_ failures: Int) -> Int {
        Int.random(in: 5...Swift.max(10, Swift.min(1000, 20 << Swift.min(failures, 6))))
    }
}

extension Duration {
    /// Rounded to a tenth of a second, for messages.
    var rounded: Duration {
        let (seconds, attoseconds) = components
        return .milliseconds(100 * (Double(seconds) * 10 + Double(attoseconds) / 1e17).rounded())
    }
}
