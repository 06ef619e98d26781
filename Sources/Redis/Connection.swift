import Glibc
import HaulExecutors

/// One connection: a non-blocking socket on the loop of all Redis connections, hiredis' reader, and the callers who
/// wait for replies, in order. After any error it is closed for good; `Redis` builds a new one.
///
/// What is said during one turn of the loop goes out in one write at its end.
/// More than eight stored properties: `phase` says where it is; the others are its socket, its buffers and those who wait.
actor Connection {
    /// All Redis connections of a process share one thread.
    static let loop = EventLoop(name: "redis")

    nonisolated var unownedExecutor: UnownedSerialExecutor { Self.loop.asUnownedSerialExecutor() }

    /// One after the other, and none of them twice.
    private enum Phase {
        /// TCP, then TLS. The waiter is told when both are established, or when that has failed.
        case connecting(CheckedContinuation<Void, Never>?)
        case securing(CheckedContinuation<Void, Never>?)
        case signingIn
        case ready
        /// Ends when nobody waits for a reply any more.
        case draining
        case closed(RedisError)
    }

    private let descriptor: Int32
    private let reader = ReplyReader()
    private let label: String
    private let tls: TLS?
    private var phase = Phase.connecting(nil)
    private var outbox = Outbox()
    private var inbox = [UInt8](repeating: 0, count: 64 << 10)
    private var callers = Callers()
    /// One timer for all callers, at the first deadline or before it.
    private var watchdog: (timer: EventLoop.Timer, deadline: ContinuousClock.Instant)?
    /// Takes what no call waits for: a subscription's messages.
    private var listener: (@Sendable (Result<RedisValue, RedisError>) -> Void)?
    /// What the server knows of this connection.
    private(set) var serverSide = ServerSide()

    /// Connects to `server`, signs in and names the connection. Throws `.unreachable`, `.authentication`, `.timedOut`, …
    static func open(
        _ server: RedisURL.Address, _ login: Login, timeout: Duration
    ) async throws(RedisError) -> Connection {
        var last = RedisError(.unreachable, "no address")
        for address in try await Socket.addresses(of: server) {
            do {
                let tls = try login.tls(for: server)
                let connection = Connection(descriptor: try Socket.connect(to: address), tls, label: "\(server)")
                try await connection.shakeHands(login, timeout: timeout)
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
        (self.descriptor, self.tls, self.label) = (descriptor, tls, label)
    }

    isolated deinit { close() }

    var isOpen: Bool { failure == nil }

    private var failure: RedisError? { if case .closed(let error) = phase { error } else { nil } }

    /// The server has let us in.
    private var isSignedIn: Bool {
        switch phase {
        case .connecting, .securing, .signingIn: false
        case .ready, .draining, .closed: true
        }
    }

    /// Sends `commands` and returns their replies in order. At most once: if the connection fails after that, it throws
    /// `.closed` or `.timedOut`, and the commands may or may not have been done.
    ///
    /// A caller who is cancelled leaves at once with `.cancelled`, unless it `hearsOut` the replies.
    func call(
        _ commands: [Command], timeout: Duration, hearsOut: Bool = false
    ) async throws(RedisError) -> [RedisValue] {
        let number = callers.drawNumber()
        return try await withTaskCancellationHandler {
            await ask(commands, as: number, timeout, hearsOut)
        } onCancel: {
            if !hearsOut { Task { await self.release(number) } }
        }.get()
    }

    private func ask(
        _ commands: [Command], as number: Int, _ timeout: Duration, _ hearsOut: Bool
    ) async -> Callers.Answer {
        await withCheckedContinuation { continuation in
            // Here and not before: each await may let others have a turn, who may end the connection.
            if let failure { return continuation.resume(returning: .failure(failure)) }
            if Task.isCancelled, !hearsOut { return continuation.resume(returning: .failure(.cancelled)) }
            watch(until: callers.append(continuation, as: number, awaiting: commands.count, for: timeout))
            for command in commands { tell(command) }
        }
    }

    private func release(_ number: Int) { callers.release(number) }

    /// Sends a command; its replies go to the listener if no call waits for them.
    func tell(_ command: Command) {
        guard failure == nil else { return }
        command.encode(into: &outbox.plain)
        flushSoon()
    }

    /// From now on everything that no call waits for goes to `listener`, and at last the error that ended it all.
    func listen(_ listener: @escaping @Sendable (Result<RedisValue, RedisError>) -> Void) {
        if let failure { return listener(.failure(failure)) }
        self.listener = listener
    }

    /// Ends the connection when nobody waits for a reply any more.
    func retire() {
        guard failure == nil else { return }
        phase = .draining
        if callers.isEmpty { close() }
    }

    /// Ends the connection; whoever still waits gets `.closed`.
    func close() { fail(RedisError(.closed, "the connection to Redis was closed")) }

    // MARK: Opening

    private func shakeHands(_ login: Login, timeout: Duration) async throws(RedisError) {
        try await waitUntilConnected(timeout: timeout)
        let handshake = Handshake(login)
        let replies = try await call(handshake.commands, timeout: timeout, hearsOut: true)
        do { serverSide = try handshake.read(replies, label: label) } catch {
            fail(error)
            throw error
        }
        if case .signingIn = phase { phase = .ready }
    }

    private func waitUntilConnected(timeout: Duration) async throws(RedisError) {
        let watchdog = Self.loop.schedule(at: .now + timeout) { [weak self] in
            self?.assumeIsolated { $0.fail(RedisError(.unreachable, "no answer within \(timeout.rounded)")) }
        }
        await withCheckedContinuation { continuation in
            if failure != nil { return continuation.resume() }
            phase = .connecting(continuation)
            Self.loop.watch(descriptor, for: .writable) { [weak self] readiness in
                self?.assumeIsolated { $0.handle(readiness) }
            }
        }
        Self.loop.cancel(watchdog)
        if let failure { throw failure }
    }

    /// The socket is connected, or will never be.
    private func begin(_ waiter: CheckedContinuation<Void, Never>?) {
        if let reason = Socket.pendingError(of: descriptor) { return fail(RedisError(.unreachable, reason)) }
        Self.loop.change(descriptor, to: .readable)
        phase = .securing(waiter)
        if let tls { shakeHands(tls) } else { established() }
    }

    /// Whoever opens the connection goes on.
    private func established() {
        guard case .securing(let waiter) = phase else { return }
        phase = .signingIn
        waiter?.resume()
    }

    /// Begins TLS, or goes on with it.
    private func shakeHands(_ tls: TLS) {
        do {
            try tls.handshake()
            flushSoon()
        } catch {
            // It may have an alert to send.
            flush()
            return fail(error)
        }
        if tls.isEstablished { established() }
    }

    // MARK: The socket

    private func handle(_ readiness: EventLoop.Readiness) {
        if case .connecting(let waiter) = phase { return begin(waiter) }
        if readiness.contains(.writable) { flush() }
        if !readiness.isDisjoint(with: [.readable, .failed]), failure == nil { receive() }
    }

    private func flushSoon() {
        guard !outbox.isScheduled, !outbox.isFull else { return }
        outbox.isScheduled = true
        Self.loop.atEndOfTurn { [weak self] in self?.assumeIsolated { $0.flush() } }
    }

    private func flush() {
        guard failure == nil else { return }
        let wasFull = outbox.isFull
        do throws(RedisError) {
            let outcome = try outbox.write(to: descriptor, through: tls)
            if outbox.isFull != wasFull {
                Self.loop.change(descriptor, to: outbox.isFull ? [.readable, .writable] : .readable)
            }
            guard case .failed(let code) = outcome else { return }
            // What the server said before it closed may tell why.
            receive()
            fail(RedisError(.closed, "the connection to Redis at \(label) broke: \(Socket.message(code))"))
        } catch {
            fail(error)
        }
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
            // A key update has to be answered, for one.
            flushSoon()
            plain.withUnsafeBytes { read($0) }
        } catch {
            fail(error)
        }
    }

    // MARK: Replies

    private func read(_ bytes: UnsafeRawBufferPointer) {
        guard !bytes.isEmpty else { return }
        guard reader.feed(bytes) else { return fail(RedisError(.closed, "out of memory for a reply of Redis")) }
        do {
            while failure == nil, let value = try reader.next() { deliver(value) }
        } catch {
            // At the first word: that is no Redis at all.
            fail(RedisError(isSignedIn ? error.code : .unreachable, "\(error.message), at \(label)"))
        }
    }

    private func deliver(_ value: RedisValue) {
        guard !callers.isEmpty else {
            // Nobody asked anything yet: it is why the server will close.
            if !isSignedIn, case .error(let refusal) = value { return fail(refusal) }
            listener?(.success(value))
            return
        }
        callers.deliver(value)
        if case .draining = phase, callers.isEmpty { close() }
    }

    /// Sees to it that the connection fails if replies are overdue.
    private func watch(until deadline: ContinuousClock.Instant) {
        if let watchdog {
            guard deadline < watchdog.deadline else { return }
            Self.loop.cancel(watchdog.timer)
        }
        let timer = Self.loop.schedule(at: deadline) { [weak self] in self?.assumeIsolated { $0.checkDeadlines() } }
        watchdog = (timer, deadline)
    }

    private func checkDeadlines() {
        watchdog = nil
        guard let next = callers.mostUrgent else { return }
        guard next.deadline <= .now else { return watch(until: next.deadline) }
        fail(RedisError(.timedOut, "Redis at \(label) did not answer within \(next.timeout.rounded)"))
    }

    private func fail(_ reason: RedisError) {
        let (before, wasSignedIn) = (phase, isSignedIn)
        if case .closed = before { return }
        var error = reason
        // A server that takes no more clients answers with an error whatever comes first, and closes.
        if !wasSignedIn, case .error(let refusal) = callers.firstReply { error = refusal }
        phase = .closed(error)
        Self.loop.unwatch(descriptor)
        // While replies are awaited the server may still be at it: what it has not received yet is not to be done.
        if callers.isEmpty { Glibc.close(descriptor) } else { Socket.abort(descriptor) }
        if let watchdog { Self.loop.cancel(watchdog.timer) }
        switch before {
        case .connecting(let waiter), .securing(let waiter): waiter?.resume()
        case .signingIn, .ready, .draining, .closed: break
        }
        callers.fail(error)
        listener?(.failure(error))
        listener = nil
    }
}
