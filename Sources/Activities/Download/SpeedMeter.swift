import HaulExecutors

/// Measures bytes per second over the last five seconds, and on average over the attempt.
struct SpeedMeter {
    private let stopwatch = Stopwatch()
    private var window = RateWindow(length: 5)
    private var last: (time: Double, bytes: Int64) = (0, 0)

    /// Adds a sample: `bytes` have been moved so far in this attempt.
    mutating func sample(_ bytes: Int64) {
        last = (seconds, bytes)
        window.add(bytes, at: last.time)
    }

    var speed: Int64 { window.bytesPerSecond.map { Int64($0) } ?? average }

    var average: Int64 { last.time > 0 ? Int64(Double(last.bytes) / last.time) : 0 }

    /// Seconds since the attempt began.
    var seconds: Double { stopwatch.seconds }
}

/// The rate of a growing count of bytes over a sliding window. Times are in seconds from any beginning.
struct RateWindow {
    private let length: Double
    /// The first sample is the youngest one that is at least as old as the window is long, if there is one.
    private var samples: [(time: Double, bytes: Int64)] = []

    /// - Parameter length: The length of the window in seconds.
    init(length: Double) { self.length = length }

    /// Adds a sample: the total of bytes at `time`.
    mutating func add(_ bytes: Int64, at time: Double) {
        samples.append((time, bytes))
        while samples.count > 2, time - samples[1].time >= length { samples.removeFirst() }
    }

    /// The seconds that the rate covers.
    var span: Double { samples.isEmpty ? 0 : samples[samples.count - 1].time - samples[0].time }

    /// nil until there are samples of two different times.
    var bytesPerSecond: Double? {
        guard span > 0, let first = samples.first, let last = samples.last else { return nil }
        return Double(last.bytes - first.bytes) / span
    }
}

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
