import Glibc

/// An address of 127.0.0.0/8, with the port of a listener on 127.0.0.1. Together they are like a host with several
/// addresses, some of which do not respond.
package final class LoopbackAddress: Sendable {
    package enum Kind: Sendable {
        /// Refuses connections: no process listens.
        case refusing
        /// Never responds, because its listener's queue is full, and stays full.
        case silent
    }

    private let sockets: [Int32]

    /// - Parameter address: An address that no other test uses.
    package init(_ kind: Kind, at address: String, port: Int) throws {
        let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        var name = sockaddr_in()
        name.sin_family = sa_family_t(AF_INET)
        name.sin_port = UInt16(port).bigEndian
        inet_pton(AF_INET, address, &name.sin_addr)
        let status = withUnsafeBytes(of: &name) {
            bind(listener, $0.assumingMemoryBound(to: sockaddr.self).baseAddress!, socklen_t($0.count))
        }
        guard status == 0 else {
            close(listener)
            throw ChildProcess.Missing(description: "\(address):\(port) is in use")
        }
        guard case .silent = kind else {
            sockets = [listener]
            return
        }
        listen(listener, 0)
        var fillers: [Int32] = []
        var isFull = false
        while !isFull, fillers.count < 16 {
            let type = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue) | Int32(SOCK_NONBLOCK.rawValue)
            let filler = socket(AF_INET, type, 0)
            _ = withUnsafeBytes(of: &name) {
                connect(filler, $0.assumingMemoryBound(to: sockaddr.self).baseAddress!, socklen_t($0.count))
            }
            var ready = pollfd(fd: filler, events: Int16(POLLOUT), revents: 0)
            isFull = poll(&ready, 1, 200) == 0
            fillers.append(filler)
        }
        sockets = fillers + [listener]
    }

    deinit { for socket in sockets { close(socket) } }
}
