import Glibc
import HaulExecutors

/// One client's connection and its state. Touched on the server's loop only.
final class ServerConnection {
    enum Phase {
        /// Waiting for a request, or receiving one.
        case reading
        /// The handler works on the request.
        case handling(Task<Void, Never>)
        /// Receiving a body that the handler has decided to read.
        case receiving(IncomingBody)
        /// Sending a response. After that the connection is used again if `keepsAlive`.
        case writing(keepsAlive: Bool)
        /// Sending a streamed response.
        case streaming(Task<Void, Never>)
        /// Closing: received bytes are dropped for a while, so that the client can read the last response.
        case lingering
    }

    /// A body that is received, and what is done with it.
    struct IncomingBody {
        let request: ServerRequest
        let length: Int
        /// The network of its client, if the client has not signed in.
        let stranger: ClientNetwork?
        /// The network that the response is for, if it is not that of the connection.
        let recipient: ClientNetwork?
        let respond: @Sendable ([UInt8]) async -> ServerResponse
    }

    let id: UInt64
    let socket: Int32
    let client: ClientAddress
    let network: ClientNetwork
    /// The network for which the last response is.
    var recipient: ClientNetwork
    var phase = Phase.reading { didSet { lastPhaseChange = .now } }
    var reader: RequestReader
    /// Bytes to send. The socket has taken the first `sent` of them.
    var output: [UInt8] = []
    var sent = 0
    /// The stream that waits until the socket has taken `output`. Resumed with false if the connection was closed.
    var flushWaiter: CheckedContinuation<Bool, Never>?
    /// Whether the protocol was changed. Then bytes are received only while `bytesWaiter` waits.
    var isUpgraded = false
    /// Waits for what the client sends after a change of the protocol, until a deadline.
    var bytesWaiter: (CheckedContinuation<IncomingBytes.Piece, Never>, EventLoop.Timer)?
    var deadline: EventLoop.Timer?
    /// When the connection was opened, or its phase changed last. Bytes do not count, since they cost a client little.
    var lastPhaseChange = ContinuousClock.now
    /// Whether the deadline of the next head runs already.
    var hasHeadDeadline = true
    /// Whether the connection waits in `HTTPServer.turns` for its next turn.
    var awaitsTurn = false
    var watchedEvents: EventLoop.Readiness = .readable
    /// Whether the client has half-closed the connection: it sends nothing more.
    var isHalfClosed = false

    init(id: UInt64, socket: Int32, limits: ServerLimits) {
        (self.id, self.socket, client) = (id, socket, ClientAddress(peerOf: socket))
        network = client.network
        recipient = network
        reader = RequestReader(limits: limits)
    }

    /// Whether the connection may be closed in favour of a new one: it does not occupy a handler.
    var isReplaceable: Bool {
        switch phase {
        case .reading, .receiving, .writing, .lingering: true
        case .handling, .streaming: false
        }
    }
    /// The bytes of a response that the socket has not taken yet.
    var waitingResponse: Int {
        switch phase {
        case .writing, .streaming: output.count
        case .reading, .receiving, .handling, .lingering: 0
        }
    }
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

    /// How many bytes the connection may receive now. What a client sends before its time stays in the kernel, which
    /// makes the client wait.
    var receiveCapacity: Int {
        switch phase {
        case .reading: reader.headroom
        case .receiving(let body): body.length - reader.count
        // To notice that the client is gone.
        case .handling, .writing: reader.count == 0 ? reader.headroom : 0
        case .streaming: isUpgraded && bytesWaiter == nil ? 0 : .max
        case .lingering: .max
        }
    }

    /// Reads the bytes that have arrived, at most as many as the connection may receive and as fit into `buffer`.
    func receive(into buffer: inout [UInt8]) -> Received {
        let limit = min(receiveCapacity, buffer.count)
        guard limit > 0 else { return .none }
        let count = buffer.withUnsafeMutableBytes { recv(socket, $0.baseAddress!, limit, 0) }
        if count > 0 { return .bytes(buffer[..<count]) }
        if count == 0 { return .end }
        return errno == EAGAIN || errno == EINTR ? .none : .failed
    }
}
