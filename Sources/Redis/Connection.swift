import Glibc
import HaulExecutors

/// One connection: a non-blocking socket on the loop of all Redis connections, hiredis' reader, and the callers that
/// wait for replies, in order. After any error the connection is closed for good, and `Redis` opens a new one.
///
/// The commands of one turn of the loop are sent in one write at the end of the turn.
actor Connection {
    /// All Redis connections of a process share one thread.
    static let loop = EventLoop(name: "redis")

    nonisolated var unownedExecutor: UnownedSerialExecutor { Self.loop.asUnownedSerialExecutor() }

    /// The phases follow each other in this order. None comes twice, and any may be skipped for `closed`.
    private enum Phase {
        /// TCP connects, then TLS. The continuation is resumed when both are established, or when one has failed.
        case connecting(CheckedContinuation<Void, Never>?)
        case securing(CheckedContinuation<Void, Never>?)
        case signingIn
        case ready
        /// The connection closes as soon as no caller waits for a reply.
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
    private var callers = PendingCalls()
    /// One timer for all callers. It fires at the earliest deadline, or before that.
    private var watchdog: (timer: EventLoop.Timer, deadline: ContinuousClock.Instant)?
    /// Gets the replies for which no call waits: the messages of subscriptions.
    private var listener: (@Sendable (Result<RedisValue, RedisError>) -> Void)?
    /// What the handshake has found out about the server.
    private(set) var serverInfo = ServerInfo()

    /// Connects to `server`, signs in and names the connection. Tries all addresses of `server` in order.
    ///
    /// - Parameter timeout: The limit for each step: to connect to one address, and for the replies of the handshake.
    /// - Throws: `.unreachable`, `.authentication`, `.timedOut` and other codes, for the last address that was tried.
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
            last.message =
                "cannot reach Redis at \(server): \(last.message). Is \(login.program) running there?"
        }
        throw last
    }

    private init(descriptor: Int32, _ tls: sending TLS?, label: String) {
        (self.descriptor, self.tls, self.label) = (descriptor, tls, label)
    }

    isolated deinit { close() }

    /// The error that has ended the connection. nil while it is open.
    var failure: RedisError? { if case .closed(let error) = phase { error } else { nil } }

    /// Whether the handshake has been accepted. Also true of a closed connection.
    private var isSignedIn: Bool {
        switch phase {
        case .connecting, .securing, .signingIn: false
        case .ready, .draining, .closed: true
        }
    }

    /// Sends `commands` at most once, and returns their replies in order.
    ///
    /// - Parameter awaitsReply: Whether a cancelled caller still waits for the replies. If not, it returns at once.
    /// - Throws: `.closed` or `.timedOut` if the connection fails: then Redis may or may not have executed the
    ///   commands. `.cancelled` if the task was cancelled and `awaitsReply` is false.
    func call(
        _ commands: [Command], timeout: Duration, awaitsReply: Bool = false
    ) async throws(RedisError) -> [RedisValue] {
        let number = callers.drawNumber()
        return try await withTaskCancellationHandler {
            await ask(commands, as: number, timeout, awaitsReply)
        } onCancel: {
            if !awaitsReply { Task { await self.release(number) } }
        }.get()
    }

    private func ask(
        _ commands: [Command], as number: Int, _ timeout: Duration, _ awaitsReply: Bool
    ) async -> PendingCalls.Outcome {
        await withCheckedContinuation { continuation in
            // Check here and not before: the connection may close during any earlier await.
            if let failure { return continuation.resume(returning: .failure(failure)) }
            if Task.isCancelled, !awaitsReply { return continuation.resume(returning: .failure(.cancelled)) }
            watch(until: callers.append(continuation, as: number, awaiting: commands.count, for: timeout))
            for command in commands { post(command) }
        }
    }

    private func release(_ number: Int) { callers.release(number) }

    /// Sends a command without waiting for its reply. The reply goes to the listener if no call waits for replies.
    func post(_ command: Command) {
        guard failure == nil else { return }
        command.encode(into: &outbox.plain)
        flushSoon()
    }

    /// From now on `listener` gets each reply for which no call waits, and at last the error that ends the connection.
    func listen(_ listener: @escaping @Sendable (Result<RedisValue, RedisError>) -> Void) {
        if let failure { return listener(.failure(failure)) }
        self.listener = listener
    }

    /// Closes the connection as soon as no caller waits for a reply.
    func retire() {
        guard failure == nil else { return }
        phase = .draining
        if callers.isEmpty { close() }
    }

    /// Closes the connection. Waiting callers get `.closed`.
    func close() { fail(RedisError(.closed, "the connection to Redis was closed")) }

    // MARK: Opening

    private func shakeHands(_ login: Login, timeout: Duration) async throws(RedisError) {
        try await waitUntilConnected(timeout: timeout)
        let handshake = Handshake(login)
        let replies = try await call(handshake.commands, timeout: timeout, awaitsReply: true)
        do { serverInfo = try handshake.read(replies, label: label) } catch {
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

    /// Called when the socket has connected or has failed to. Starts TLS if the URL asks for TLS.
    private func begin(_ waiter: CheckedContinuation<Void, Never>?) {
        if let reason = Socket.pendingError(of: descriptor) { return fail(RedisError(.unreachable, reason)) }
        Self.loop.change(descriptor, to: .readable)
        phase = .securing(waiter)
        if let tls { shakeHands(tls) } else { established() }
    }

    /// TCP and TLS are established: `waitUntilConnected` returns.
    private func established() {
        guard case .securing(let waiter) = phase else { return }
        phase = .signingIn
        waiter?.resume()
    }

    /// Starts or continues the TLS handshake.
    private func shakeHands(_ tls: TLS) {
        do {
            try tls.handshake()
            flushSoon()
        } catch {
            // TLS may have an alert for the server.
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
            // The server may have sent an error that says why it closed the connection. Read that error first.
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
            // TLS may have to answer, for example to a key update.
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
            // Before the handshake is done, bytes that are not RESP mean that the server is not Redis: `.unreachable`.
            fail(RedisError(isSignedIn ? error.code : .unreachable, "\(error.message), at \(label)"))
        }
    }

    private func deliver(_ value: RedisValue) {
        guard !callers.isEmpty else {
            // An error before the first command says why the server is about to close the connection.
            if !isSignedIn, case .error(let refusal) = value { return fail(refusal) }
            listener?(.success(value))
            return
        }
        callers.deliver(value)
        if case .draining = phase, callers.isEmpty { close() }
    }

    /// Makes sure that the watchdog fires at `deadline` or before.
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
        guard let next = callers.earliestTimeout else { return }
        guard next.deadline <= .now else { return watch(until: next.deadline) }
        fail(RedisError(.timedOut, "Redis at \(label) did not answer within \(next.timeout.rounded)"))
    }

    private func fail(_ reason: RedisError) {
        let (before, wasSignedIn) = (phase, isSignedIn)
        if case .closed = before { return }
        var error = reason
        // A server that has reached maxclients answers the first command with an error, and closes the connection.
        if !wasSignedIn, case .error(let refusal) = callers.firstReply { error = refusal }
        phase = .closed(error)
        Self.loop.unwatch(descriptor)
        // If callers wait, commands may still be on their way. The server must not execute them later.
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
