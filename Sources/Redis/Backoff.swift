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
