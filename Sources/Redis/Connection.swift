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
    private let tls: TLS?
    private var isShakingHands = false
    private var isRetired = false
    private var inbox = [UInt8](repeating: 0, count: 64 << 10)
    /// Takes what no call waits for: a subscription's messages.
    private var listener: (@Sendable (Result<RedisValue, RedisError>) -> Void)?
    /// The server's number for this connection.
    private(set) var id: Int?

    /// Connects to `server`, signs in and names the connection. Throws `.unreachable`, `.authentication`, `.timedOut`, …
    static func open(
        _ server: RedisURL.Address, _ login: Login, timeout: Duration
    ) async throws(RedisError) -> Connection {
        var last = RedisError(.unreachable, "no address")
        for address in try await Socket.addresses(of: server) {
            do {
                let tls = try login.tls(for: server)
                let connection = Connection(descriptor: try Socket.connect(to: address), tls, label: "\(server)")
                try await connection.handshake(login, timeout: timeout)
                return connection
            } catch {
                last = error
            }
        }
        if last.code == .unreachable {
            last.message = "cannot reach Redis at \(server): \(last.message). Is redis-server running there?"
        }
        throw last
    }

    private init(descriptor: Int32, _ tls: sending TLS?, label: String) {
        self.descriptor = descriptor
        self.tls = tls
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

    /// Ends the connection when nobody waits for a reply any more.
    func retire() {
        isRetired = true
        if waiters.isEmpty { close() }
    }

    /// Ends the connection; whoever still waits gets `.closed`.
    func close() { fail(RedisError(.closed, "the connection to Redis was closed")) }

    // MARK: Opening

    private func handshake(_ login: Login, timeout: Duration) async throws(RedisError) {
        try await waitUntilConnected(timeout: timeout)
        var commands: [Command] = []
        if let password = login.password {
            commands.append(Command(arguments: ["AUTH"] + (login.user.map { [$0] } ?? []) + [password]))
        }
        if login.database != 0 { commands.append(Command("SELECT", login.database)) }
        if login.mustBePrimary { commands.append(Command("ROLE")) }
        commands.append(Command("CLIENT", "SETNAME", login.name))
        commands.append(Command("CLIENT", "ID"))
        var bytes: [UInt8] = []
        for command in commands { command.encode(into: &bytes) }
        let replies = try await call(bytes, count: commands.count, timeout: timeout)
        if login.mustBePrimary, let role = replies[replies.count - 3].array?.first?.string, role != "master" {
            // Sentinels name it before it knows.
            let error = RedisError(.readOnly, "Redis at \(label) is not the primary yet")
            fail(error)
            throw error
        }
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
        if let continuation = opening, tls == nil || !isShakingHands {
            opening = nil
            if let reason = Socket.pendingError(of: descriptor) {
                fail(RedisError(.unreachable, reason))
            } else if let tls {
                opening = continuation
                return shakeHands(tls)
            } else {
                Self.loop.change(descriptor, to: .readable)
            }
            return continuation.resume()
        }
        if readiness.contains(.writable) { flush() }
        if !readiness.isDisjoint(with: [.readable, .failed]), failure == nil { receive() }
    }

    /// Begins TLS, or goes on with it. Whoever opens the connection is told when it is established.
    private func shakeHands(_ tls: TLS) {
        isShakingHands = true
        do {
            try tls.handshake()
            send(tls.output())
        } catch {
            send(tls.output())
            return fail(error)
        }
        if tls.isEstablished { opening.take()?.resume() }
    }

    private func enqueue(_ bytes: [UInt8]) {
        guard let tls else { return send(bytes) }
        do { try tls.send(bytes) } catch { return fail(error) }
        send(tls.output())
    }

    private func send(_ bytes: [UInt8]) {
        let wasEmpty = outbox.isEmpty
        outbox.append(contentsOf: bytes)
        // What others add before the socket takes it goes out in the same write.
        if wasEmpty { flush() }
    }

    private func flush() {
        while written < outbox.count {
            let count = outbox.withUnsafeBytes {
                Glibc.send(descriptor, $0.baseAddress! + written, $0.count - written, Int32(MSG_NOSIGNAL))
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
        guard let tls else { return inbox.withUnsafeBytes { read(UnsafeRawBufferPointer(rebasing: $0[..<count])) } }
        inbox.withUnsafeBytes { tls.receive(UnsafeRawBufferPointer(rebasing: $0[..<count])) }
        if !tls.isEstablished { shakeHands(tls) }
        guard failure == nil, tls.isEstablished else { return }
        do {
            let plain = try tls.input()
            send(tls.output())
            plain.withUnsafeBytes { read($0) }
        } catch {
            fail(error)
        }
    }

    private func read(_ bytes: UnsafeRawBufferPointer) {
        guard !bytes.isEmpty else { return }
        let fed = redisReaderFeed(reader, bytes.baseAddress?.assumingMemoryBound(to: CChar.self), bytes.count)
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
        if isRetired, waiters.isEmpty { close() }
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
