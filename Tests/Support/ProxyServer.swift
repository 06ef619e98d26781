import Foundation
import Glibc
import HaulExecutors
import Synchronization

/// A proxy on loopback, like an operator's. It serves HTTP (CONNECT, and plain requests in absolute form) and SOCKS 5
/// on one port, and distinguishes them by the first byte. With certificates both are within TLS. It connects to
/// loopback only, and records its requests.
package final class ProxyServer: Sendable {
    private struct State {
        var targets: [String] = []
        var heads: [String] = []
        var connections = 0
        /// The open sockets.
        var clients: Set<Int32> = []
    }

    private let listener: LoopbackListener
    /// Names that this proxy resolves to 127.0.0.1.
    private let names: Set<String>
    /// The `user:password` that clients must send.
    private let credentials: String?
    private let state = Mutex(State())

    package init(names: Set<String> = [], credentials: String? = nil, certificates: Certificates? = nil) throws {
        (self.names, self.credentials) = (names, credentials)
        listener = try LoopbackListener()
        let tls = certificates.map { ServerTLS($0) }
        listener.start(name: "proxy") { [weak self] client in
            guard let self else {
                close(client)
                return
            }
            state.withLock { state in
                state.connections += 1
                state.clients.insert(client)
            }
            startThread(name: "proxy-client") {
                self.serve(client, tls)
                self.state.withLock { _ = $0.clients.remove(client) }
                close(client)
            }
        }
    }

    deinit { listener.stop() }

    package var port: Int { listener.port }

    /// Ends every connection at once, by a FIN or a RST.
    package func cutConnections(byReset: Bool = false) {
        state.withLock { state in
            for client in state.clients {
                guard byReset else {
                    shutdown(client, Int32(SHUT_RDWR))
                    continue
                }
                // connect with AF_UNSPEC resets a connected socket. Its thread still closes the descriptor.
                var unspecified = sockaddr()
                unspecified.sa_family = sa_family_t(AF_UNSPEC)
                Glibc.connect(client, &unspecified, socklen_t(MemoryLayout<sockaddr>.size))
            }
        }
    }

    /// Accepts no more connections, and ends the open ones.
    package func leave() {
        listener.stop()
        cutConnections()
    }

    /// - Parameter scheme: http, https, socks5 or socks5h.
    package func url(_ scheme: String, credentials: String? = nil) -> String {
        "\(scheme)://\(credentials.map { $0 + "@" } ?? "")127.0.0.1:\(port)"
    }

    /// The requested targets: `CONNECT host:port`, `GET http://…` or `SOCKS host:port`.
    package var targets: [String] { state.withLock { $0.targets } }
    /// The heads of the HTTP requests, unchanged.
    package var heads: [String] { state.withLock { $0.heads } }
    package var connections: Int { state.withLock { $0.connections } }

    private func record(_ target: String) { state.withLock { $0.targets.append(target) } }

    private func serve(_ client: Int32, _ tls: ServerTLS?) {
        guard let tls else { return serve(client) }
        TLSFront.open(client, tls, serve)
    }

    private func serve(_ client: Int32) {
        var first: UInt8 = 0
        guard recv(client, &first, 1, Int32(MSG_PEEK)) == 1 else { return }
        if first == 5 { serveSOCKS(client) } else { serveHTTP(client) }
    }

    // MARK: HTTP

    private func serveHTTP(_ client: Int32) {
        var head: [UInt8] = []
        while !head.suffix(4).elementsEqual([13, 10, 13, 10]) {
            guard head.count < 1 << 16, let byte = read(client, 1) else { return }
            head += byte
        }
        var lines = String(decoding: head, as: UTF8.self).components(separatedBy: "\r\n")
        let words = lines[0].split(separator: " ")
        guard words.count == 3 else { return }
        record("\(words[0]) \(words[1])")
        state.withLock { $0.heads.append(lines.joined(separator: "\n")) }
        if let credentials {
            let wanted = "proxy-authorization: basic \(Data(credentials.utf8).base64EncodedString())".lowercased()
            guard lines.contains(where: { $0.lowercased() == wanted }) else {
                return send(
                    client, "HTTP/1.1 407 No\r\nProxy-Authenticate: Basic realm=\"x\"\r\nContent-Length: 0\r\n\r\n")
            }
        }
        let isTunnel = words[0] == "CONNECT"
        let url = isTunnel ? nil : URLComponents(string: String(words[1]))
        guard let target = isTunnel ? String(words[1]) : url?.host.map({ "\($0):\(url?.port ?? 80)" }),
            let server = connect(to: target)
        else { return send(client, "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n") }
        defer { close(server) }
        if let url {
            // Each connection to the server has one request. The server ends the response by closing.
            lines[0] =
                "\(words[0]) \(url.percentEncodedPath)\(url.percentEncodedQuery.map { "?" + $0 } ?? "") \(words[2])"
            lines.removeAll { $0.lowercased().hasPrefix("proxy-") || $0.lowercased().hasPrefix("connection:") }
            lines.insert("Connection: close", at: 1)
            send(server, lines.joined(separator: "\r\n"))
        } else {
            send(client, "HTTP/1.1 200 Connected\r\n\r\n")
        }
        relay(client, server)
    }

    // MARK: SOCKS 5 (RFC 1928, 1929)

    private func serveSOCKS(_ client: Int32) {
        guard let greeting = read(client, 2), let methods = read(client, Int(greeting[1])) else { return }
        let method: UInt8 = credentials == nil ? 0 : 2
        guard methods.contains(method) else {
            send(client, [5, 0xFF])
            return
        }
        send(client, [5, method])
        if let credentials {
            guard let user = read(client, 2).flatMap({ read(client, Int($0[1])) }),
                let password = read(client, 1).flatMap({ read(client, Int($0[0])) })
            else { return }
            let isRight = String(decoding: user + Array(":".utf8) + password, as: UTF8.self) == credentials
            send(client, [1, isRight ? 0 : 1])
            guard isRight else { return }
        }
        guard let request = read(client, 4), let host = readHost(client, kind: request[3]), let port = read(client, 2)
        else { return }
        let target = "\(host):\(Int(port[0]) << 8 | Int(port[1]))"
        record("SOCKS \(target)")
        let server = connect(to: target)
        // 4: host unreachable.
        send(client, [5, server == nil ? 4 : 0, 0, 1, 0, 0, 0, 0, 0, 0])
        guard let server else { return }
        defer { close(server) }
        relay(client, server)
    }

    private func readHost(_ client: Int32, kind: UInt8) -> String? {
        switch kind {
        case 1: return read(client, 4).map { $0.map(String.init).joined(separator: ".") }
        case 3: return read(client, 1).flatMap { read(client, Int($0[0])) }.map { String(decoding: $0, as: UTF8.self) }
        default:
            guard let bytes = read(client, 16) else { return nil }
            var text = [CChar](repeating: 0, count: Int(INET6_ADDRSTRLEN))
            inet_ntop(AF_INET6, bytes, &text, socklen_t(text.count))
            return "[\(String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self))]"
        }
    }

    // MARK: Both

    private func connect(to target: String) -> Int32? {
        guard let colon = target.lastIndex(of: ":"), let port = Int(target[target.index(after: colon)...]) else {
            return nil
        }
        let host = String(target[..<colon])
        switch host {
        case "127.0.0.1": return try? LoopbackSocket.connect(.v4, port: port)
        case "[::1]", "::1": return try? LoopbackSocket.connect(.v6, port: port)
        default: return names.contains(host) ? try? LoopbackSocket.connect(.v4, port: port) : nil
        }
    }

    /// Forwards bytes in both directions until both are at their end.
    private func relay(_ client: Int32, _ server: Int32) {
        let done = Latch()
        startThread(name: "proxy-up") {
            self.pump(from: client, to: server)
            done.open()
        }
        pump(from: server, to: client)
        // The server is gone, so end the client's sending as well.
        shutdown(client, Int32(SHUT_RDWR))
        done.wait()
    }

    private func pump(from source: Int32, to sink: Int32) {
        var buffer = [UInt8](repeating: 0, count: 64 << 10)
        while true {
            let count = recv(source, &buffer, buffer.count, 0)
            guard count > 0, send(sink, buffer[..<count]) else { break }
        }
        shutdown(sink, Int32(SHUT_WR))
    }

    private func read(_ descriptor: Int32, _ count: Int) -> [UInt8]? {
        var bytes = [UInt8](repeating: 0, count: count)
        return recv(descriptor, &bytes, count, Int32(MSG_WAITALL)) == count ? bytes : nil
    }

    private func send(_ descriptor: Int32, _ text: String) { send(descriptor, Array(text.utf8)[...]) }

    @discardableResult
    private func send(_ descriptor: Int32, _ bytes: ArraySlice<UInt8>) -> Bool {
        bytes.withUnsafeBytes { Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) } == bytes.count
    }
}
