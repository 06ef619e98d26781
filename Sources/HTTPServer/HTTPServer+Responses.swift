import Glibc
import HaulExecutors

// Sending responses.

extension HTTPServer {
    /// Starts to send the handler's response.
    ///
    /// - Parameter isWhole: Whether the whole request was read. If not, the connection is not kept alive, because the
    ///   rest of the body would be parsed as the next request.
    func send(_ response: ServerResponse, to request: ServerRequest, isWhole: Bool, on id: UInt64) {
        guard let connection = connections[id] else { return }
        let isHead = request.method == "HEAD"
        connection.recipient = response.recipient ?? connection.network
        switch response.body {
        case .bytes(let bytes):
            // Only what has changed nothing may be refused now, because a client repeats it. A request with a body was
            // checked before (`receive`), unless many came together.
            guard request.method != "GET" && !response.isRepeatable || mayHold(bytes.count, for: connection) else {
                return refuse(connection, 503, Self.tooManyResponses)
            }
            let keepsAlive = request.keepsAlive && isWhole && !connection.isHalfClosed
            connection.output += response.head(length: Int64(bytes.count), keepsAlive: keepsAlive)
            if !isHead { connection.output += bytes }
            connection.phase = .writing(keepsAlive: keepsAlive)
            setDeadline(of: connection, after: limits.writeTime)
            continueWriting(to: connection)
        case .stream(let length, let body):
            guard connections.values.count(where: \.isStreaming) < limits.streams else {
                return refuse(connection, 503, "too many streams are open: try again in some seconds")
            }
            connection.output += response.head(length: length, keepsAlive: false)
            if isHead { stream({ _ in }, on: connection) } else { stream(body, on: connection) }
        case .upgrade(let body):
            guard connections.values.count(where: \.isStreaming) < limits.streams else {
                return refuse(connection, 503, "too many streams are open: try again in some seconds")
            }
            connection.isUpgraded = true
            connection.output += response.head(length: nil, keepsAlive: false)
            let incoming = IncomingBytes(server: self, connection: id)
            stream({ try await body($0, incoming) }, on: connection)
        }
    }

    /// Whether a response of this length may be held beside those that wait for other clients. Short ones always may, and
    /// are few enough, because each connection has one.
    func mayHold(_ count: Int, for connection: ServerConnection) -> Bool {
        guard count > limits.shortResponse else { return true }
        var (all, own) = (0, 0)
        for other in connections.values {
            all += other.waitingResponse
            if other.recipient == connection.recipient { own += other.waitingResponse }
        }
        return (all == 0 || all + count <= limits.responses) && (own == 0 || own + count <= limits.responses / 4)
    }

    private func stream(
        _ body: @escaping @Sendable (ResponseWriter) async throws -> Void, on connection: ServerConnection
    ) {
        let writer = ResponseWriter(server: self, connection: connection.id)
        connection.phase = .streaming(
            Task {
                // Sends the head at once, because `body` may wait long before it sends anything.
                try? await writer.send("")
                try? await body(writer)
                await writer.server.endStream(writer.connection)
            })
        updateReadiness(of: connection)
    }

    /// Sends the next piece of a stream, and returns when the socket has accepted all of it.
    ///
    /// - Throws: `ResponseWriter.Closed` if the connection was closed. It is also closed if the piece cannot be held beside
    ///   what waits for other clients.
    func send(_ bytes: [UInt8], on id: UInt64) async throws {
        guard let connection = connections[id] else { throw ResponseWriter.Closed() }
        guard mayHold(bytes.count, for: connection) else {
            close(connection)
            throw ResponseWriter.Closed()
        }
        connection.output += bytes
        guard connection.flush() else {
            close(connection)
            throw ResponseWriter.Closed()
        }
        guard !connection.output.isEmpty else { return }
        setDeadline(of: connection, after: limits.writeTime)
        updateReadiness(of: connection)
        // A cancellation handler is not needed: only `close` cancels the task, and it also resumes `flushWaiter`.
        let isOpen = await withCheckedContinuation { connection.flushWaiter = $0 }
        if !isOpen { throw ResponseWriter.Closed() }
    }

    /// The next bytes of an upgraded connection (`IncomingBytes`).
    func nextBytes(on id: UInt64, until deadline: ContinuousClock.Instant) async -> IncomingBytes.Piece {
        guard let connection = connections[id] else { return .end }
        let early = connection.reader.rest()
        guard early.isEmpty else { return .bytes(early) }
        let piece = await withCheckedContinuation { waiter in
            let timer = loop.schedule(at: deadline) { [weak self] in
                self?.assumeIsolated { server in
                    if let connection = server.connections[id] { server.endWait(of: connection, with: .none) }
                }
            }
            connection.bytesWaiter = (waiter, timer)
            updateReadiness(of: connection)
        }
        return piece
    }

    /// Resumes the reader of an upgraded connection, if one waits.
    func endWait(of connection: ServerConnection, with piece: IncomingBytes.Piece) {
        guard let (waiter, timer) = connection.bytesWaiter else { return }
        connection.bytesWaiter = nil
        loop.cancel(timer)
        waiter.resume(returning: piece)
        if connections[connection.id] != nil { updateReadiness(of: connection) }
    }

    private func endStream(_ id: UInt64) {
        guard let connection = connections[id] else { return }
        close(connection)
    }

    /// Writes as much of the output as the socket accepts. Once all is written, the phase decides what happens next.
    func continueWriting(to connection: ServerConnection) {
        guard connection.flush() else { return close(connection) }
        guard connection.output.isEmpty else { return updateReadiness(of: connection) }
        switch connection.phase {
        case .reading, .receiving, .handling: updateReadiness(of: connection)
        case .lingering:
            shutdown(connection.socket, Int32(SHUT_WR))
            updateReadiness(of: connection)
        case .streaming:
            clearDeadline(of: connection)
            updateReadiness(of: connection)
            connection.flushWaiter?.resume(returning: true)
            connection.flushWaiter = nil
        case .writing(let keepsAlive):
            guard keepsAlive, !connection.isHalfClosed else { return linger(connection) }
            connection.phase = .reading
            // The bytes of a pipelined request may have been received already, and then no event reports them.
            connection.hasHeadDeadline = connection.reader.count > 0
            setDeadline(of: connection, after: connection.hasHeadDeadline ? limits.headTime : limits.idleTime)
            updateReadiness(of: connection)
            if connection.hasHeadDeadline { awaitTurn(connection) }
        }
    }

    /// Ends a connection that is not kept alive. Until the client closes it too, or for `limits.lingerTime`, further
    /// bytes are read and discarded. To close a socket with unread bytes would reset the connection, and the client
    /// could lose the response.
    private func linger(_ connection: ServerConnection) {
        shutdown(connection.socket, Int32(SHUT_WR))
        connection.phase = .lingering
        setDeadline(of: connection, after: limits.lingerTime)
        updateReadiness(of: connection)
    }

    // MARK: Deadlines and readiness

    func setDeadline(of connection: ServerConnection, after time: Duration) {
        clearDeadline(of: connection)
        let id = connection.id
        connection.deadline = loop.schedule(at: .now + time) { [weak self] in
            self?.assumeIsolated { server in
                guard let connection = server.connections[id] else { return }
                connection.deadline = nil
                server.close(connection)
            }
        }
    }

    func clearDeadline(of connection: ServerConnection) {
        if let deadline = connection.deadline { loop.cancel(deadline) }
        connection.deadline = nil
    }

    /// Watches the socket for the events that the connection needs. Bytes beyond `receiveCapacity` stay in the kernel,
    /// so a client that sends too many requests before it has its response must wait (back-pressure).
    func updateReadiness(of connection: ServerConnection) {
        var readiness: EventLoop.Readiness = []
        if !connection.isHalfClosed, connection.receiveCapacity > 0 { readiness.insert(.readable) }
        if !connection.output.isEmpty { readiness.insert(.writable) }
        guard readiness != connection.watchedEvents else { return }
        connection.watchedEvents = readiness
        loop.change(connection.socket, to: readiness)
    }

    func close(_ connection: ServerConnection) {
        guard connections.removeValue(forKey: connection.id) != nil else { return }
        clearDeadline(of: connection)
        loop.unwatch(connection.socket)
        Glibc.close(connection.socket)
        switch connection.phase {
        case .handling(let task), .streaming(let task): task.cancel()
        case .receiving(let body): release(body)
        case .reading, .writing, .lingering: break
        }
        connection.flushWaiter?.resume(returning: false)
        connection.flushWaiter = nil
        endWait(of: connection, with: .end)
    }
}
