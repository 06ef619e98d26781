import Glibc

/// The sockets of all connections, from their opening to their close: libcurl keeps some for later requests, and does not
/// say which. On the loop's thread.
///
/// A server that serves one connection at a time serves nobody else while an idle one to it is kept, so these are ended
/// where another connection waits for the same server, and before long in any case: the other may be another process's.
final class ConnectionSockets {
    /// A warm connection is of use to a job that follows soon.
    static let idleLimit: UInt64 = 10_000_000_000
    /// A connection that has been used a moment ago may be about to be used again.
    static let idleLeast: UInt64 = 1_000_000_000

    private enum Use {
        case used
        /// Since then, in monotonic nanoseconds.
        case idle(UInt64)
        /// libcurl finds out when it would use it, and closes it.
        case ended
    }

    private var uses: [Int32: Use] = [:]
    /// The local ports of those that were asked about.
    private var ports: [Int32: UInt16] = [:]

    func opened(_ socket: Int32) { uses[socket] = .used }

    func close(_ socket: Int32) -> Int32 {
        (uses[socket], ports[socket]) = (nil, nil)
        return Glibc.close(socket)
    }

    /// Whether something has come in on a connection, or its end, while nothing was asked on it: the next request would be
    /// answered by that. It is ended then.
    func endIfStray(from localPort: UInt16, to peer: IPAddress?, _ peerPort: UInt16) -> Bool {
        let stray = uses.keys.first { socket in
            self.localPort(of: socket) == localPort && Self.isPeer(socket, peer, peerPort) && Self.hasInput(socket)
        }
        if let stray { end(stray) }
        return stray != nil
    }

    /// Of all connections.
    var sockets: [Int32] { Array(uses.keys) }

    /// Whether there are bytes to be read, or the end, or an error.
    static func hasInput(_ socket: Int32) -> Bool {
        var byte: UInt8 = 0
        return recv(socket, &byte, 1, Int32(MSG_PEEK) | Int32(MSG_DONTWAIT)) >= 0 || errno != EAGAIN
    }

    /// Whether all bytes were read, and no more can come.
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

    /// Some may have to be ended later.
    var isOfInterest: Bool { uses.values.contains { if case .ended = $0 { false } else { true } } }

    /// Notes which are idle: those that no transfer uses. `ports` are the local ports of transfers' connections.
    func note(used sockets: Set<Int32>, ports: Set<UInt16>, at now: UInt64) {
        for (socket, use) in uses {
            if case .ended = use { continue }
            // One that is not connected, or not any more, has no port.
            let isUsed = sockets.contains(socket) || Self.port(socket, getsockname).map(ports.contains) ?? true
            if isUsed {
                uses[socket] = .used
            } else if case .used = use {
                uses[socket] = .idle(now)
            }
        }
    }

    /// Ends what has been idle for too long, and what keeps the server from those of `waiting` that wait for an answer.
    func endIdle(for waiting: Set<Int32>, at now: UInt64) {
        let peers = Set(waiting.compactMap { Self.peer($0) })
        for case (let socket, .idle(let since)) in uses {
            let isInTheWay = now >= since + Self.idleLeast && Self.peer(socket).map(peers.contains) ?? false
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

    /// The address and port that it is connected to.
    private static func peer(_ socket: Int32) -> [UInt8]? { address(socket, getpeername) }

    /// The bytes of a socket's address; a port is at the same place in both families'.
    private static func address(_ socket: Int32, _ lookup: Lookup) -> [UInt8]? {
        var address = sockaddr_in6()
        var size = socklen_t(MemoryLayout<sockaddr_in6>.size)
        let status = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { lookup(socket, $0, &size) }
        }
        guard status == 0, size >= 8 else { return nil }
        // After IPv4's address there is padding.
        let count = address.sin6_family == sa_family_t(AF_INET) ? 8 : Int(size)
        return withUnsafeBytes(of: &address) { Array($0.prefix(count)) }
    }
}
