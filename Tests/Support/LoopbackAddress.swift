import Glibc

/// A port of any address of 127.0.0.0/8, beside a listener of the same port on 127.0.0.1: how a host with several addresses
/// looks when some of them do not answer.
package final class LoopbackAddress: Sendable {
    package enum Kind: Sendable {
        /// Refuses connections: nobody listens.
        case refusing
        /// Answers nothing: its listener's queue is full, and stays so.
        case silent
    }

    private let sockets: [Int32]

    /// `address` is one that nobody else uses.
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
            throw ChildProcess.Missing(description: "\(address):\(port) is taken")
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
