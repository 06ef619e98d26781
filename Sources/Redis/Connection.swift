import CHiredis
import Executors
import Glibc

/// One connection: a non-blocking socket on the loop of all Redis connections, hiredis' reader, and the callers who
/// wait for replies, in order. After any error it is closed for good; `Redis` builds a new one.
actor Connection {
    /// All Redis connections of a process share one thread.
    static let loop = EventLoop(name: "redis")

    private struct Waiter {
        let count: Int
        var replies: [RedisValue] = []
        let continuation: CheckedContinuation<Result<[RedisValue], RedisError>, Never>
        let watchdog: EventLoop.Timer
    }

    nonisolated var unownedExecutor: UnownedSerialExecutor { Self.loop.asUnownedSerialExecutor() }

    private let descriptor: Int32
    private let reader: UnsafeMutablePointer<redisReader>
    private let label: String
    private var outbox: [UInt8] = []
    private var written = 0
    private var waiters: [Waiter] = []
    private var failure: RedisError?
    private var opening: CheckedContinuation<Void, Never>?
    private var inbox = [UInt8](repeating: 0, count: 64 << 10)
    /// Takes what no call waits for: a subscription's messages.
    private var listener: (@Sendable (Result<RedisValue, RedisError>) -> Void)?
    /// The server's number for this connection.
    private(set) var id: Int?

    /// Connects, signs in and names the connection. Throws `.unreachable`, `.authentication`, `.timedOut`, …
    static func open(_ url: RedisURL, name: String, timeout: Duration) async throws(RedisError) -> Connection {
        var last = RedisError(.unreachable, "no address")
        for address in try await Socket.addresses(of: url.address) {
            do {
                let connection = Connection(descriptor: try Socket.connect(to: address), label: url.redacted)
                try await connection.handshake(url, name: name, timeout: timeout)
                return connection
            } catch {
                last = error
            }
        }
        if last.code == .unreachable {
            last.message = "cannot reach Redis at \(url.redacted): \(last.message). Is redis-server running there?"
        }
        throw last
    }

    private init(descriptor: Int32, label: String) {
        self.descriptor = descriptor
        self.label = label
        reader = redisReaderCreate()
    }

    isolated deinit {
        close()
        redisReaderFree(reader)
    }

    var isOpen: Bool { failure == nil }

    /// Sends `bytes`, which hold `count` commands, and returns their replies in order. At most once: if the connection
    /// fails after that, it throws `.closed` or `.timedOut`, and the commands may or may not have been done.
    func call(_ bytes: [UInt8], count: Int, timeout: Duration) async throws(RedisError) -> [RedisValue] {
        if let failure { throw failure }
        let result: Result<[RedisValue], RedisError> = await withCheckedContinuation { continuation in
            let watchdog = Self.loop.schedule(at: .now + timeout) { [weak self] in
                self?.assumeIsolated {
                    $0.fail(RedisError(.timedOut, "Redis at \($0.label) did not answer within \(timeout)"))
                }
            }
            waiters.append(Waiter(count: count, continuation: continuation, watchdog: watchdog))
            enqueue(bytes)
        }
        return try result.get()
    }

    /// Sends a command whose replies go to the listener.
    func tell(_ command: Command) {
        guard failure == nil else { return }
        var bytes: [UInt8] = []
        command.encode(into: &bytes)
        enqueue(bytes)
    }

    /// From now on everything that no call waits for goes to `listener`, and at last the error that ended it all.
    func listen(_ listener: @escaping @Sendable (Result<RedisValue, RedisError>) -> Void) {
        if let failure { return listener(.failure(failure)) }
        self.listener = listener
    }

    /// Ends the connection; whoever still waits gets `.closed`.
    func close() { fail(RedisError(.closed, "the connection to Redis was closed")) }

    // MARK: Opening

    private func handshake(_ url: RedisURL, name: String, timeout: Duration) async throws(RedisError) {
        try await waitUntilConnected(timeout: timeout)
        var commands: [Command] = []
        if let password = url.password {
            commands.append(Command(arguments: ["AUTH"] + (url.user.map { [$0] } ?? []) + [password]))
        }
        if url.database != 0 { commands.append(Command("SELECT", url.database)) }
        commands.append(Command("CLIENT", "SETNAME", name))
        commands.append(Command("CLIENT", "ID"))
        var bytes: [UInt8] = []
        for command in commands { command.encode(into: &bytes) }
        let replies = try await call(bytes, count: commands.count, timeout: timeout)
        for (index, reply) in replies.enumerated() {
            guard case .error(let error) = reply else { continue }
            // An ACL may forbid CLIENT: names are a comfort, signing in is not.
            if index >= replies.count - 2, error.code == .noPermission { continue }
            fail(error)
            throw error
        }
        id = replies.last?.int
    }

    private func waitUntilConnected(timeout: Duration) async throws(RedisError) {
        let watchdog = Self.loop.schedule(at: .now + timeout) { [weak self] in
            self?.assumeIsolated { $0.fail(RedisError(.unreachable, "no answer within \(timeout)")) }
        }
        await withCheckedContinuation { continuation in
            opening = continuation
            Self.loop.watch(descriptor, for: .writable) { [weak self] readiness in
                self?.assumeIsolated { $0.handle(readiness) }
            }
        }
        Self.loop.cancel(watchdog)
        if let failure { throw failure }
    }

    // MARK: The socket

    private func handle(_ readiness: EventLoop.Readiness) {
        if let continuation = opening {
            opening = nil
            if let reason = Socket.pendingError(of: descriptor) {
                fail(RedisError(.unreachable, reason))
            } else {
                Self.loop.change(descriptor, to: .readable)
            }
            return continuation.resume()
        }
        if readiness.contains(.writable) { flush() }
        if !readiness.isDisjoint(with: [.readable, .failed]), failure == nil { receive() }
    }

    private func enqueue(_ bytes: [UInt8]) {
        let wasEmpty = outbox.isEmpty
        outbox.append(contentsOf: bytes)
        // What others add before the socket takes it goes out in the same write.
        if wasEmpty { flush() }
    }

    private func flush() {
        while written < outbox.count {
            let count = outbox.withUnsafeBytes {
                send(descriptor, $0.baseAddress! + written, $0.count - written, Int32(MSG_NOSIGNAL))
            }
            if count > 0 {
                written += count
            } else if errno == EAGAIN {
                return Self.loop.change(descriptor, to: [.readable, .writable])
            } else if errno != EINTR {
                return fail(RedisError(.closed, "the connection to Redis at \(label) broke: \(Socket.message(errno))"))
            }
        }
        outbox.removeAll(keepingCapacity: outbox.capacity < 1 << 20)
        written = 0
        Self.loop.change(descriptor, to: .readable)
    }

    private func receive() {
        let count = recv(descriptor, &inbox, inbox.count, 0)
        if count < 0, errno == EAGAIN || errno == EINTR { return }
        guard count > 0 else {
            let reason = count == 0 ? "Redis closed it" : Socket.message(errno)
            return fail(RedisError(.closed, "the connection to Redis at \(label) ended: \(reason)"))
        }
        let fed = inbox.withUnsafeBytes {
            redisReaderFeed(reader, $0.baseAddress?.assumingMemoryBound(to: CChar.self), count)
        }
        guard fed == REDIS_OK else { return fail(RedisError(.closed, "out of memory for a reply of Redis")) }
        while failure == nil {
            var reply: UnsafeMutableRawPointer?
            guard redisReaderGetReply(reader, &reply) == REDIS_OK else {
                return fail(RedisError(.closed, "what answers at \(label) does not speak Redis' protocol"))
            }
            guard let reply else { return }
            let value = RedisValue(reply.assumingMemoryBound(to: redisReply.self).pointee)
            freeReplyObject(reply)
            deliver(value)
        }
    }

    private func deliver(_ value: RedisValue) {
        guard !waiters.isEmpty else {
            listener?(.success(value))
            return
        }
        waiters[0].replies.append(value)
        guard waiters[0].replies.count == waiters[0].count else { return }
        let waiter = waiters.removeFirst()
        Self.loop.cancel(waiter.watchdog)
        waiter.continuation.resume(returning: .success(waiter.replies))
    }

    private func fail(_ error: RedisError) {
        guard failure == nil else { return }
        failure = error
        Self.loop.unwatch(descriptor)
        Glibc.close(descriptor)
        opening?.resume()
        opening = nil
        for waiter in waiters {
            Self.loop.cancel(waiter.watchdog)
            waiter.continuation.resume(returning: .failure(error))
        }
        waiters = []
        listener?(.failure(error))
        listener = nil
    }
}
