/// An average of measurements in which the older ones count less: the mean of all at first, then of about the last `memory`
/// seconds. The one estimator of what changes while it is measured; `RateWindow` is the one for an exact span of time.
struct RunningAverage {
    /// nil before the first measurement.
    private(set) var value: Double?

    /// - Parameters:
    ///   - measured: What it was over the last `elapsed` seconds.
    ///   - age: Seconds since measuring began.
    mutating func add(_ measured: Double, over elapsed: Double, age: Double, memory: Double) {
        let weight = min(1, max(elapsed / max(age, elapsed), elapsed / memory))
        value = value.map { $0 + (measured - $0) * weight } ?? measured
    }
}
