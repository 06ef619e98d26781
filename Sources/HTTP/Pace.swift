/// Whether a body is slow, by what is taken of it.
struct Pace {
    /// Bodies below it are slow: bytes per second.
    private static let slow: Double = 256_000

    private var last: (taken: Int64, time: UInt64)?
    private(set) var isSlow = false
    /// One that has just begun is slow while TCP feels its way, and would be for long if its bytes gathered: TCP's window grows
    /// by what is read.
    private var isYoung = true
    /// How long that takes at most: nanoseconds.
    private static let youth: UInt64 = 2_000_000_000

    /// To be called now and then, with the bytes taken until now and the time in nanoseconds. The bytes of a slow body gather
    /// for up to `patience` and come at once, so that of one only a time that is longer than that tells the pace.
    mutating func update(_ taken: Int64, at now: UInt64, patience: UInt64) {
        guard let last else { return self.last = (taken, now) }
        guard now >= last.time + (isYoung ? Self.youth : isSlow ? 2 * patience : 0) else { return }
        isYoung = false
        isSlow = Double(taken - last.taken) * 1e9 < Self.slow * Double(now - last.time)
        self.last = (taken, now)
    }
}
