import Glibc
import HaulExecutors

/// One client's connection and its state. Touched on the server's loop only.
///
/// The class has many properties: states that exclude each other are in `phase`; the others change independently
/// (input, output, the waiting writer, the deadline).
final class ServerConnection {
    enum Phase {
        /// Waiting for a request, or receiving one.
        case reading
        /// The handler works on the request.
        case answering(Task<Void, Never>)
        /// Sending a response. After that the connection is used again if `keepsAlive`.
        case writing(keepsAlive: Bool)
        /// Sending a streamed response.
        case streaming(Task<Void, Never>)
        /// Closing: received bytes are dropped for a while, so that the client can read the last response.
        case lingering
    }

    let id: UInt64
    let socket: Int32
    var phase = Phase.reading
    var reader: RequestReader
    /// Bytes to send. The socket has taken the first `sent` of them.
    var output: [UInt8] = []
    var sent = 0
    /// The stream that waits until the socket has taken `output`. Resumed with false if the connection was closed.
    var waiter: CheckedContinuation<Bool, Never>?
    var deadline: EventLoop.Timer?
    /// When the connection was opened, or the last response was sent.
    var idleSince = ContinuousClock.now
    var watched: EventLoop.Readiness = .readable
    /// Whether the client has half-closed the connection: it sends nothing more.
    var isHalfClosed = false

    init(id: UInt64, socket: Int32, limits: ServerLimits) {
        (self.id, self.socket) = (id, socket)
        reader = RequestReader(limits: limits)
    }

    var isIdle: Bool { if case .reading = phase { reader.isIdle } else { false } }
    var isReading: Bool { if case .reading = phase { true } else { false } }
    var isStreaming: Bool { if case .streaming = phase { true } else { false } }

    /// Sends as much of `output` as the socket takes. Returns false if the client is gone.
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

    /// Reads the bytes that have arrived, at most as many as fit into `buffer`.
    func receive(into buffer: inout [UInt8]) -> Received {
        let count = buffer.withUnsafeMutableBytes { recv(socket, $0.baseAddress!, $0.count, 0) }
        if count > 0 { return .bytes(buffer[..<count]) }
        if count == 0 { return .end }
        return errno == EAGAIN || errno == EINTR ? .none : .failed
    }
}
