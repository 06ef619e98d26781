import CHaulLinux
import Glibc
import HaulExecutors
import Synchronization

/// Accepts connections on loopback, on a thread of its own, until it is stopped.
package final class LoopbackListener: Sendable {
    package let port: Int
    /// nil once it is closed. Only its thread closes it: were it closed while that is about to accept, it would accept what
    /// is for the next listener of the same number, another test's.
    private let descriptor: Mutex<Int32?>

    /// - Parameter port: 0 for a free one; another one may have been an earlier listener's.
    package init(_ family: LoopbackSocket.Family = .v4, port: Int = 0) throws {
        let listener = try LoopbackSocket.listen(family, port: port)
        descriptor = Mutex(listener.descriptor)
        self.port = listener.port
    }

    /// Hands over each connection, which is the handler's to close. To be called once.
    package func start(name: String, _ handle: @escaping @Sendable (Int32) -> Void) {
        guard let listener = descriptor.withLock(\.self) else { return }
        startThread(name: name) {
            while true {
                let client = clinux_accept(listener)
                if client >= 0 { handle(client) } else if errno != EINTR && errno != ECONNABORTED { break }
            }
            self.descriptor.withLock { $0 = nil }
            close(listener)
        }
    }

    package func stop() {
        descriptor.withLock { listener in
            if let listener { shutdown(listener, Int32(SHUT_RDWR)) }
        }
    }
}
