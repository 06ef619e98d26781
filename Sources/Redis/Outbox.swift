import Glibc

/// The send buffer of a connection. The commands of one turn of the loop are sent in one write at the end of the turn.
struct Outbox {
    enum Outcome: Equatable {
        case sent
        /// The socket's send buffer is full. epoll reports when the socket is writable again.
        case full
        case failed(errno: Int32)
    }

    /// Commands in plain text. Without TLS, `write` sends these bytes.
    var plain: [UInt8] = []
    /// Encrypted bytes. With TLS, `write` sends these bytes.
    private var sealed: [UInt8] = []
    /// How many bytes of the buffer that `write` sends the socket has accepted.
    private var written = 0
    /// Whether a write at the end of this turn is scheduled.
    var isScheduled = false
    private(set) var isFull = false

    /// Writes as much as the socket accepts.
    ///
    /// - Throws: `.certificate` if TLS fails.
    mutating func write(to descriptor: Int32, through tls: TLS?) throws(RedisError) -> Outcome {
        isScheduled = false
        guard let tls else { return Self.write(&plain, from: &written, to: descriptor, isFull: &isFull) }
        if tls.isEstablished {
            try tls.send(plain)
            plain.removeAll(keepingCapacity: plain.capacity < Self.keptCapacity)
        }
        sealed += tls.output()
        return Self.write(&sealed, from: &written, to: descriptor, isFull: &isFull)
    }

    private static let keptCapacity = 1 << 20

    private static func write(
        _ bytes: inout [UInt8], from written: inout Int, to descriptor: Int32, isFull: inout Bool
    ) -> Outcome {
        while written < bytes.count {
            let count = bytes.withUnsafeBytes {
                Glibc.send(descriptor, $0.baseAddress! + written, $0.count - written, Int32(MSG_NOSIGNAL))
            }
            if count > 0 {
                written += count
            } else if errno == EAGAIN {
                isFull = true
                return .full
            } else if errno != EINTR {
                return .failed(errno: errno)
            }
        }
        bytes.removeAll(keepingCapacity: bytes.capacity < keptCapacity)
        (written, isFull) = (0, false)
        return .sent
    }
}
