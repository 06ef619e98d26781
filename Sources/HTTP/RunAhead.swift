/// How far a server may run ahead of a body that obeys a limit of rate. A value: it looks at no socket.
///
/// What waits unread in a socket came over the network, though no limit counts it yet. The kernel lets a receive buffer grow to
/// many megabytes, so that a few connections that join one limit would receive a second of it at once. So a buffer grows only
/// where a long way needs it.
struct RunAhead {
    /// What a way needs: round trips of the body's speed. With three of them a body that may be faster has three times its speed
    /// a round trip later.
    private static let roundTrips = 3.0
    /// It may always be so far: bytes.
    private static let least = 64 << 10
    /// Half of a receive buffer is the kernel's own, for what packets take besides their bytes.
    private static let share = 2

    private var last: (taken: Int64, time: UInt64)?
    /// The kernel was told not to let the buffer grow.
    private(set) var isHeld = false

    /// Whether the receive buffer is to stay as it is; nil if nothing changes. A new body's buffer does, until its speed is known.
    ///
    /// - Parameters:
    ///   - buffer: Bytes.
    ///   - taken: Bytes of the body until now.
    ///   - now: Nanoseconds.
    ///   - roundTrip: Seconds.
    mutating func hold(buffer: Int, taken: Int64, at now: UInt64, roundTrip: Double) -> Bool? {
        var needed = Self.least
        if let last, now > last.time {
            let speed = Double(taken - last.taken) * 1e9 / Double(now - last.time)
            needed += Int(speed * Self.roundTrips * roundTrip)
        }
        last = (taken, now)
        return change(to: buffer >= Self.share * needed)
    }

    /// There is no limit any more.
    mutating func end() -> Bool? {
        last = nil
        return change(to: false)
    }

    private mutating func change(to isHeld: Bool) -> Bool? {
        guard isHeld != self.isHeld else { return nil }
        self.isHeld = isHeld
        return isHeld
    }
}
