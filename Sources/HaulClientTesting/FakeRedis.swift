import Glibc
import HaulExecutors
import Synchronization

/// A server in this process that speaks the part of Redis' protocol that HaulClient uses, on a Unix socket. So a service
/// under test runs the real client, with its real connections.
///
/// Each connection has a thread, because BLMOVE blocks.
final class FakeRedis: Sendable {
    enum Reply {
        case status(String), integer(Int), null, error(String)
        case bulk([UInt8])
        indirect case array([Reply])

        static func text(_ text: String) -> Reply { .bulk(Array(text.utf8)) }
        static func texts(_ texts: [String]) -> Reply { .array(texts.map(Reply.text)) }

        func encode(into bytes: inout [UInt8]) {
            func line(_ kind: String, _ text: some CustomStringConvertible) {
                bytes += Array("\(kind)\(text)\r\n".utf8)
            }
            switch self {
            case .status(let text): line("+", text)
            case .error(let text): line("-", text)
            case .integer(let number): line(":", number)
            case .null: line("$", -1)
            case .bulk(let content):
                line("$", content.count)
                bytes += content + [13, 10]
            case .array(let elements):
                line("*", elements.count)
                for element in elements { element.encode(into: &bytes) }
            }
        }
    }

    /// One client.
    final class Client: Sendable {
        private let descriptor: Int32
        private let topics = Mutex<(channels: Set<String>, patterns: Set<String>)>(([], []))
        /// Held while bytes are written: messages of channels come from other threads.
        private let writing = Mutex(())

        init(_ descriptor: Int32) { self.descriptor = descriptor }

        func send(_ reply: Reply) {
            var bytes: [UInt8] = []
            reply.encode(into: &bytes)
            writing.withLock { _ in
                var sent = 0
                while sent < bytes.count {
                    let count = bytes[sent...].withUnsafeBytes {
                        Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
                    }
                    guard count > 0 else { return }
                    sent += count
                }
            }
        }

        func publish(_ text: [UInt8], on channel: String) {
            let (isSubscribed, patterns) = topics.withLock { topics in
                let prefixes = topics.patterns.filter { $0.last == "*" && channel.hasPrefix($0.dropLast()) }
                return (topics.channels.contains(channel), prefixes)
            }
            if isSubscribed { send(.array([.text("message"), .text(channel), .bulk(text)])) }
            for pattern in patterns {
                send(.array([.text("pmessage"), .text(pattern), .text(channel), .bulk(text)]))
            }
        }

        func subscribe(_ verb: String, to names: [String]) {
            for name in names {
                topics.withLock { topics in
                    switch verb {
                    case "subscribe": topics.channels.insert(name)
                    case "psubscribe": topics.patterns.insert(name)
                    case "unsubscribe": topics.channels.remove(name)
                    default: topics.patterns.remove(name)
                    }
                }
                send(.array([.text(verb), .text(name), .integer(1)]))
            }
        }

        /// Whether the client has closed its connection.
        var isGone: Bool {
            var byte: UInt8 = 0
            return recv(descriptor, &byte, 1, Int32(MSG_PEEK | MSG_DONTWAIT)) == 0
        }

        /// Ends the connection. Its thread closes the descriptor.
        func disconnect() { shutdown(descriptor, Int32(SHUT_RDWR)) }

        fileprivate func close() { Glibc.close(descriptor) }

        fileprivate func receive() -> [UInt8]? {
            var buffer = [UInt8](repeating: 0, count: 64 << 10)
            let count = recv(descriptor, &buffer, buffer.count, 0)
            return count > 0 ? Array(buffer[..<count]) : nil
        }
    }

    private struct State {
        var clients: [ObjectIdentifier: Client] = [:]
        var listener: Int32?
    }

    private let state = Mutex(State())
    private let directory: String
    private let path: String
    private let respond: @Sendable ([[UInt8]], Client) -> Reply?

    /// - Parameter respond: The reply to a command. nil if the command has sent its own.
    init(respond: @escaping @Sendable ([[UInt8]], Client) -> Reply?) {
        var template = Array("/tmp/haul-fake-XXXXXX".utf8CString)
        precondition(mkdtemp(&template) != nil, "no directory can be made in /tmp")
        directory = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
        path = directory + "/redis"
        self.respond = respond
        start()
    }

    deinit {
        stop()
        rmdir(directory)
    }

    var url: String { "unix://\(path)" }

    /// Listens, unless it does so already.
    func start() {
        let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
        let isBound = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size)) == 0
            }
        }
        guard isBound, listen(descriptor, 16) == 0 else {
            close(descriptor)
            return
        }
        state.withLock { $0.listener = descriptor }
        startThread(name: "fake-redis") { [weak self] in
            while true {
                let accepted = accept(descriptor, nil, nil)
                guard accepted >= 0, let self else { break }
                self.serve(Client(accepted))
            }
            close(descriptor)
        }
    }

    /// Ends all connections, and accepts no more.
    func stop() {
        let (clients, listener) = state.withLock { state in
            defer { state = State() }
            return (state.clients, state.listener)
        }
        unlink(path)
        if let listener { shutdown(listener, Int32(SHUT_RDWR)) }
        for client in clients.values { client.disconnect() }
    }

    func publish(_ text: [UInt8], on channel: String) {
        for client in state.withLock({ Array($0.clients.values) }) { client.publish(text, on: channel) }
    }

    private func serve(_ client: Client) {
        let isListening = state.withLock { state in
            state.clients[ObjectIdentifier(client)] = client
            return state.listener != nil
        }
        if !isListening { client.disconnect() }
        startThread(name: "fake-client") { [weak self, respond] in
            var parser = Parser()
            while let bytes = client.receive() {
                parser.bytes += bytes
                while let command = parser.next() {
                    if let reply = respond(command, client) { client.send(reply) }
                }
            }
            self?.state.withLock { _ = $0.clients.removeValue(forKey: ObjectIdentifier(client)) }
            client.close()
        }
    }

    /// Reads commands: arrays of length-prefixed strings.
    private struct Parser {
        var bytes: [UInt8] = []

        mutating func next() -> [[UInt8]]? {
            var position = 0
            guard let count = number(at: &position) else { return nil }
            var arguments: [[UInt8]] = []
            for _ in 0..<count {
                guard let length = number(at: &position), position + length + 2 <= bytes.count else { return nil }
                arguments.append(Array(bytes[position..<position + length]))
                position += length + 2
            }
            bytes.removeFirst(position)
            return arguments
        }

        /// The number of the line at `position`, which moves behind the line.
        private func number(at position: inout Int) -> Int? {
            guard let end = bytes[position...].firstIndex(of: 13), end + 2 <= bytes.count else { return nil }
            let number = Int(String(decoding: bytes[(position + 1)..<end], as: UTF8.self))
            position = end + 2
            return number
        }
    }
}
