import Glibc
import HaulExecutors
import Synchronization

/// A server on a loopback port that runs a script for each connection, on a thread of its own. It does not speak HTTP:
/// the scripts send bytes.
package final class RawServer: Sendable {
    private let listener: LoopbackListener
    private let accepted = Mutex<[Int32]>([])

    /// With certificates the connections use TLS, and select HTTP/2 if the client offers it.
    package init(certificates: Certificates? = nil, _ script: @escaping @Sendable (RawConnection) -> Void) {
        let tls = certificates.map { ServerTLS($0, agreesHTTP2: true) }
        guard let listener = try? LoopbackListener() else { fatalError("no socket on loopback") }
        self.listener = listener
        listener.start(name: "raw-server") { [self] descriptor in
            let number = accepted.withLock { accepted in
                accepted.append(descriptor)
                return accepted.count
            }
            startThread(name: "raw-connection") {
                let serve: (Int32) -> Void = { descriptor in
                    let connection = RawConnection(descriptor: descriptor, number: number)
                    script(connection)
                    connection.close()
                }
                guard let tls else { return serve(descriptor) }
                TLSFront.open(descriptor, tls) { serve(dup($0)) }
                close(descriptor)
            }
        }
    }

    /// Ends the accepting thread. Running scripts end with their connections.
    package func stop() { listener.stop() }

    package var port: Int { listener.port }

    package var url: String { "http://127.0.0.1:\(port)/file" }

    /// The number of accepted connections.
    package var connections: Int { accepted.withLock(\.count) }
}

/// A connection of a `RawServer`, for its script.
package final class RawConnection: Sendable {
    private let descriptor: Atomic<Int32>

    /// The number of the connection, counted from 1.
    package let number: Int

    package init(descriptor: Int32, number: Int = 1) {
        self.descriptor = Atomic(descriptor)
        self.number = number
    }

    private var socket: Int32 { descriptor.load(ordering: .relaxed) }

    /// Reads the head of the next request. nil if the client has closed the connection.
    package func readRequest() -> String? {
        var bytes: [UInt8] = []
        var byte: UInt8 = 0
        while !bytes.suffix(4).elementsEqual("\r\n\r\n".utf8) {
            guard read(socket, &byte, 1) == 1 else { return nil }
            bytes.append(byte)
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// Reads exactly `count` bytes. nil if the client closes the connection before.
    package func readBody(_ count: Int) -> [UInt8]? {
        var bytes = [UInt8](repeating: 0, count: count)
        guard count > 0 else { return [] }
        return recv(socket, &bytes, count, Int32(MSG_WAITALL)) == count ? bytes : nil
    }

    /// Returns up to `count` received bytes without consuming them. Waits for the first one.
    package func peek(_ count: Int) -> [UInt8] {
        var buffer = [UInt8](repeating: 0, count: count)
        let found = recv(socket, &buffer, count, Int32(MSG_PEEK))
        return Array(buffer.prefix(max(0, found)))
    }

    /// Forwards bytes to a port of 127.0.0.1 and back, until either side closes.
    package func pass(to port: Int) {
        guard let other = try? LoopbackSocket.connect(.v4, port: port) else { return }
        defer { Glibc.close(other) }
        var buffer = [UInt8](repeating: 0, count: 64 << 10)
        while true {
            var events = [socket, other].map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
            poll(&events, 2, -1)
            for (index, to) in [other, socket].enumerated() where events[index].revents != 0 {
                let count = recv(events[index].fd, &buffer, buffer.count, 0)
                guard count > 0 else { return }
                var sent = 0
                while sent < count {
                    let step = buffer.withUnsafeBytes {
                        Glibc.send(to, $0.baseAddress! + sent, count - sent, Int32(MSG_NOSIGNAL))
                    }
                    guard step > 0 else { return }
                    sent += step
                }
            }
        }
    }

    /// Sends all bytes. Returns false if the client has closed the connection.
    @discardableResult
    package func send(_ bytes: some Collection<UInt8>) -> Bool {
        let bytes = Array(bytes)
        var sent = 0
        while sent < bytes.count {
            let count = bytes.withUnsafeBytes {
                Glibc.send(socket, $0.baseAddress! + sent, $0.count - sent, Int32(MSG_NOSIGNAL))
            }
            guard count > 0 else { return false }
            sent += count
        }
        return true
    }

    @discardableResult
    package func send(_ text: String) -> Bool { send(Array(text.utf8)) }

    /// Returns when the client's kernel has acknowledged all sent bytes.
    package func waitUntilReceived() { LoopbackSocket.waitUntilReceived(socket) }

    /// Reads until the client closes the connection.
    package func waitForClose() {
        var buffer = [UInt8](repeating: 0, count: 4096)
        while read(socket, &buffer, buffer.count) > 0 {}
    }

    /// Limits the kernel's buffer of received bytes that were not read yet.
    package func limitReceiving(to bytes: Int32) {
        var bytes = bytes
        setsockopt(socket, SOL_SOCKET, SO_RCVBUF, &bytes, socklen_t(MemoryLayout<Int32>.size))
    }

    /// Ends the sending direction. The client sees the end of the stream, and may still send.
    package func endSending() { shutdown(socket, Int32(SHUT_WR)) }

    package func close() {
        let descriptor = descriptor.exchange(-1, ordering: .relaxed)
        if descriptor >= 0 { Glibc.close(descriptor) }
    }

    /// Closes with a RST instead of a FIN. A RST overtakes bytes in flight, so this waits until they have arrived.
    package func reset() {
        waitUntilReceived()
        var linger = linger(l_onoff: 1, l_linger: 0)
        setsockopt(socket, SOL_SOCKET, SO_LINGER, &linger, socklen_t(MemoryLayout<Glibc.linger>.size))
        close()
    }
}
