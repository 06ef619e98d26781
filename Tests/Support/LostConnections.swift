import Glibc

/// Connections of this process that it believes to have ended, while the server believes that they live: as after a
/// middlebox has forgotten them.
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

    /// Ends the connections of this process to a unix socket, but for `others`. Their owner reads the end of each; the
    /// server is told nothing as long as this object lives, even when the owner closes them.
    package init(to path: String, except others: Set<Int32> = []) {
        // Their numbers may be another test's by now; those of the copies are ours.
        let copies = Self.sockets(to: path).subtracting(others).map { dup($0) }
        let own = Self.sockets(to: path)
        for copy in copies where !own.contains(copy) { close(copy) }
        kept = copies.filter(own.contains)
        for socket in kept { shutdown(socket, Int32(SHUT_RD)) }
    }

    deinit { for socket in kept { close(socket) } }
}
