/// An average in which older measurements count less. It is at first the mean of all of them, then of about the last
/// `averagingTime` seconds. `RateWindow` measures over an exact span of time instead.
struct RunningAverage {
    /// nil before the first measurement.
    private(set) var value: Double?

    /// - Parameters:
    ///   - measured: The value over the last `elapsed` seconds.
    ///   - age: Seconds since the measurements began.
    mutating func add(_ measured: Double, over elapsed: Double, age: Double, averagingTime: Double) {
        let weight = min(1, max(elapsed / max(age, elapsed), elapsed / averagingTime))
        value = value.map { $0 + (measured - $0) * weight } ?? measured
    }
}
