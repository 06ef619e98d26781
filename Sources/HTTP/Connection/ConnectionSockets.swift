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

    private var uses: [Int32: Use] = [:]
    /// The local ports that were looked up so far, by socket.
    private var ports: [Int32: UInt16] = [:]
    /// What the peers of closed sockets had not acknowledged.
    private var unacknowledged: [Int32: Int] = [:]

    func opened(_ socket: Int32) {
        uses[socket] = .used
        unacknowledged[socket] = nil
    }

    func close(_ socket: Int32) -> Int32 {
        (uses[socket], ports[socket]) = (nil, nil)
        let left = clinux_unacknowledged(socket)
        if left > 0 { unacknowledged[socket] = Int(left) }
        return Glibc.close(socket)
    }

    /// The bytes that were sent on a socket and not acknowledged by its peer, even if libcurl has just closed it.
    func unacknowledged(on socket: Int32) -> Int {
        uses[socket] == nil ? unacknowledged[socket] ?? 0 : Int(clinux_unacknowledged(socket))
    }

    /// Ends an idle connection that has received input, or its end, since the last response: the next request would
    /// take that input for its response. Returns whether the connection was ended.
    func endIfUnsolicited(from localPort: UInt16, to peer: IPAddress?, _ peerPort: UInt16) -> Bool {
        let found = uses.keys.first { socket in
            self.localPort(of: socket) == localPort && Self.isPeer(socket, peer, peerPort) && Self.hasInput(socket)
        }
        if let found { end(found) }
        return found != nil
    }

    /// The sockets of all open connections.
    var sockets: [Int32] { Array(uses.keys) }

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

    private func localPort(of socket: Int32) -> UInt16? {
        if let known = ports[socket] { return known }
        ports[socket] = Self.port(socket, getsockname)
        return ports[socket]
    }

    private func end(_ socket: Int32) {
        shutdown(socket, Int32(SHUT_RDWR))
        uses[socket] = .ended
    }

    /// Whether there is a connection that may have to be ended later.
    var needsMaintenance: Bool { uses.values.contains { if case .ended = $0 { false } else { true } } }

    /// Records which connections are idle: those that no transfer uses.
    ///
    /// - Parameters:
    ///   - sockets: The sockets that were opened for running transfers.
    ///   - ports: The local ports of the connections that running transfers use.
    func record(used sockets: Set<Int32>, ports: Set<UInt16>, at now: UInt64) {
        for (socket, use) in uses {
            if case .ended = use { continue }
            // A socket that is not connected, or not any more, has no port.
            let isUsed = sockets.contains(socket) || Self.port(socket, getsockname).map(ports.contains) ?? true
            if isUsed {
                uses[socket] = .used
            } else if case .used = use {
                uses[socket] = .idle(now)
            }
        }
    }

    /// Ends connections that have been idle for too long, and idle connections to the servers that `waiting` waits for.
    func endIdle(for waiting: Set<Int32>, at now: UInt64) {
        let peers = Set(waiting.compactMap { Self.peer($0) })
        for case (let socket, .idle(let since)) in uses {
            let isInTheWay = now >= since + Self.minIdleTime && Self.peer(socket).map(peers.contains) ?? false
            guard isInTheWay || now >= since + Self.idleLimit else { continue }
            end(socket)
        }
    }

    private typealias Lookup = (Int32, UnsafeMutablePointer<sockaddr>, UnsafeMutablePointer<socklen_t>) -> Int32

    private static func port(_ socket: Int32, _ lookup: Lookup) -> UInt16? {
        address(socket, lookup).map { UInt16($0[2]) << 8 | UInt16($0[3]) }.flatMap { $0 == 0 ? nil : $0 }
    }

    private static func isPeer(_ socket: Int32, _ address: IPAddress?, _ port: UInt16) -> Bool {
        Self.port(socket, getpeername) == port && address == Self.ipAddress(socket, getpeername)
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
