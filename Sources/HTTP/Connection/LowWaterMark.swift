import Glibc

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
