import Glibc

/// Connections of this process for which this process sees the end, while the server believes that they are alive. This
/// is the situation after a middlebox has dropped its state.
package final class LostConnections {
    private let kept: [Int32]

    /// The sockets of this process that are connected to a unix socket.
    package static func sockets(to path: String) -> Set<Int32> {
        Set(
            (0..<4096).filter { descriptor in
                var address = sockaddr_un()
                var size = socklen_t(MemoryLayout<sockaddr_un>.size)
                let status = withUnsafeMutablePointer(to: &address) {
                    $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { getpeername(descriptor, $0, &size) }
                }
                guard status == 0, address.sun_family == sa_family_t(AF_UNIX) else { return false }
                return withUnsafeBytes(of: &address.sun_path) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
                    == path
            })
    }

    /// Ends the connections of this process to a unix socket, except `others`. The owner of each connection reads the
    /// end of the stream. The server notices nothing while this object lives, even if the owner closes the connection.
    package init(to path: String, except others: Set<Int32> = []) {
        // The numbers may already belong to another test's sockets. The numbers of the copies cannot.
        let copies = Self.sockets(to: path).subtracting(others).map { dup($0) }
        let own = Self.sockets(to: path)
        for copy in copies where !own.contains(copy) { close(copy) }
        kept = copies.filter(own.contains)
        for socket in kept { shutdown(socket, Int32(SHUT_RD)) }
    }

    deinit { for socket in kept { close(socket) } }
}
