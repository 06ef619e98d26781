import Glibc
import HaulExecutors

/// Terminates TLS for servers that speak plain TCP.
enum TLSFront {
    /// Calls `serve` with the plain end of a connection, if the TLS handshake succeeds. Returns when both directions
    /// have ended.
    static func open(_ client: Int32, _ tls: ServerTLS, _ serve: (Int32) -> Void) {
        var ends: [Int32] = [0, 0]
        guard let connection = OriginConnection(client, tls),
            socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0, &ends) == 0
        else { return }
        let (plain, inner, done) = (ends[0], ends[1], Latch())
        nonisolated(unsafe) let session = connection
        startThread(name: "tls-front") {
            pass(session, client, inner)
            shutdown(client, Int32(SHUT_RDWR))
            shutdown(inner, Int32(SHUT_RDWR))
            done.open()
        }
        serve(plain)
        shutdown(plain, Int32(SHUT_RDWR))
        done.wait()
        for end in ends { close(end) }
    }

    /// Forwards bytes in both directions until either side ends. One thread does both, since a TLS session is not
    /// thread-safe.
    private static func pass(_ session: OriginConnection, _ client: Int32, _ inner: Int32) {
        var buffer = [UInt8](repeating: 0, count: 64 << 10)
        while true {
            var events = [client, inner].map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
            if !session.hasPending { poll(&events, 2, -1) }
            if session.hasPending || events[0].revents != 0 {
                var byte: UInt8 = 0
                guard session.receive(&byte), send(inner, &byte, 1, Int32(MSG_NOSIGNAL)) == 1 else { return }
            }
            if events[1].revents != 0 {
                let count = recv(inner, &buffer, buffer.count, 0)
                guard count > 0 else { return session.finish() }
                guard session.send(Array(buffer[..<count])) else { return }
            }
        }
    }
}
