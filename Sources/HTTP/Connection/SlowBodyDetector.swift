/// Whether a body is slow, by the rate at which its bytes are accepted.
struct SlowBodyDetector {
    /// Bodies below this rate are slow: bytes per second.
    private static let slow: Double = 256_000

    private var last: (taken: Int64, time: UInt64)?
    private(set) var isSlow = false
    /// A new body is slow while TCP finds its speed. If its bytes collected, it would stay slow for long, since TCP's
    /// window grows with what is read.
    private var isYoung = true
    /// How long a body counts as young: nanoseconds.
    private static let youth: UInt64 = 2_000_000_000

    /// To be called at intervals, with the bytes accepted so far and the time in nanoseconds. The bytes of a slow body
    /// collect for up to `patience` and arrive at once, so its rate is only measured over a longer time.
    mutating func update(_ taken: Int64, at now: UInt64, patience: UInt64) {
        guard let last else { return self.last = (taken, now) }
        guard now >= last.time + (isYoung ? Self.youth : isSlow ? 2 * patience : 0) else { return }
        isYoung = false
        isSlow = Double(taken - last.taken) * 1e9 < Self.slow * Double(now - last.time)
        self.last = (taken, now)
    }
}
