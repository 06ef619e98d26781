import Glibc

/// What is to be said on a connection, until the socket has taken it.
///
/// What gathers during one turn of the loop goes out in one write at its end.
struct Outbox {
    enum Outcome: Equatable {
        case sent
        /// The socket takes no more now, and tells when it does.
        case full
        case failed(errno: Int32)
    }

    /// Not sealed yet, with TLS.
    var plain: [UInt8] = []
    /// With TLS what is to be sent.
    private var sealed: [UInt8] = []
    /// Bytes of what is sent that the socket has taken.
    private var written = 0
    /// A write at the end of this turn is asked for.
    var isScheduled = false
    private(set) var isFull = false

    /// Writes what the socket takes.
    ///
    /// - Throws: What TLS has against it.
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
