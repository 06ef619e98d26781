import Glibc
import HaulExecutors
import Synchronization

/// A scripted HTTP/1.1 origin over real sockets on loopback, plain or with TLS. A handler returns the reply to each
/// request. Each connection has a thread of its own, so a handler may block, for example at a `Latch`.
package final class OriginServer: Sendable {
    private struct State {
        var requests: [OriginRequest] = []
        var counts: [String: Int] = [:]
        var bodyBytes: [String: Int64] = [:]
        var arrivedBytes: [String: Int64] = [:]
        var connections = 0
        /// The open sockets.
        var clients: Set<Int32> = []
    }

    private let base: String
    private let listener: LoopbackListener
    private let handler: @Sendable (OriginRequest) -> OriginReply
    private let intake: @Sendable (OriginRequest) -> OriginIntake
    private let state = Mutex(State())

    /// - Parameters:
    ///   - certificates: With these the origin speaks https, as 127.0.0.1 or ::1.
    ///     - requiresCertificate: Whether clients must have a certificate, too.
    ///   - intake: Returns how the body of a request is read. It gets the request's head.
    package init(
        _ family: LoopbackSocket.Family = .v4, port: Int = 0, certificates: Certificates? = nil,
        requiresCertificate: Bool = false,
        intake: @escaping @Sendable (OriginRequest) -> OriginIntake = { _ in OriginIntake() },
        _ handler: @escaping @Sendable (OriginRequest) -> OriginReply
    ) throws {
        (self.handler, self.intake) = (handler, intake)
        listener = try LoopbackListener(family, port: port)
        base = "\(certificates == nil ? "http" : "https")://\(family == .v4 ? "127.0.0.1" : "[::1]"):\(listener.port)"
        let tls = certificates.map { ServerTLS($0, requiresCertificate: requiresCertificate) }
        listener.start(name: "origin") { [weak self] client in
            guard let self else {
                close(client)
                return
            }
            let number = state.withLock { state in
                state.connections += 1
                state.clients.insert(client)
                return state.connections
            }
            startThread(name: "origin-\(number)") { [weak self] in
                if let connection = OriginConnection(client, tls) {
                    while let server = self, server.serve(connection, number) {}
                }
                self?.state.withLock { _ = $0.clients.remove(client) }
                close(client)
            }
        }
    }

    deinit { listener.stop() }

    package var port: Int { listener.port }

    package func url(_ path: String) -> String { base + path }

    package var requests: [OriginRequest] { state.withLock { $0.requests } }
    package var connections: Int { state.withLock { $0.connections } }
    /// The number of body bytes sent for a path.
    package func bytesSent(_ path: String) -> Int64 { state.withLock { $0.bodyBytes[path] ?? 0 } }

    /// The number of body bytes received for a path.
    package func bytesReceived(_ path: String) -> Int64 { state.withLock { $0.arrivedBytes[path] ?? 0 } }

    /// Accepts no more connections, and resets the open ones.
    package func stop() {
        listener.stop()
        cutConnections(byReset: true)
    }

    /// Ends every connection at once.
    ///
    /// - Parameter byReset: Sends a RST, as the kernel does for a killed process. Then a client that only sends notices
    ///   the end, too.
    package func cutConnections(byReset: Bool = false) {
        state.withLock { state in
            for client in state.clients {
                var linger = linger(l_onoff: byReset ? 1 : 0, l_linger: 0)
                setsockopt(client, SOL_SOCKET, SO_LINGER, &linger, socklen_t(MemoryLayout<Glibc.linger>.size))
                shutdown(client, Int32(SHUT_RDWR))
            }
        }
    }

    // MARK: One connection

    /// Serves one request. Returns false if the connection ends with it.
    private func serve(_ client: OriginConnection, _ connection: Int) -> Bool {
        guard let head = readHead(client, connection) else { return false }
        let intake = intake(head)
        var early = intake.refusal
        let request = early == nil ? readBody(client, head, intake) : head
        state.withLock { $0.requests.append(request) }
        if early == nil, !request.body.isWhole {
            if intake.isReset { client.reset() }
            return false
        }
        early?.headers.append(("Connection", "close"))
        var reply = early ?? handler(request)
        let isLast = early != nil || request.headers["connection"]?.lowercased() == "close"
        if isLast, early == nil, reply.framing != .close { reply.headers.append(("Connection", "close")) }
        if let delay = reply.delay {
            usleep(UInt32(delay.components.seconds * 1_000_000 + delay.components.attoseconds / 1_000_000_000_000))
        }
        guard client.send(Array((reply.preamble + self.head(reply)).utf8)) else { return false }
        guard request.method != "HEAD", reply.framing != .none else { return !isLast }
        guard sendBody(client, reply, request.path) else { return false }
        if let (latch, bytes) = reply.stray {
            latch.wait()
            guard client.send(Array(bytes.utf8)) else { return false }
        }
        switch reply.end {
        case .whole:
            guard isLast || reply.framing == .close || reply.cut != nil else { return true }
            client.finish()
        case .fin: break
        case .reset: client.reset()
        case .silence:
            // Wait until the peer closes the connection.
            var byte: UInt8 = 0
            while client.receive(&byte) {}
        }
        return false
    }

    private func head(_ reply: OriginReply) -> String {
        var lines = ["HTTP/1.1 \(reply.status) Scripted"] + reply.headers.map { "\($0): \($1)" }
        switch reply.framing {
        case .length: lines.append("Content-Length: \(reply.declaredLength ?? reply.body.count)")
        case .chunked: lines.append("Transfer-Encoding: chunked")
        case .close: lines.append("Connection: close")
        case .none: break
        }
        return lines.joined(separator: "\r\n") + "\r\n\r\n"
    }

    private func sendBody(_ client: OriginConnection, _ reply: OriginReply, _ path: String) -> Bool {
        let count = min(reply.body.count, reply.cut.map(Int64.init) ?? .max)
        let step = reply.pace.map { Int64(max(1, $0 / 50)) } ?? 64 << 10
        var start: Int64 = 0
        while start < count {
            var end = min(start + step, count)
            if let hold = reply.hold {
                if start == hold.after { hold.until.wait() }
                if start < hold.after { end = min(end, hold.after) }
            }
            let piece = reply.body.piece(start..<end)
            let announced = piece.count + (start == 0 ? reply.chunkExcess : 0)
            let framed =
                reply.framing == .chunked
                ? Array(String(announced, radix: 16).utf8) + [13, 10] + piece + [13, 10] : piece
            guard client.send(framed) else { return false }
            state.withLock { $0.bodyBytes[path, default: 0] += Int64(piece.count) }
            if reply.pace != nil { usleep(20_000) }
            start = end
        }
        if reply.framing == .chunked, reply.end == .whole, reply.cut == nil {
            return client.send(Array("0\r\n\(reply.trailers)\r\n".utf8))
        }
        return true
    }

    private func readBody(
        _ client: OriginConnection, _ head: OriginRequest, _ intake: OriginIntake
    ) -> OriginRequest {
        var greeting = intake.preamble
        if intake.welcomes, head.headers["expect"]?.lowercased() == "100-continue" {
            greeting += "HTTP/1.1 100 Continue\r\n\r\n"
        }
        if !greeting.isEmpty { _ = client.send(Array(greeting.utf8)) }
        let body = OriginBody.read(client, head.headers, intake) { count in
            state.withLock { $0.arrivedBytes[head.path, default: 0] += Int64(count) }
        }
        return OriginRequest(
            method: head.method, path: head.path, headers: head.headers, body: body, number: head.number,
            connection: head.connection)
    }

    private func readHead(_ client: OriginConnection, _ connection: Int) -> OriginRequest? {
        var bytes: [UInt8] = []
        var byte: UInt8 = 0
        while !bytes.suffix(4).elementsEqual([13, 10, 13, 10]) {
            guard bytes.count < 1 << 20, client.receive(&byte) else { return nil }
            bytes.append(byte)
        }
        let lines = String(decoding: bytes, as: UTF8.self).split(separator: "\r\n")
        let words = lines.first?.split(separator: " ") ?? []
        guard words.count == 3 else { return nil }
        var headers: [String: String] = [:]
        for line in lines.dropFirst() {
            guard let colon = line.firstIndex(of: ":") else { continue }
            headers[line[..<colon].lowercased()] = String(line[line.index(after: colon)...].drop { $0 == " " })
        }
        let path = String(words[1])
        let number = state.withLock { state in
            state.counts[path, default: 0] += 1
            return state.counts[path]!
        }
        return OriginRequest(
            method: String(words[0]), path: path, headers: headers, body: OriginBody(), number: number,
            connection: connection)
    }
}
