import CHaulLinux
import Glibc
import HaulExecutors

/// A small HTTP/1.1 server. All its connections share one thread. `ServerLimits` bounds what each client may use, so
/// that no client can block the others.
///
/// Handlers run on Swift's cooperative threads. If a client disconnects, its handler is cancelled.
///
/// The actor has many properties because it owns what its connections share: the loop, the limits, the listening
/// sockets and the receive buffer.
package actor HTTPServer {
    package typealias Handler = @Sendable (ServerRequest) async -> ServerResponse

    package nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    nonisolated let loop = EventLoop(name: "http")
    nonisolated let limits: ServerLimits
    private let handler: Handler
    private let refusal: @Sendable (Int, String) -> ServerResponse
    private var listeners: [Int32] = []
    var connections: [UInt64: ServerConnection] = [:]
    private var lastID: UInt64 = 0
    private var inbox = [UInt8](repeating: 0, count: 16 << 10)
    /// Whether the server accepts connections. false for a moment after the process has run out of descriptors.
    private var isListening = true

    /// - Parameter refusal: Makes the response to a request that breaks HTTP or a limit, of a status and a sentence.
    package init(
        limits: ServerLimits = ServerLimits(),
        refusal: @escaping @Sendable (Int, String) -> ServerResponse = {
            ServerResponse($0, "text/plain; charset=utf-8", $1 + "\n")
        }, handler: @escaping Handler
    ) {
        (self.limits, self.refusal, self.handler) = (limits, refusal, handler)
    }

    deinit { loop.stop() }

    /// Listens on one more address. Returns the address with the actual port, if the system chose the port.
    ///
    /// - Throws: `ServerError` if the address cannot be bound.
    @discardableResult
    package func listen(on address: ListenAddress) throws(ServerError) -> ListenAddress {
        let (socket, place) = try address.listen()
        listeners.append(socket)
        watchListener(socket)
        return place
    }

    /// Stops listening, and closes all connections.
    package func stop() {
        for listener in listeners {
            loop.unwatch(listener)
            Glibc.close(listener)
        }
        listeners = []
        for connection in Array(connections.values) { close(connection) }
    }

    /// The number of connections, and how many of them are sending a stream.
    package var load: (connections: Int, streams: Int) {
        (connections.count, connections.values.count { $0.isStreaming })
    }

    // MARK: Accepting

    private func watchListener(_ socket: Int32) {
        loop.watch(socket, for: .readable) { [weak self] _ in self?.assumeIsolated { $0.accept(from: socket) } }
    }

    private func accept(from listener: Int32) {
        // Accept in batches, so that the open connections are served between two batches.
        for _ in 0..<64 {
            let socket = clinux_accept(listener)
            guard socket >= 0 else {
                if [EMFILE, ENFILE, ENOBUFS, ENOMEM].contains(errno) { restListeners() }
                return
            }
            _ = fcntl(socket, F_SETFL, O_NONBLOCK)
            var yes: Int32 = 1
            setsockopt(socket, Int32(IPPROTO_TCP), TCP_NODELAY, &yes, socklen_t(MemoryLayout<Int32>.size))
            if connections.count >= limits.connections { makeRoom() }
            open(socket)
        }
    }

    /// Closes the connection that has been idle for the longest time, if a connection waits for a request.
    private func makeRoom() {
        let waiting = connections.values.filter(\.isReading).min { $0.idleSince < $1.idleSince }
        if let waiting { close(waiting) }
    }

    private func open(_ socket: Int32) {
        lastID += 1
        let connection = ServerConnection(id: lastID, socket: socket, limits: limits)
        let hasRoom = connections.count < limits.connections
        // The number of connections that get a 503 is limited as well.
        guard connections.count < limits.connections + 64 else {
            Glibc.close(socket)
            return
        }
        connections[lastID] = connection
        let id = lastID
        loop.watch(socket, for: .readable) { [weak self] readiness in
            self?.assumeIsolated { $0.handle(readiness, of: id) }
        }
        if hasRoom {
            setDeadline(of: connection, after: limits.headTime)
        } else {
            refuse(connection, 503, "too many clients are connected: try again in a moment")
        }
    }

    /// Stops accepting for 200 ms: the process or the system has run out of descriptors or memory.
    private func restListeners() {
        guard isListening else { return }
        isListening = false
        makeRoom()
        for listener in listeners { loop.unwatch(listener) }
        _ = loop.schedule(at: .now + .milliseconds(200)) { [weak self] in
            self?.assumeIsolated { server in
                server.isListening = true
                for listener in server.listeners { server.watchListener(listener) }
            }
        }
    }

    // MARK: A connection's events

    private func handle(_ readiness: EventLoop.Readiness, of id: UInt64) {
        guard let connection = connections[id] else { return }
        if !readiness.isDisjoint(with: .failed) { return close(connection) }
        if readiness.contains(.writable) {
            wrote(on: connection)
            guard connections[id] != nil else { return }
        }
        if readiness.contains(.readable) { read(from: connection) }
    }

    private func read(from connection: ServerConnection) {
        switch connection.receive(into: &inbox) {
        case .none: return
        case .failed: close(connection)
        case .end:
            // A client may half-close while it waits for its response. During a stream this means that it is gone.
            switch connection.phase {
            case .answering, .writing:
                connection.isHalfClosed = true
                watch(connection)
            case .reading, .streaming, .lingering: close(connection)
            }
        case .bytes(let bytes):
            switch connection.phase {
            case .lingering, .streaming: return
            case .reading:
                if connection.reader.isIdle { setDeadline(of: connection, after: limits.headTime) }
                connection.reader.add(bytes)
                advance(connection)
            case .answering, .writing:
                connection.reader.add(bytes)
                watch(connection)
            }
        }
    }

    /// Parses the next request from the received bytes.
    func advance(_ connection: ServerConnection) {
        let hadHead = connection.reader.awaitsBody
        switch connection.reader.next() {
        case .more: break
        case .mayContinue:
            connection.output += Array("HTTP/1.1 100 Continue\r\n\r\n".utf8)
            _ = connection.flush()
        case .refused(let refusal): return refuse(connection, refusal.status, refusal.reason)
        case .request(let request): return answer(request, on: connection)
        }
        if connection.reader.awaitsBody, !hadHead { setDeadline(of: connection, after: limits.bodyTime) }
        watch(connection)
    }

    private func answer(_ request: ServerRequest, on connection: ServerConnection) {
        clearDeadline(of: connection)
        let (id, handler) = (connection.id, handler)
        connection.phase = .answering(
            Task { [weak self] in
                let response = await handler(request)
                await self?.send(response, to: request, on: id)
            })
        watch(connection)
    }

    /// Sends an error response, and closes the connection after `limits.lingerTime`.
    private func refuse(_ connection: ServerConnection, _ status: Int, _ reason: String) {
        let response = refusal(status, reason)
        let body: [UInt8] = if case .bytes(let bytes) = response.body { bytes } else { [] }
        connection.output += response.head(length: body.count, keepsAlive: false) + body
        connection.phase = .lingering
        setDeadline(of: connection, after: limits.lingerTime)
        guard connection.flush() else { return close(connection) }
        if connection.output.isEmpty { shutdown(connection.socket, Int32(SHUT_WR)) }
        watch(connection)
    }
}
