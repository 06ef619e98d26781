import Glibc

/// An address on which a server listens: an IP address and a port, or the path of a unix socket.
package struct ListenAddress: Sendable, CustomStringConvertible {
    /// 4 or 16 bytes in network byte order. Empty for a unix socket.
    private let address: [UInt8]
    /// The path of a unix socket. nil for an IP address.
    private let path: String?
    /// 0 lets the system choose a port.
    package let port: UInt16

    /// Reads `127.0.0.1:8080`, `[::1]:8080`, `localhost:8080` (127.0.0.1), `:8080` and `8080` (both on 127.0.0.1), or
    /// `unix:/run/haul.sock`. nil for any other text.
    package init?(_ text: String) {
        if text.hasPrefix("unix:") {
            let path = String(text.dropFirst(5))
            guard path.hasPrefix("/"), path.utf8.count < MemoryLayout.size(ofValue: sockaddr_un().sun_path) else {
                return nil
            }
            (address, port, self.path) = ([], 0, path)
            return
        }
        path = nil
        var host = "127.0.0.1"
        var digits = text[...]
        if let colon = text.lastIndex(of: ":") {
            if colon > text.startIndex { host = String(text[..<colon]) }
            digits = text[text.index(after: colon)...]
        }
        if host == "localhost" { host = "127.0.0.1" }
        guard !digits.isEmpty, digits.utf8.allSatisfy({ 48...57 ~= $0 }), let port = UInt16(digits) else { return nil }
        self.port = port
        if host.hasPrefix("["), host.hasSuffix("]") {
            var address = in6_addr()
            guard inet_pton(AF_INET6, String(host.dropFirst().dropLast()), &address) == 1 else { return nil }
            self.address = withUnsafeBytes(of: &address) { Array($0) }
        } else {
            var address = in_addr()
            guard inet_pton(AF_INET, host, &address) == 1 else { return nil }
            self.address = withUnsafeBytes(of: &address) { Array($0) }
        }
    }

    /// Whether only this machine can connect.
    package var isLoopback: Bool {
        if path != nil { return true }
        return address.count == 4 ? address[0] == 127 : address == [UInt8](repeating: 0, count: 15) + [1]
    }

    package var description: String { path.map { "unix:\($0)" } ?? "\(host):\(port)" }

    private var host: String {
        var text = [CChar](repeating: 0, count: Int(INET6_ADDRSTRLEN))
        inet_ntop(address.count == 4 ? AF_INET : AF_INET6, address, &text, socklen_t(text.count))
        let name = String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
        return address.count == 4 ? name : "[\(name)]"
    }

    /// Opens a listening socket. Returns the socket, and the address with the port that the system chose, if it did.
    ///
    /// - Throws: `ServerError` with the reason of the system.
    package func listen() throws(ServerError) -> (socket: Int32, address: ListenAddress) {
        if let path { return (try listen(path), self) }
        let isIPv4 = address.count == 4
        let type = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue) | Int32(SOCK_NONBLOCK.rawValue)
        let socket = Glibc.socket(isIPv4 ? AF_INET : AF_INET6, type, 0)
        guard socket >= 0 else { throw ServerError(self, errno) }
        var yes: Int32 = 1
        setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, socklen_t(MemoryLayout<Int32>.size))
        let status = isIPv4 ? bind4(socket) : bind6(socket)
        guard status == 0, Glibc.listen(socket, 512) == 0 else {
            let code = errno
            close(socket)
            throw ServerError(self, code)
        }
        return (socket, ListenAddress(address: address, port: Self.port(of: socket)))
    }

    private init(address: [UInt8], port: UInt16) { (self.address, self.port, path) = (address, port, nil) }

    /// Listens on a unix socket. Replaces a socket file on which no process listens any more.
    private func listen(_ path: String) throws(ServerError) -> Int32 {
        var socketAddress = sockaddr_un()
        socketAddress.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &socketAddress.sun_path) { $0.copyBytes(from: path.utf8) }
        let type = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue) | Int32(SOCK_NONBLOCK.rawValue)
        func attempt(_ call: (Int32, UnsafePointer<sockaddr>, socklen_t) -> Int32) -> (socket: Int32, code: Int32) {
            let socket = Glibc.socket(AF_UNIX, type, 0)
            guard socket >= 0 else { return (-1, errno) }
            let status = withUnsafePointer(to: &socketAddress) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    call(socket, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
                }
            }
            return (socket, status == 0 ? 0 : errno)
        }
        var bound = attempt { bind($0, $1, $2) }
        if bound.code == EADDRINUSE {
            let peer = attempt { connect($0, $1, $2) }
            close(peer.socket)
            if peer.code == ECONNREFUSED {
                unlink(path)
                close(bound.socket)
                bound = attempt { bind($0, $1, $2) }
            }
        }
        guard bound.code == 0, Glibc.listen(bound.socket, 512) == 0 else {
            let code = bound.code == 0 ? errno : bound.code
            close(bound.socket)
            throw ServerError(self, code)
        }
        return bound.socket
    }

    private func bind4(_ socket: Int32) -> Int32 {
        var socketAddress = sockaddr_in()
        socketAddress.sin_family = sa_family_t(AF_INET)
        socketAddress.sin_port = port.bigEndian
        withUnsafeMutableBytes(of: &socketAddress.sin_addr) { $0.copyBytes(from: address) }
        return withUnsafePointer(to: &socketAddress) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(socket, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
    }

    private func bind6(_ socket: Int32) -> Int32 {
        var socketAddress = sockaddr_in6()
        socketAddress.sin6_family = sa_family_t(AF_INET6)
        socketAddress.sin6_port = port.bigEndian
        withUnsafeMutableBytes(of: &socketAddress.sin6_addr) { $0.copyBytes(from: address) }
        return withUnsafePointer(to: &socketAddress) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(socket, $0, socklen_t(MemoryLayout<sockaddr_in6>.size))
            }
        }
    }

    private static func port(of socket: Int32) -> UInt16 {
        var socketAddress = sockaddr_in6()
        var size = socklen_t(MemoryLayout<sockaddr_in6>.size)
        _ = withUnsafeMutablePointer(to: &socketAddress) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(socket, $0, &size) }
        }
        // `sin_port` has the same offset as `sin6_port`.
        return UInt16(bigEndian: socketAddress.sin6_port)
    }
}

/// Why a server cannot listen.
package struct ServerError: Error, CustomStringConvertible {
    package let description: String
    /// Whether it may be possible later: another program has the port, or the address is not there yet.
    package let mayPass: Bool

    init(_ address: ListenAddress, _ code: Int32) {
        mayPass = code == EADDRINUSE || code == EADDRNOTAVAIL
        description = "cannot listen on \(address): \(String(cString: strerror(code)))"
    }
}
