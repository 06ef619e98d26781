import Glibc
import HaulExecutors

/// Opens and closes non-blocking sockets. Host names are resolved on a thread that may block.
enum Socket {
    private static let resolver = BlockingPool(name: "redis-resolve", limit: 4)

    /// A socket address in the kernel's format.
    struct Address: Sendable {
        let family: Int32
        let bytes: [UInt8]
    }

    static func addresses(of address: RedisURL.Address) async throws(RedisError) -> [Address] {
        switch address {
        case .unix(let path): [try unixAddress(path)]
        case .tcp(let host, let port):
            try await resolver.run { () throws(RedisError) in try resolve(host: host, port: port) }
        }
    }

    /// Starts to connect. The socket becomes writable when the connect has succeeded or failed (see `pendingError`).
    ///
    /// - Throws: `.unreachable`.
    static func connect(to address: Address) throws(RedisError) -> Int32 {
        let descriptor = socket(
            address.family, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue) | Int32(SOCK_CLOEXEC.rawValue),
            0)
        guard descriptor >= 0 else { throw RedisError(.unreachable, "no socket: \(message(errno))") }
        if address.family != AF_UNIX {
            var one: Int32 = 1
            setsockopt(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &one, 4)
            setsockopt(descriptor, SOL_SOCKET, SO_KEEPALIVE, &one, 4)
        }
        let status = address.bytes.withUnsafeBytes {
            Glibc.connect(descriptor, $0.assumingMemoryBound(to: sockaddr.self).baseAddress, socklen_t($0.count))
        }
        // A unix socket with a full backlog returns EAGAIN. The connect has failed then, and is not in progress.
        guard status == 0 || errno == EINPROGRESS else {
            let reason = message(errno)
            close(descriptor)
            throw RedisError(.unreachable, reason)
        }
        return descriptor
    }

    /// Closes a socket and discards unsent bytes. Otherwise the kernel could continue to send them for minutes, and the
    /// server might execute these commands after later commands of another connection.
    static func abort(_ descriptor: Int32) {
        var now = linger(l_onoff: 1, l_linger: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &now, socklen_t(MemoryLayout<linger>.size))
        close(descriptor)
    }

    /// The error of the connect. nil if the connect succeeded.
    static func pendingError(of descriptor: Int32) -> String? {
        var code: Int32 = 0
        var size = socklen_t(4)
        getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &code, &size)
        return code == 0 ? nil : message(code)
    }

    static func message(_ code: Int32) -> String { String(cString: strerror(code)) }

    private static func unixAddress(_ path: String) throws(RedisError) -> Address {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let bytes = Array(path.utf8)
        guard bytes.count < MemoryLayout.size(ofValue: address.sun_path) else {
            throw RedisError(.badURL, "the path of a unix socket has at most 107 bytes, \(path) has \(bytes.count)")
        }
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
        return Address(family: AF_UNIX, bytes: withUnsafeBytes(of: &address) { Array($0) })
    }

    private static func resolve(host: String, port: Int) throws(RedisError) -> [Address] {
        var hints = addrinfo()
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        var list: UnsafeMutablePointer<addrinfo>?
        let status = getaddrinfo(host, String(port), &hints, &list)
        guard status == 0, let first = list else {
            throw RedisError(
                .unreachable, "the name \(host) does not resolve: \(String(cString: gai_strerror(status)))")
        }
        defer { freeaddrinfo(first) }
        return sequence(first: first, next: { $0.pointee.ai_next }).map { entry in
            let bytes = UnsafeRawBufferPointer(start: entry.pointee.ai_addr, count: Int(entry.pointee.ai_addrlen))
            return Address(family: entry.pointee.ai_family, bytes: Array(bytes))
        }
    }
}
