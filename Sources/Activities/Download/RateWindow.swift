/// Bytes per second over the last so many seconds, of a count that only grows. Times are seconds from any beginning.
struct RateWindow {
    private let length: Double
    /// The first of them is the last that is as old as the window is long, if one is.
    private var samples: [(time: Double, bytes: Int64)] = []

    /// - Parameter length: Seconds.
    init(length: Double) { self.length = length }

    /// Notes that until `time` so many bytes have come in all.
    mutating func add(_ bytes: Int64, at time: Double) {
        samples.append((time, bytes))
        while samples.count > 2, time - samples[1].time >= length { samples.removeFirst() }
    }

    /// The seconds that the rate is over.
    var span: Double { samples.isEmpty ? 0 : samples[samples.count - 1].time - samples[0].time }

    /// nil while nothing can be told.
    var bytesPerSecond: Double? {
        guard span > 0, let first = samples.first, let last = samples.last else { return nil }
        return Double(last.bytes - first.bytes) / span
    }
}
