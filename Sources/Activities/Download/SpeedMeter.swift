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
