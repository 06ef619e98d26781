import CHaulLinux
import Glibc

/// The sockets of all connections, from their opening to their close. On the loop's thread. libcurl keeps some
/// connections for later requests, and does not say which.
///
/// While a server that serves one connection at a time has an idle one of ours, it serves no other client. So an idle
/// connection is ended if another connection waits for the same server. It is ended soon in any case, since the other
/// connection may belong to another process.
final class ConnectionSockets {
    /// A kept connection helps only a job that follows soon. Nanoseconds.
    static let idleLimit: UInt64 = 10_000_000_000
    /// A connection that was used just before may be used again at once. Nanoseconds.
    static let minIdleTime: UInt64 = 1_000_000_000

    private enum Use {
        case used
        /// Since this time, in monotonic nanoseconds.
        case idle(UInt64)
        /// We have shut it down. libcurl notices when it wants to use the connection, and closes it.
        case ended
    }

    /// The two ends of a connection.
    private struct Ends: Equatable {
        let localPort: UInt16
        let peer: IPAddress
        let peerPort: UInt16
    }

    private struct Connection {
        var use = Use.used
        /// Looked up once, because the ends of a connection never change. nil until the socket is connected.
        var ends: Ends?
        /// Its receive buffer is kept small for a transfer with a rate limit.
        var isHeld = false
    }

    private var connections: [Int32: Connection] = [:]
    /// What the peers of closed sockets had not acknowledged.
    private var unacknowledged: [Int32: Int] = [:]

    /// Called right before a socket is closed.
    var willClose: (Int32) -> Void = { _ in }

    func isOpen(_ socket: Int32) -> Bool { connections[socket] != nil }

    func opened(_ socket: Int32) {
        connections[socket] = Connection()
        unacknowledged[socket] = nil
    }

    func close(_ socket: Int32) -> Int32 {
        connections[socket] = nil
        let left = clinux_unacknowledged(socket)
        if left > 0 { unacknowledged[socket] = Int(left) }
        willClose(socket)
        return Glibc.close(socket)
    }

    /// The bytes that were sent on a socket and not acknowledged by its peer, even if libcurl has just closed it.
    func unacknowledged(on socket: Int32) -> Int {
        connections[socket] == nil ? unacknowledged[socket] ?? 0 : Int(clinux_unacknowledged(socket))
    }

    /// Ends an idle connection that has received input, or its end, since the last response: the next request would
    /// take that input for its response. Returns whether the connection was ended.
    func endIfUnsolicited(from localPort: UInt16, to peer: IPAddress?, _ peerPort: UInt16) -> Bool {
        guard let peer else { return false }
        let ends = Ends(localPort: localPort, peer: peer, peerPort: peerPort)
        let unknown = connections.compactMap { $1.ends == nil ? $0 : nil }
        for socket in unknown { connections[socket]?.ends = Self.ends(of: socket) }
        let found = connections.first { $1.ends == ends && Self.hasInput($0) }?.key
        if let found { end(found) }
        return found != nil
    }

    /// Keeps the receive buffer of a socket small, or lets it grow again.
    func hold(_ socket: Int32, _ isHeld: Bool) {
        guard let wasHeld = connections[socket]?.isHeld, wasHeld != isHeld else { return }
        connections[socket]?.isHeld = isHeld
        clinux_hold_receive_buffer(socket, isHeld)
    }

    /// The sockets of all open connections.
    var sockets: [Int32] { Array(connections.keys) }

    /// Whether the socket has bytes to read, has ended or has failed.
    static func hasInput(_ socket: Int32) -> Bool {
        var byte: UInt8 = 0
        return recv(socket, &byte, 1, Int32(MSG_PEEK) | Int32(MSG_DONTWAIT)) >= 0 || errno != EAGAIN
    }

    /// Whether all bytes were read and the peer has closed its side.
    static func hasEnded(_ socket: Int32) -> Bool {
        var byte: UInt8 = 0
        return recv(socket, &byte, 1, Int32(MSG_PEEK) | Int32(MSG_DONTWAIT)) == 0
    }

    private static func ends(of socket: Int32) -> Ends? {
        guard let localPort = port(socket, getsockname), let peerPort = port(socket, getpeername),
            let peer = ipAddress(socket, getpeername)
        else { return nil }
        return Ends(localPort: localPort, peer: peer, peerPort: peerPort)
    }

    private func end(_ socket: Int32) {
        shutdown(socket, Int32(SHUT_RDWR))
        connections[socket]?.use = .ended
    }

    /// Whether there is a connection that may have to be ended later.
    var needsMaintenance: Bool {
        connections.values.contains { if case .ended = $0.use { false } else { true } }
    }

    /// Records which connections are idle: those that no transfer uses.
    ///
    /// - Parameters:
    ///   - sockets: The sockets that were opened for running transfers.
    ///   - ports: The local ports of the connections that running transfers use.
    func record(used sockets: Set<Int32>, ports: Set<UInt16>, at now: UInt64) {
        for (socket, connection) in connections {
            if case .ended = connection.use { continue }
            // A socket that is not connected, or not any more, has no port.
            let isUsed = sockets.contains(socket) || Self.port(socket, getsockname).map(ports.contains) ?? true
            if isUsed {
                connections[socket]?.use = .used
            } else if case .used = connection.use {
                connections[socket]?.use = .idle(now)
            }
        }
    }

    /// Ends connections that have been idle for too long, and idle connections to the servers that `waiting` waits for.
    func endIdle(for waiting: Set<Int32>, at now: UInt64) {
        let peers = Set(waiting.compactMap { Self.peer($0) })
        for (socket, connection) in connections {
            guard case .idle(let since) = connection.use else { continue }
            let isInTheWay = now >= since + Self.minIdleTime && Self.peer(socket).map(peers.contains) ?? false
            guard isInTheWay || now >= since + Self.idleLimit else { continue }
            end(socket)
        }
    }

    private typealias Lookup = (Int32, UnsafeMutablePointer<sockaddr>, UnsafeMutablePointer<socklen_t>) -> Int32

    private static func port(_ socket: Int32, _ lookup: Lookup) -> UInt16? {
        address(socket, lookup).map { UInt16($0[2]) << 8 | UInt16($0[3]) }.flatMap { $0 == 0 ? nil : $0 }
    }

    private static func ipAddress(_ socket: Int32, _ lookup: Lookup) -> IPAddress? {
        var address = sockaddr_in6()
        var size = socklen_t(MemoryLayout<sockaddr_in6>.size)
        return withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                lookup(socket, $0, &size) == 0 ? IPAddress(UnsafePointer($0)) : nil
            }
        }
    }

    /// The address and port of the peer, as bytes.
    private static func peer(_ socket: Int32) -> [UInt8]? { address(socket, getpeername) }

    /// The bytes of a socket's address. The port has the same position in both address families.
    private static func address(_ socket: Int32, _ lookup: Lookup) -> [UInt8]? {
        var address = sockaddr_in6()
        var size = socklen_t(MemoryLayout<sockaddr_in6>.size)
        let status = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { lookup(socket, $0, &size) }
        }
        guard status == 0, size >= 8 else { return nil }
        // Padding follows an IPv4 address.
        let count = address.sin6_family == sa_family_t(AF_INET) ? 8 : Int(size)
        return withUnsafeBytes(of: &address) { Array($0.prefix(count)) }
    }
}
