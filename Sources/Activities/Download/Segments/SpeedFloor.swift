import HaulContract

/// Whether a download is slower than its job allows: on average over `window` seconds, not counting the time in which our own
/// limits or the disk held it.
struct SpeedFloor {
    let bytesPerSecond: Int64
    private let window: Double
    private var counted = 0.0
    private var last: (time: Double, bytes: Int64)?
    private var samples: [(time: Double, bytes: Int64)] = []
    private var bytes: Int64 = 0

    /// - Parameter window: Seconds.
    init(bytesPerSecond: Int64, window: Double = 30) { (self.bytesPerSecond, self.window) = (bytesPerSecond, window) }

    var failure: Failure {
        Failure(
            .tooSlow, "slower than the \(bytesPerSecond) bytes per second that the job asks for, over \(Int(window)) s")
    }

    /// Notes what has arrived so far; true if it is too slow.
    mutating func isTooSlow(arrived: Int64, isHeld: Bool, now: Double) -> Bool {
        defer { last = (now, arrived) }
        guard let last, !isHeld else { return false }
        counted += now - last.time
        bytes += arrived - last.bytes
        samples.append((counted, bytes))
        guard let old = samples.last(where: { counted - $0.time >= window }) else {
            return counted >= window && Double(bytes) < Double(bytesPerSecond) * counted
        }
        samples.removeAll { $0.time < old.time }
        return Double(bytes - old.bytes) < Double(bytesPerSecond) * (counted - old.time)
    }
}
