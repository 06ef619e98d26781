import Glibc
import HaulExecutors
import HaulHTTPServer
import HaulTestSupport

/// A client that can send any bytes, over a socket of its own.
final class RawClient: Sendable {
    private static let pool = BlockingPool(name: "raw clients", limit: 32)
    private let socket: Int32

    /// - Parameter source: The address of the client on this machine, such as 127.0.7.1.
    init(_ address: ListenAddress, from source: String? = nil) throws {
        socket =
            try source.map { try Self.connect(to: address.port, from: $0) }
            ?? LoopbackSocket.connect(.v4, port: Int(address.port))
        var limit = timeval(tv_sec: 15, tv_usec: 0)
        for option in [SO_RCVTIMEO, SO_SNDTIMEO] {
            setsockopt(socket, SOL_SOCKET, option, &limit, socklen_t(MemoryLayout<timeval>.size))
        }
    }

    deinit { close(socket) }

    private struct NotConnected: Error {
        let address: String
        let code: Int32
    }

    private static func connect(to port: UInt16, from source: String) throws -> Int32 {
        let socket = Glibc.socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        for (text, port, isOwn) in [(source, 0, true), ("127.0.0.1", port, false)] {
            var endpoint = sockaddr_in()
            endpoint.sin_family = sa_family_t(AF_INET)
            endpoint.sin_port = port.bigEndian
            inet_pton(AF_INET, text, &endpoint.sin_addr)
            let status = withUnsafePointer(to: &endpoint) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    let size = socklen_t(MemoryLayout<sockaddr_in>.size)
                    return isOwn ? bind(socket, $0, size) : Glibc.connect(socket, $0, size)
                }
            }
            guard status == 0 else { throw NotConnected(address: text, code: errno) }
        }
        return socket
    }

    /// Sends what the socket takes of `bytes` at once, and returns how many bytes that are. Does not wait.
    @discardableResult
    func offer(_ bytes: [UInt8]) -> Int {
        guard !bytes.isEmpty else { return 0 }
        return Glibc.send(socket, bytes, bytes.count, Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT))
    }

    /// Sends `bytes`, until the connection breaks or makes no progress for 15 seconds. Returns how many bytes were
    /// sent.
    @discardableResult
    func send(_ bytes: [UInt8]) async -> Int {
        await Self.pool.run { [socket] in
            var sent = 0
            while sent < bytes.count {
                let count = bytes[sent...].withUnsafeBytes {
                    Glibc.send(socket, $0.baseAddress!, $0.count, Int32(MSG_NOSIGNAL))
                }
                guard count > 0 else { break }
                sent += count
            }
            return sent
        }
    }

    @discardableResult
    func send(_ text: String) async -> Int { await send(Array(text.utf8)) }

    /// Reads until `text` has come, the connection ends, or nothing comes for 15 seconds. Returns what was read.
    func read(until text: String? = nil) async -> String {
        await Self.pool.run { [socket] in
            var bytes: [UInt8] = []
            var buffer = [UInt8](repeating: 0, count: 64 << 10)
            while true {
                let count = recv(socket, &buffer, buffer.count, 0)
                guard count > 0 else { return String(decoding: bytes, as: UTF8.self) }
                bytes += buffer[..<count]
                let received = String(decoding: bytes, as: UTF8.self)
                if let text, received.contains(text) { return received }
            }
        }
    }

    /// Makes the client reset its connection (RST) when it is released, instead of closing it in order.
    func reset() {
        var none = linger(l_onoff: 1, l_linger: 0)
        setsockopt(socket, SOL_SOCKET, SO_LINGER, &none, socklen_t(MemoryLayout<linger>.size))
    }

    /// Whether the server has closed the connection. This does not wait.
    var isClosed: Bool {
        var byte: UInt8 = 0
        let count = recv(socket, &byte, 1, Int32(MSG_DONTWAIT) | Int32(MSG_PEEK))
        return count == 0 || count < 0 && errno != EAGAIN
    }
}
