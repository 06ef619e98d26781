import Executors
import Glibc
import Synchronization

/// A request as the origin read it.
package struct OriginRequest: Sendable {
    package let method: String
    package let path: String
    /// Names in lower case.
    package let headers: [String: String]
    /// 1 for the first request of this path.
    package let number: Int
    /// Counts accepted connections, from 1.
    package let connection: Int

    /// The range of `bytes=a-b` or `bytes=a-`, cut to `count`; nil without a Range.
    package func range(of count: Int64) -> Range<Int64>? {
        guard let text = headers["range"], text.hasPrefix("bytes=") else { return nil }
        let ends = text.dropFirst(6).split(separator: "-", omittingEmptySubsequences: false)
        guard ends.count == 2, let first = Int64(ends[0]) else { return nil }
        let last = Int64(ends[1]).map { min($0 + 1, count) } ?? count
        return first < last ? first..<last : first..<first
    }
}

/// What the origin answers, to the byte. What is not set is right.
package struct OriginReply: Sendable {
    package enum End: Sendable { case whole, fin, reset, silence }
    package enum Framing: Sendable { case length, chunked, close, none }

    package var status = 200
    package var headers: [(String, String)] = []
    package var body: [UInt8] = []
    package var framing = Framing.length
    /// Lies about the length.
    package var declaredLength: Int64?
    /// Only so many bytes of the body are sent, then `end`.
    package var cut: Int?
    package var end = End.whole
    /// Bytes per second.
    package var pace: Int?
    /// Sent before the head, and after a chunked body.
    package var preamble = ""
    package var trailers = ""
    package var delay: Duration?

    package init(_ status: Int = 200, headers: [(String, String)] = [], body: [UInt8] = []) {
        (self.status, self.headers, self.body) = (status, headers, body)
    }

    /// `bytes` as a well-behaved server gives them: ranges and If-Range honoured.
    package static func file(
        _ bytes: FileBytes, etag: String? = "\"v1\"", headers: [(String, String)] = [], to request: OriginRequest
    ) -> OriginReply {
        var reply = OriginReply(headers: headers)
        if let etag { reply.headers.append(("ETag", etag)) }
        reply.headers.append(("Accept-Ranges", "bytes"))
        if let condition = request.headers["if-none-match"], condition == etag {
            reply.status = 304
            reply.framing = .none
            return reply
        }
        let isCurrent = request.headers["if-range"].map { $0 == etag } ?? true
        guard isCurrent, let range = request.range(of: bytes.count) else {
            reply.body = bytes.all
            return reply
        }
        guard !range.isEmpty else {
            reply.status = 416
            reply.headers.append(("Content-Range", "bytes */\(bytes.count)"))
            return reply
        }
        reply.status = 206
        reply.headers.append(("Content-Range", "bytes \(range.lowerBound)-\(range.upperBound - 1)/\(bytes.count)"))
        reply.body = bytes.bytes(range)
        return reply
    }
}

/// A scripted HTTP/1.1 origin over real sockets on loopback: a handler says what is answered to each request.
package final class OriginServer: Sendable {
    private struct State {
        var requests: [OriginRequest] = []
        var counts: [String: Int] = [:]
        var bodyBytes: [String: Int64] = [:]
        var connections = 0
        /// Sockets that are open.
        var clients: Set<Int32> = []
    }

    package let port: Int
    private let listener: Int32
    private let handler: @Sendable (OriginRequest) -> OriginReply
    private let state = Mutex(State())

    package init(_ handler: @escaping @Sendable (OriginRequest) -> OriginReply) throws {
        self.handler = handler
        let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                _ = bind(listener, $0, size)
                _ = getsockname(listener, $0, &size)
            }
        }
        listen(listener, 512)
        self.listener = listener
        port = Int(UInt16(bigEndian: address.sin_port))
        startThread(name: "origin") { [weak self, listener] in
            while true {
                let client = accept(listener, nil, nil)
                guard client >= 0, let self else {
                    if client >= 0 { close(client) }
                    return
                }
                let number = self.state.withLock { state in
                    state.connections += 1
                    state.clients.insert(client)
                    return state.connections
                }
                startThread(name: "origin-\(number)") { [weak self] in
                    while let server = self, server.serve(client, number) {}
                    self?.state.withLock { _ = $0.clients.remove(client) }
                    close(client)
                }
            }
        }
    }

    deinit {
        shutdown(listener, Int32(SHUT_RDWR))
        close(listener)
    }

    package func url(_ path: String) -> String { "http://127.0.0.1:\(port)\(path)" }

    package var requests: [OriginRequest] { state.withLock { $0.requests } }
    package var connections: Int { state.withLock { $0.connections } }
    /// Bytes of bodies sent for a path.
    package func bytesSent(_ path: String) -> Int64 { state.withLock { $0.bodyBytes[path] ?? 0 } }

    /// Ends every connection where it is.
    package func cutConnections() {
        state.withLock { for client in $0.clients { shutdown(client, Int32(SHUT_RDWR)) } }
    }

    // MARK: One connection

    private func serve(_ client: Int32, _ connection: Int) -> Bool {
        guard let request = readRequest(client, connection) else { return false }
        state.withLock { $0.requests.append(request) }
        let reply = handler(request)
        if let delay = reply.delay {
            usleep(UInt32(delay.components.seconds * 1_000_000 + delay.components.attoseconds / 1_000_000_000_000))
        }
        guard send(client, Array((reply.preamble + head(reply)).utf8)) else { return false }
        guard request.method != "HEAD", reply.framing != .none else { return true }
        let body = reply.cut.map { Array(reply.body.prefix($0)) } ?? reply.body
        guard sendBody(client, body, reply, request.path) else { return false }
        switch reply.end {
        case .whole: return reply.framing != .close && reply.cut == nil
        case .fin: return false
        case .reset:
            var linger = linger(l_onoff: 1, l_linger: 0)
            setsockopt(client, SOL_SOCKET, SO_LINGER, &linger, socklen_t(MemoryLayout<linger>.size))
            return false
        case .silence:
            // Until the other side gives up.
            var byte: UInt8 = 0
            while recv(client, &byte, 1, 0) > 0 {}
            return false
        }
    }

    private func head(_ reply: OriginReply) -> String {
        var lines = ["HTTP/1.1 \(reply.status) Scripted"] + reply.headers.map { "\($0): \($1)" }
        switch reply.framing {
        case .length: lines.append("Content-Length: \(reply.declaredLength ?? Int64(reply.body.count))")
        case .chunked: lines.append("Transfer-Encoding: chunked")
        case .close: lines.append("Connection: close")
        case .none: break
        }
        return lines.joined(separator: "\r\n") + "\r\n\r\n"
    }

    private func sendBody(_ client: Int32, _ body: [UInt8], _ reply: OriginReply, _ path: String) -> Bool {
        let step = reply.pace.map { max(1, $0 / 50) } ?? 64 << 10
        for start in stride(from: 0, to: body.count, by: step) {
            let piece = Array(body[start..<min(start + step, body.count)])
            let framed =
                reply.framing == .chunked
                ? Array(String(piece.count, radix: 16).utf8) + [13, 10] + piece + [13, 10] : piece
            guard send(client, framed) else { return false }
            state.withLock { $0.bodyBytes[path, default: 0] += Int64(piece.count) }
            if reply.pace != nil { usleep(20_000) }
        }
        if reply.framing == .chunked, reply.end == .whole, reply.cut == nil {
            return send(client, Array("0\r\n\(reply.trailers)\r\n".utf8))
        }
        return true
    }

    private func send(_ client: Int32, _ bytes: [UInt8]) -> Bool {
        var done = 0
        while done < bytes.count {
            let count = bytes.withUnsafeBytes {
                Glibc.send(client, $0.baseAddress! + done, $0.count - done, Int32(MSG_NOSIGNAL))
            }
            guard count > 0 else { return false }
            done += count
        }
        return true
    }

    private func readRequest(_ client: Int32, _ connection: Int) -> OriginRequest? {
        var bytes: [UInt8] = []
        var byte: UInt8 = 0
        while !bytes.suffix(4).elementsEqual([13, 10, 13, 10]) {
            guard bytes.count < 1 << 20, recv(client, &byte, 1, 0) == 1 else { return nil }
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
        var rest = headers["content-length"].flatMap { Int($0) } ?? 0
        while rest > 0, recv(client, &byte, 1, 0) == 1 { rest -= 1 }
        let path = String(words[1])
        let number = state.withLock { state in
            state.counts[path, default: 0] += 1
            return state.counts[path]!
        }
        return OriginRequest(
            method: String(words[0]), path: path, headers: headers, number: number, connection: connection)
    }
}
