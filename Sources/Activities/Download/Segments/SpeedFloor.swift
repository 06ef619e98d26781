import HaulContract

/// Decides whether a download is slower than its job allows: on average over `window` seconds, without the time in
/// which our own limits or the disk held it up.
struct SpeedFloor {
    let bytesPerSecond: Int64
    private let seconds: Double
    private var window: RateWindow
    /// The seconds and bytes that count.
    private var counted: (time: Double, bytes: Int64) = (0, 0)
    private var last: (time: Double, bytes: Int64)?

    /// - Parameter window: Seconds.
    init(bytesPerSecond: Int64, window: Double = 30) {
        (self.bytesPerSecond, seconds) = (bytesPerSecond, window)
        self.window = RateWindow(length: window)
        self.window.add(0, at: 0)
    }

    var failure: Failure {
        Failure(
            .tooSlow, "slower than the \(bytesPerSecond) bytes per second that are required, over \(Int(seconds)) s"
        )
    }

    /// Records the bytes that have arrived so far. Returns true if the download is too slow.
    mutating func isTooSlow(arrived: Int64, isHeld: Bool, now: Double) -> Bool {
        defer { last = (now, arrived) }
        guard let last, !isHeld else { return false }
        counted = (counted.time + now - last.time, counted.bytes + arrived - last.bytes)
        window.add(counted.bytes, at: counted.time)
        guard window.span >= seconds, let rate = window.bytesPerSecond else { return false }
        return rate < Double(bytesPerSecond)
    }
}
