import Glibc
import HaulExecutors

/// One client's connection, and what it does. Touched on the server's loop only.
///
/// It has many properties. What excludes each other is in `phase`; the others change on their own: the request that comes,
/// the bytes that leave, who waits for them, and the time.
final class ServerConnection {
    enum Phase {
        /// Awaits a request, since then.
        case reading
        /// The handler has the request.
        case answering(Task<Void, Never>)
        /// An answer is on its way; then the connection is used again, or not.
        case writing(keepsAlive: Bool)
        /// An answer without an end.
        case streaming(Task<Void, Never>)
        /// A refused client's bytes are dropped until it has seen why.
        case lingering
    }

    let id: UInt64
    let socket: Int32
    var phase = Phase.reading
    var reader: RequestReader
    /// What is still to be sent.
    var output: [UInt8] = []
    var sent = 0
    /// Who waits until `output` has been taken.
    var waiter: CheckedContinuation<Bool, Never>?
    var deadline: EventLoop.Timer?
    /// Since when it has nothing to do.
    var idleSince = ContinuousClock.now
    var watched: EventLoop.Readiness = .readable
    /// The client has sent its end.
    var isHalfClosed = false

    init(id: UInt64, socket: Int32, limits: ServerLimits) {
        (self.id, self.socket) = (id, socket)
        reader = RequestReader(limits: limits)
    }

    var isIdle: Bool { if case .reading = phase { reader.isIdle } else { false } }
    var isReading: Bool { if case .reading = phase { true } else { false } }
    var isStreaming: Bool { if case .streaming = phase { true } else { false } }

    /// Sends what it can; false if the client is gone.
    func flush() -> Bool {
        while sent < output.count {
            let count = output[sent...].withUnsafeBytes {
                Glibc.send(socket, $0.baseAddress!, $0.count, Int32(MSG_NOSIGNAL))
            }
            if count > 0 {
                sent += count
            } else if errno == EAGAIN {
                return true
            } else if errno != EINTR {
                return false
            }
        }
        output.removeAll(keepingCapacity: output.capacity <= 64 << 10)
        sent = 0
        return true
    }

    enum Received { case bytes(ArraySlice<UInt8>), none, end, failed }

    /// Reads what is there, at most as much as fits into `buffer`.
    func receive(into buffer: inout [UInt8]) -> Received {
        let count = buffer.withUnsafeMutableBytes { recv(socket, $0.baseAddress!, $0.count, 0) }
        if count > 0 { return .bytes(buffer[..<count]) }
        if count == 0 { return .end }
        return errno == EAGAIN || errno == EINTR ? .none : .failed
    }
}
