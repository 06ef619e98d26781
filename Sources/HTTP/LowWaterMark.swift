import Glibc

/// How many bytes must wait in a connection's socket before the loop hears of them (SO_RCVLOWAT, see socket(7)). The end of
/// the connection and errors it hears of at once, and so it does when TCP's window is about to close.
struct LowWaterMark {
    /// With a piece that comes meanwhile it fits into 128 KiB, the small memory of a sink. The kernel makes the receive buffer
    /// large enough for it.
    static let highest = 96 << 10

    /// -1 before there is one.
    var socket: Int32 = -1
    private(set) var bytes = 1

    /// What waits already is reported if it reaches the new mark.
    mutating func set(_ bytes: Int) {
        guard bytes != self.bytes else { return }
        self.bytes = bytes
        var value = Int32(bytes)
        setsockopt(socket, SOL_SOCKET, SO_RCVLOWAT, &value, socklen_t(MemoryLayout<Int32>.size))
    }
}
