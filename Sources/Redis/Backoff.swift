/// How long to wait before connecting again.
enum Backoff {
    /// Up to 40 ms after the first failure, doubled with each one, at most a second. Full jitter keeps a fleet from knocking
    /// in step.
    ///
    /// - Parameter failures: In a row, 1 after the first.
    static func milliseconds(_ failures: Int) -> Int {
        Int.random(in: 5...Swift.max(10, Swift.min(1000, 20 << Swift.min(failures, 6))))
    }
}
