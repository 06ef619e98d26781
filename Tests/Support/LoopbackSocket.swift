import Glibc

/// Sockets on loopback.
package enum LoopbackSocket {
    package enum Family: Sendable { case v4, v6 }

    /// Whether this machine has ::1. Not every container has it.
    package static let hasIPv6: Bool = {
        guard let socket = try? bind(.v6) else { return false }
        close(socket.descriptor)
        return true
    }()

    /// Binds a port of 127.0.0.1 or ::1 on which no process listens. 0: any free port.
    package static func bind(_ family: Family = .v4, port: Int = 0) throws -> (descriptor: Int32, port: Int) {
        try open(family, port: port) { descriptor, address, size in
            // The kernel may still keep connections of an earlier listener.
            var yes: Int32 = 1
            if port > 0 { setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, 4) }
            guard Glibc.bind(descriptor, address, size) == 0 else { return nil }
            var bound = sockaddr_in6()
            var length = socklen_t(MemoryLayout<sockaddr_in6>.size)
            return withUnsafeMutablePointer(to: &bound) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { _ = getsockname(descriptor, $0, &length) }
                // The port is at the same offset in the addresses of both families.
                return Int(UInt16(bigEndian: $0.pointee.sin6_port))
            }
        }
    }

    /// A TCP listener on a port as for `bind`.
    package static func listen(_ family: Family = .v4, port: Int = 0) throws -> (descriptor: Int32, port: Int) {
        let bound = try bind(family, port: port)
        Glibc.listen(bound.descriptor, 512)
        return bound
    }

    /// Connects to a port of 127.0.0.1 or ::1 over TCP.
    package static func connect(_ family: Family, port: Int) throws -> Int32 {
        try open(family, port: port) { descriptor, address, size in
            Glibc.connect(descriptor, address, size) == 0 ? 0 : nil
        }.descriptor
    }

    /// Returns when the peer's kernel has acknowledged all sent bytes, or when the connection has ended.
    package static func waitUntilReceived(_ descriptor: Int32) {
        var unconfirmed: Int32 = 1
        var end = pollfd(fd: descriptor, events: 0, revents: 0)
        while ioctl(descriptor, UInt(TIOCOUTQ), &unconfirmed) == 0, unconfirmed > 0, poll(&end, 1, 0) == 0 {
            usleep(1000)
        }
    }

    private static func open(
        _ family: Family, port: Int = 0, _ use: (Int32, UnsafePointer<sockaddr>, socklen_t) -> Int?
    ) throws -> (descriptor: Int32, port: Int) {
        let domain = family == .v4 ? AF_INET : AF_INET6
        let descriptor = socket(domain, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        var four = sockaddr_in()
        four.sin_family = sa_family_t(AF_INET)
        four.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        four.sin_port = UInt16(port).bigEndian
        var six = sockaddr_in6()
        six.sin6_family = sa_family_t(AF_INET6)
        six.sin6_addr = in6addr_loopback
        six.sin6_port = UInt16(port).bigEndian
        let result =
            family == .v4
            ? withUnsafeBytes(of: &four) { use(descriptor, $0.assumingMemoryBound(to: sockaddr.self).baseAddress!, 16) }
            : withUnsafeBytes(of: &six) { use(descriptor, $0.assumingMemoryBound(to: sockaddr.self).baseAddress!, 28) }
        guard let result else {
            let reason = String(cString: strerror(errno))
            close(descriptor)
            throw ChildProcess.Missing(description: "no socket on loopback (\(family)): \(reason)")
        }
        return (descriptor, result)
    }
}
