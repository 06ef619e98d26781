/// How long to wait before connecting again.
enum Backoff {
    /// Up to 20 ms after the first failure, doubled with each one, at most a second; with full jitter, so that a fleet
    /// does not knock in step.
    static func milliseconds(_ failures: Int) -> Int {
        Int.random(in: 5...Swift.max(10, Swift.min(1000, 20 << Swift.min(failures, 6))))
    }
}
