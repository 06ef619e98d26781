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
