/// Whether a body is slow, judged from what is taken of it.
struct Pace {
    /// Bodies below it are slow: bytes per second.
    private static let slow: Double = 256_000

    private var last: (taken: Int64, time: UInt64)?
    private(set) var isSlow = false

    /// To be called now and then, with the bytes taken until now and the time in nanoseconds. The bytes of a slow body gather
    /// for up to `patience` and come at once, so that of one only a time that is longer than that tells the pace.
    mutating func judge(_ taken: Int64, at now: UInt64, patience: UInt64) {
        guard let last else { return self.last = (taken, now) }
        guard !isSlow || now >= last.time + 2 * patience else { return }
        isSlow = Double(taken - last.taken) * 1e9 < Self.slow * Double(now - last.time)
        self.last = (taken, now)
    }
}
