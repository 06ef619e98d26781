import CHaulLinux
import Glibc
import HaulExecutors
import Synchronization

/// Accepts connections on loopback, on a thread of its own, until `stop`.
package final class LoopbackListener: Sendable {
    package let port: Int
    /// nil once the listener is closed. Only its thread closes it. Another thread might close it right before the
    /// accept. The accept would then use the descriptor's number, which may already be another test's listener.
    private let descriptor: Mutex<Int32?>

    /// - Parameter port: 0 for a free port. Any other port may have belonged to an earlier listener.
    package init(_ family: LoopbackSocket.Family = .v4, port: Int = 0) throws {
        let listener = try LoopbackSocket.listen(family, port: port)
        descriptor = Mutex(listener.descriptor)
        self.port = listener.port
    }

    /// Passes each connection to `handle`, which must close it. Must be called once.
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
