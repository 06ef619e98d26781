/// Decides whether the receive buffer of a socket may grow while its body has a rate limit.
///
/// Bytes that wait unread in a socket have crossed the network, but no rate limit has counted them yet. The kernel lets
/// a receive buffer grow to many megabytes, so that a few new connections could receive the bytes of a whole second at
/// once. Therefore a buffer may grow only as far as a long round trip requires.
struct ReceiveBufferLimit {
    /// The buffer holds the bytes of this many round trips. With three, a body whose limit is raised can be three times
    /// as fast one round trip later.
    private static let roundTrips = 3.0
    /// Bytes that the server may always send before they are read.
    private static let minAhead = 64 << 10
    /// The kernel uses half of a receive buffer for the overhead of packets.
    private static let bufferPerByte = 2

    private var last: (accepted: Int64, time: UInt64)?
    /// Whether the kernel was asked not to let the buffer grow.
    private(set) var isHeld = false

    /// Whether the receive buffer must keep its size; nil if nothing changes. The buffer of a new body keeps its size
    /// until the body's speed is known.
    ///
    /// - Parameters:
    ///   - buffer: The size of the receive buffer in bytes.
    ///   - accepted: The bytes of the body that were accepted so far.
    ///   - now: Monotonic nanoseconds.
    ///   - roundTrip: Seconds.
    mutating func hold(buffer: Int, accepted: Int64, at now: UInt64, roundTrip: Double) -> Bool? {
        var needed = Self.minAhead
        if let last, now > last.time {
            let speed = Double(accepted - last.accepted) * 1e9 / Double(now - last.time)
            needed += Int(speed * Self.roundTrips * roundTrip)
        }
        last = (accepted, now)
        return change(to: buffer >= Self.bufferPerByte * needed)
    }

    /// The body has no rate limit any more. Returns false if the buffer may grow again; nil if nothing changes.
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
