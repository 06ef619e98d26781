import HaulContract

/// Decides whether and when a download opens another connection after some have failed. It works on counts alone.
struct ConnectionFailures {
    /// Bytes that a connection must deliver for the next one to be opened at once.
    static let minUsefulBytes: Int64 = 64 << 10
    /// A part of fewer bytes counts as a failure if more was requested.
    static let minPart: Int64 = 4 << 10
    /// After this many failures in a row no more extra connections are tried.
    private static let maxFailures = 3

    /// Extra connections in a row that were refused.
    private var refusals = 0
    /// Connections in a row that broke off before they had delivered `minUsefulBytes` bytes.
    private var shortLived = 0
    /// Bytes of the file that were written when its only connection was last replaced.
    private var writtenBefore: Int64

    init(written: Int64) { writtenBefore = written }

    /// A server agreed to send a part.
    mutating func recordResponse() { refusals = 0 }

    /// A response was received to its end.
    mutating func recordCompletePart() { shortLived = 0 }

    /// An extra connection was refused. Returns for how many seconds no other is tried.
    mutating func refused(_ failure: Failure) -> Double {
        refusals += 1
        return delay(after: refusals, failure)
    }

    /// A response broke off. Returns for how many seconds no extra connection is tried; 0 if it had delivered enough.
    mutating func broke(after received: Int64, _ failure: Failure) -> Double {
        shortLived = received < Self.minUsefulBytes ? shortLived + 1 : 0
        return shortLived > 0 ? delay(after: shortLived, failure) : 0
    }

    /// Whether the only connection of a file is replaced at once. `written` of `total` bytes are there.
    mutating func mayReplace(_ failure: Failure, written: Int64, of total: Int64) -> Bool {
        guard RetryPolicy.isRetryable(failure), failure.retryAfter == nil,
            RetryProgress.isEnough(written - writtenBefore, of: total)
        else { return false }
        writtenBefore = written
        return true
    }

    /// Seconds. Infinite after too many failures, and after a failure that would occur again.
    private func delay(after failures: Int, _ failure: Failure) -> Double {
        guard RetryPolicy.isRetryable(failure), failures < Self.maxFailures else { return .infinity }
        return failure.retryAfter?.secondsValue ?? Double(1 << failures)
    }
}
