import Glibc
import HaulExecutors
import HaulTerminal

/// Receives what started programs report to a service manager (sd_notify(3)), to learn when they are ready.
final class ReadinessSocket: Sendable {
    /// The value of `NOTIFY_SOCKET` for the programs.
    let name: String
    private let descriptor: Int32

    /// - Parameters:
    ///   - path: Where the socket is made. Only programs of this user may reach it.
    ///   - isReady: Called for each program that is ready.
    /// - Throws: `ExitStatus`; the reason has been printed.
    init(_ path: String, isReady: @escaping @Sendable () -> Void) throws {
        name = path
        unlink(path)
        let socket = Glibc.socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        let address = ServiceManager.address(name) ?? []
        let status = address.withUnsafeBytes {
            bind(socket, $0.assumingMemoryBound(to: sockaddr.self).baseAddress, socklen_t(address.count))
        }
        guard socket >= 0, status == 0 else {
            throw ExitStatus.printing(
                .usage, "cannot make a socket for the worker: \(String(cString: strerror(errno)))")
        }
        descriptor = socket
        startThread(name: "readiness") {
            var buffer = [UInt8](repeating: 0, count: 4096)
            while true {
                let count = recv(socket, &buffer, buffer.count, 0)
                // shutdown(2) ends the last call.
                guard count > 0 else { break }
                if buffer[..<count].starts(with: "READY=1".utf8) { isReady() }
            }
            Glibc.close(socket)
        }
    }

    /// Ends the reports.
    func close() { shutdown(descriptor, Int32(SHUT_RDWR)) }
}
