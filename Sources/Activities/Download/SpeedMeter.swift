import HaulExecutors

/// Bytes per second over the last five seconds, and on average over this attempt.
struct SpeedMeter {
    private static let window = 5.0
    private let begun = monotonicNanoseconds()
    private var samples: [(time: UInt64, bytes: Int64)] = []

    /// Notes that `bytes` have arrived in this attempt.
    mutating func sample(_ bytes: Int64) {
        let now = monotonicNanoseconds()
        samples.append((now, bytes))
        while samples.count > 2, Double(now - samples[1].time) / 1e9 > Self.window { samples.removeFirst() }
    }

    var speed: Int64 {
        guard let first = samples.first, let last = samples.last, last.time > first.time else { return average }
        return Int64(Double(last.bytes - first.bytes) / (Double(last.time - first.time) / 1e9))
    }

    var average: Int64 {
        guard let last = samples.last, last.time > begun else { return 0 }
        return Int64(Double(last.bytes) / (Double(last.time - begun) / 1e9))
    }

    var seconds: Double { Double(monotonicNanoseconds() - begun) / 1e9 }
}
