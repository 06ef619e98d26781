import CHaulLinux
import Glibc
import HaulExecutors

/// A small HTTP/1.1 server. All its connections share one thread. `ServerLimits` bounds what each client may use, so
/// that no client can block the others.
///
/// A handler gets the head of a request and decides whether its body is read. So no client makes the server hold a body
/// before the handler has looked at the credentials. Handlers run on Swift's cooperative threads. If a client
/// disconnects, its handler is cancelled.
///
/// Each connection starts at most one request in one turn of the loop, however many it has sent.
package actor HTTPServer {
    package typealias Handler = @Sendable (ServerRequest) async -> Decision

    /// What a handler decides from the head of a request.
    package enum Decision: Sendable {
        /// Sends the response. If the request has a body, it is not read, and the connection ends.
        case respond(ServerResponse)
        /// Reads the body, which may be empty, and sends the response that is made of it. Strangers, who are not known
        /// because the body itself has their secret, share `ServerLimits.strangersBodies`. `stranger` is the address of
        /// one, and nil for a known client. `recipient` is the network that the response is for; without one, that of
        /// the connection.
        case readBody(
            stranger: ClientAddress? = nil, recipient: ClientNetwork? = nil,
            @Sendable ([UInt8]) async -> ServerResponse)
    }

    /// What the clients occupy.
    package struct Load: Sendable {
        package var connections = 0
        /// The connections that send a stream.
        package var streams = 0
        /// Bytes of requests and responses that are held in memory.
        package var buffered = 0
        /// The length of all bodies that are received or worked on.
        package var bodies = 0
    }

    package nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    nonisolated let loop = EventLoop(name: "http")
    nonisolated let limits: ServerLimits
    private let handler: Handler
    private let refusal: @Sendable (Int, String) -> ServerResponse
    private var listeners: [Int32] = []
    var connections: [UInt64: ServerConnection] = [:]
    private var lastID: UInt64 = 0
    /// The length of all bodies that are received or worked on.
    private var bodies = 0
    /// Of these, the length of the bodies of clients that have not signed in.
    private var strangersBodies: [ClientNetwork: Int] = [:]
    /// The connections whose next request has arrived already, in the order of their turns.
    private var turns: [UInt64] = []
    private var inbox = [UInt8](repeating: 0, count: 16 << 10)
    /// Whether the server accepts connections. false for a short time after the process has run out of descriptors.
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
        let (socket, bound) = try address.listen()
        listeners.append(socket)
        watchListener(socket)
        return bound
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

    package var load: Load {
        var load = Load(connections: connections.count, bodies: bodies)
        for connection in connections.values {
            load.buffered += connection.reader.count + connection.output.count
            if connection.isStreaming { load.streams += 1 }
        }
        return load
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
            open(socket)
        }
    }

    /// Closes connections of the network that has the most of them, first those that have made no progress for the
    /// longest time. So clients that open many connections take them from each other, and not from all others. A
    /// connection that occupies a handler is closed only in favour of a network that has fewer connections, so that a
    /// client can always connect, however busy another network keeps the server. Refused connections count until they
    /// are closed, so there may be more than the limit. A large server closes several at once, because the choice reads
    /// all connections.
    private func makeRoom(for network: ClientNetwork?) {
        let counts = connections.values.reduce(into: [ClientNetwork: Int]()) { $0[$1.network, default: 0] += 1 }
        guard let largest = counts.max(by: { $0.value < $1.value }) else { return }
        let own = connections.values.filter { $0.network == largest.key }
        let isSmaller = network.map { counts[$0, default: 0] + 1 < largest.value } ?? false
        let candidates = own.filter { isSmaller || $0.isReplaceable }.sorted {
            ($0.isReplaceable ? 0 : 1, $0.lastPhaseChange) < ($1.isReplaceable ? 0 : 1, $1.lastPhaseChange)
        }
        let excess = max(0, connections.count - limits.connections) + max(1, limits.connections / 64)
        for connection in candidates.prefix(excess) { close(connection) }
    }

    private func open(_ socket: Int32) {
        lastID += 1
        let connection = ServerConnection(id: lastID, socket: socket, limits: limits)
        if connections.count >= limits.connections { makeRoom(for: connection.network) }
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
            refuse(connection, 503, "too many clients are connected: try again in some seconds")
        }
    }

    /// Stops accepting for 200 ms: the process or the system has run out of descriptors or memory.
    private func restListeners() {
        guard isListening else { return }
        isListening = false
        makeRoom(for: nil)
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
            continueWriting(to: connection)
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
            case .handling, .writing:
                connection.isHalfClosed = true
                updateReadiness(of: connection)
            case .reading, .receiving, .streaming, .lingering: close(connection)
            }
        case .bytes(let bytes):
            switch connection.phase {
            case .lingering: return
            case .streaming: endWait(of: connection, with: .bytes(Array(bytes)))
            case .reading:
                connection.reader.add(bytes)
                advance(connection)
            case .receiving(let body):
                connection.reader.add(bytes)
                receive(body, on: connection)
            case .handling, .writing:
                connection.reader.add(bytes)
                updateReadiness(of: connection)
            }
        }
    }

    /// Parses the next request from the received bytes.
    private func advance(_ connection: ServerConnection) {
        if !connection.hasHeadDeadline {
            connection.hasHeadDeadline = true
            setDeadline(of: connection, after: limits.headTime)
        }
        switch connection.reader.next() {
        case .more: updateReadiness(of: connection)
        case .refused(let refusal): refuse(connection, refusal.status, refusal.reason)
        case .head(var request, let length):
            request.client = connection.client
            decide(request, length, on: connection)
        }
    }

    /// Lets a connection go on in one of the next turns, because its next request may have arrived already.
    func awaitTurn(_ connection: ServerConnection) {
        guard !connection.awaitsTurn else { return }
        connection.awaitsTurn = true
        turns.append(connection.id)
        if turns.count == 1 { scheduleTurn() }
    }

    private func scheduleTurn() {
        // The loop runs timers once in a turn, so it reads its sockets in between.
        _ = loop.schedule(at: .now) { [weak self] in self?.assumeIsolated { $0.takeTurns() } }
    }

    private func takeTurns() {
        let next = turns.prefix(limits.pipelined)
        turns.removeFirst(next.count)
        for id in next {
            guard let connection = connections[id] else { continue }
            connection.awaitsTurn = false
            if case .reading = connection.phase { advance(connection) }
        }
        if !turns.isEmpty { scheduleTurn() }
    }

    private func decide(_ request: ServerRequest, _ length: Int, on connection: ServerConnection) {
        clearDeadline(of: connection)
        let (id, handler) = (connection.id, handler)
        connection.phase = .handling(
            Task { [weak self] in
                switch await handler(request) {
                case .respond(let response): await self?.send(response, to: request, isWhole: length == 0, on: id)
                case .readBody(let stranger, let recipient, let respond):
                    let body = ServerConnection.IncomingBody(
                        request: request, length: length, stranger: stranger?.network, recipient: recipient,
                        respond: respond)
                    await self?.receive(body, on: id)
                }
            })
        updateReadiness(of: connection)
    }

    // MARK: Bodies

    private func receive(_ body: ServerConnection.IncomingBody, on id: UInt64) {
        guard let connection = connections[id] else { return }
        guard bodies + body.length <= limits.bodies, mayReceive(body) else {
            return refuse(connection, 503, "too many bodies are being received: try again in some seconds")
        }
        // The response may be long, and can no longer be refused once the body has changed something.
        connection.recipient = body.recipient ?? connection.network
        guard mayHold(limits.shortResponse + 1, for: connection) else {
            return refuse(connection, 503, Self.tooManyResponses)
        }
        bodies += body.length
        if let stranger = body.stranger { strangersBodies[stranger, default: 0] += body.length }
        connection.phase = .receiving(body)
        setDeadline(of: connection, after: limits.bodyTime)
        if body.request.expectsContinue, connection.reader.count < body.length {
            connection.output += Array("HTTP/1.1 100 Continue\r\n\r\n".utf8)
            guard connection.flush() else { return close(connection) }
        }
        receive(body, on: connection)
    }

    private func receive(_ body: ServerConnection.IncomingBody, on connection: ServerConnection) {
        guard let bytes = connection.reader.body(body.length) else { return updateReadiness(of: connection) }
        clearDeadline(of: connection)
        let id = connection.id
        connection.phase = .handling(
            Task { [weak self] in
                let response = await body.respond(bytes)
                await self?.release(body)
                await self?.send(response, to: body.request, isWhole: true, on: id)
            })
        updateReadiness(of: connection)
    }

    /// Whether a body may be received beside those that strangers send. Bodies of known clients always may.
    private func mayReceive(_ body: ServerConnection.IncomingBody) -> Bool {
        guard let stranger = body.stranger else { return true }
        let all = strangersBodies.values.reduce(0, +)
        let own = strangersBodies[stranger] ?? 0
        return all + body.length <= limits.strangersBodies && own + body.length <= limits.body
    }

    func release(_ body: ServerConnection.IncomingBody) {
        bodies -= body.length
        guard let network = body.stranger else { return }
        let left = (strangersBodies[network] ?? 0) - body.length
        strangersBodies[network] = left > 0 ? left : nil
    }

    static let tooManyResponses = "too many responses wait for their clients: try again in some seconds"

    /// Sends an error response, and closes the connection after `limits.lingerTime`.
    func refuse(_ connection: ServerConnection, _ status: Int, _ reason: String) {
        let response = refusal(status, reason)
        let body: [UInt8] = if case .bytes(let bytes) = response.body { bytes } else { [] }
        connection.output += response.head(length: Int64(body.count), keepsAlive: false) + body
        connection.phase = .lingering
        setDeadline(of: connection, after: limits.lingerTime)
        guard connection.flush() else { return close(connection) }
        if connection.output.isEmpty { shutdown(connection.socket, Int32(SHUT_WR)) }
        updateReadiness(of: connection)
    }
}
