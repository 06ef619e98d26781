import Glibc

/// Whether a body is slow, by the rate at which its bytes are accepted.
struct SlowBodyDetector {
    /// Bodies below this rate are slow: bytes per second.
    private static let slow: Double = 256_000

    private var last: (accepted: Int64, time: UInt64)?
    private(set) var isSlow = false
    /// A new body is slow while TCP finds its speed. If its bytes collected, it would stay slow for long, since TCP's
    /// window grows with what is read.
    private var isYoung = true
    /// How long a body counts as young: nanoseconds.
    private static let youth: UInt64 = 2_000_000_000

    /// To be called at intervals, with the bytes accepted so far and the time in nanoseconds. The bytes of a slow body
    /// collect for up to `patience` and arrive at once, so its rate is only measured over a longer time.
    mutating func update(_ accepted: Int64, at now: UInt64, patience: UInt64) {
        guard let last else { return self.last = (accepted, now) }
        guard now >= last.time + (isYoung ? Self.youth : isSlow ? 2 * patience : 0) else { return }
        isYoung = false
        isSlow = Double(accepted - last.accepted) * 1e9 < Self.slow * Double(now - last.time)
        self.last = (accepted, now)
    }
}

/// The number of bytes that must wait in a connection's socket before the socket counts as readable (SO_RCVLOWAT,
/// socket(7)). The loop still learns at once of the connection's end, of errors, and of a TCP window about to close.
struct LowWaterMark {
    /// This leaves 32 KiB of a sink's small block (128 KiB) for bytes that arrive before the read. The kernel makes the
    /// receive buffer large enough for the mark.
    static let highest = 96 << 10

    /// -1 until the transfer has a socket.
    var socket: Int32 = -1
    private(set) var bytes = 1

    /// Bytes that wait already are reported if they reach the new mark.
    mutating func set(_ bytes: Int) {
        guard bytes != self.bytes else { return }
        self.bytes = bytes
        var value = Int32(bytes)
        setsockopt(socket, SOL_SOCKET, SO_RCVLOWAT, &value, socklen_t(MemoryLayout<Int32>.size))
    }
}

/// The slow transfers that libcurl has just read from. Their sockets collect bytes again once libcurl is done with
/// them, and not sooner, because libcurl asks the socket whether there is more.
final class SlowTasks {
    private var read: [TransferTask] = []

    func join(_ task: TransferTask) { if read.last !== task { read.append(task) } }

    func gather() {
        for task in read { task.gather() }
        read.removeAll(keepingCapacity: true)
    }
}
