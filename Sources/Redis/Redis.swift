import HaulExecutors

/// A client that keeps one connection. It connects on first use and after a failure (backoff with jitter, at most a
/// second). It pipelines the commands of concurrent callers, so a blocking command needs a client of its own.
///
/// A command is written at most once. If the connection fails after that, the call throws `.closed` or `.timedOut`, and
/// the caller decides whether to send the command again. All functions of the bus may be sent again. If a reply says
/// that Redis has not executed the command (`LOADING`, `READONLY` after a failover, …), the client retries up to the
/// call's timeout, as its `Patience` allows.
package actor Redis {
    /// Whether a caller whose task is cancelled still waits for its replies.
    package enum Replies: Sendable {
        /// No: a cancelled caller returns at once with `.cancelled`.
        case wanted
        /// Yes: the replies say what the caller owns, for example a lease. The client also asks INFO for the server's
        /// run. After a lost connection the server may still execute commands whose replies no caller gets. The bus'
        /// functions refuse calls that are out of date.
        case owed
    }

    /// How long a client waits for a server that does not serve.
    package enum Patience: Sendable {
        /// Each call waits up to its timeout.
        case each
        /// After one call has waited in vain, those of the next ten seconds fail at once. For a command, whose user would
        /// wait for the sum of all its calls.
        case once
    }

    package nonisolated var unownedExecutor: UnownedSerialExecutor { Connection.loop.asUnownedSerialExecutor() }

    /// The thread of all connections. A task that mostly calls Redis avoids thread switches there, but must not block.
    package static var executor: any TaskExecutor { Connection.loop }

    package nonisolated let url: RedisURL
    /// The client name in CLIENT LIST.
    package nonisolated let name: String
    private let replies: Replies
    package nonisolated let patience: Patience
    /// Until when calls do not wait, because one has waited in vain; nil if none has.
    private var impatientUntil: ContinuousClock.Instant?
    private var locator: PrimaryLocator
    private var live: Connection?
    /// The server of the live connection, or of the last one.
    private(set) var server: RedisURL.Address?
    /// Whether another server may replace the current one: the URL names sentinels or a cluster, or the server has
    /// turned out to be a node of a cluster.
    package private(set) var mayFailOver: Bool
    private var sentinelWatch: Task<Void, Never>?
    private var connecting: Task<Result<Connection, RedisError>, Never>?
    private var isClosed = false
    /// The deadline that `end(by:)` has set.
    private var closingTime: ContinuousClock.Instant?
    private var failures = 0
    package nonisolated let traffic = Traffic()
    private var reports: ConnectionReports

    /// Does not connect yet.
    ///
    /// - Parameters:
    ///   - name: The client name in CLIENT LIST.
    ///   - patience: Whether each call waits for a server that does not serve.
    ///   - onChange: Called when the connection is lost, and when it is back. It must not block.
    package init(
        _ url: RedisURL, name: String, replies: Replies = .wanted, patience: Patience = .each,
        onChange: (@Sendable (ConnectionChange) -> Void)? = nil
    ) {
        (self.url, self.name, self.replies, self.patience) = (url, name, replies, patience)
        reports = ConnectionReports(onChange)
        mayFailOver = url.kind != .single
        locator = PrimaryLocator(url, name: name)
    }

    deinit {
        sentinelWatch?.cancel()
        if let live { Task { await live.close() } }
    }

    /// Sends one command.
    ///
    /// - Throws: An error reply, and the errors of `pipeline`.
    @discardableResult
    package func send(_ command: Command, timeout: Duration = .seconds(5)) async throws(RedisError) -> RedisValue {
        try await pipeline([.command(command)], timeout: timeout)[0].get()
    }

    /// Runs a function. Loads the function's library first if the server does not have it.
    ///
    /// - Throws: An error reply, and the errors of `pipeline`.
    @discardableResult
    package func run(
        _ function: Function, keys: [String], arguments: [any RedisArgument], timeout: Duration = .seconds(5)
    ) async throws(RedisError) -> RedisValue {
        try await pipeline([.function(function, keys: keys, arguments: arguments)], timeout: timeout)[0].get()
    }

    /// Sends the calls in one write, and returns one reply for each. An error reply is an `.error` element.
    ///
    /// - Parameters:
    ///   - timeout: The limit for the wait for a connection and for the replies, without `blocking`.
    ///   - blocking: For how long the calls may block in Redis.
    /// - Throws: `.closed` or `.timedOut` if the connection fails: then Redis may or may not have executed the calls.
    ///   The error of the last try to connect if there was no connection in time. `.cancelled` if the task was
    ///   cancelled, and `.clientClosed` after `close`.
    package func pipeline(
        _ calls: [Call], timeout: Duration = .seconds(5), blocking: Duration = .zero
    ) async throws(RedisError) -> [RedisValue] {
        guard !calls.isEmpty else { return [] }
        let deadline = self.deadline(after: timeout)
        var tries = 0
        while true {
            let connection = try await connection(until: deadline)
            var results: [RedisValue]
            do {
                results = try await connection.call(
                    calls.map(\.command), timeout: max(deadline - .now, .milliseconds(50)) + blocking,
                    awaitsReply: replies == .owed)
                traffic.countRoundTrip()
            } catch {
                // After a cancellation the reply still comes, and other callers can use the connection. But a blocking
                // command would delay their replies.
                if error.code != .cancelled || blocking > .zero { drop(connection) }
                if error.code != .cancelled, !isClosed { reports.lose(error) }
                throw isClosed && error.code == .closed ? .clientClosed : error
            }
            for (index, result) in results.enumerated() {
                guard case .function(let function, _, _) = calls[index], case .error(let error) = result,
                    error.code == .noFunction
                else { continue }
                let again = try await connection.call(
                    [function.library.load, calls[index].command], timeout: max(deadline - .now, .milliseconds(50)),
                    awaitsReply: replies == .owed)
                if case .error(let refusal) = again[0] {
                    results[index] = .error(refusal.whileLoadingFunctions)
                } else {
                    results[index] = again[1]
                }
            }
            guard case .error(let error) = results[0], error.isTemporaryRefusal,
                calls.count == 1 || allRefused(results, of: calls)
            else {
                return results
            }
            let wait = Backoff.milliseconds(tries)
            if ContinuousClock.now + .milliseconds(wait) >= deadline || hasGivenUp && tries > 2 {
                giveUp()
                guard error.code == .moved, let failure = locator.failureOfMove else { return results }
                throw failure
            }
            let isRedirected = locator.follow(error, from: server)
            if isRedirected { mayFailOver = true }
            // Find the server again: another one may be the primary by now. A node of a cluster that is cut off from the
            // others may stay so.
            if !isRedirected, [.masterDown, .clusterDown].contains(error.code) { locator.failed(error) }
            if isRedirected || [.readOnly, .masterDown, .clusterDown].contains(error.code) { retire(connection) }
            tries += 1
            // Follow the first two MOVED replies at once, even in a cancelled task. After that wait between tries:
            // nodes that do not agree yet redirect to each other.
            if isRedirected, tries <= 2 { continue }
            if Task.isCancelled { return results }
            if !hasGivenUp { await pause(wait) }
        }
    }

    /// Connects if there is no connection. After that, commands that were sent over an earlier connection have been
    /// executed, or never will be.
    ///
    /// - Throws: The error of the last try to connect, `.cancelled` or `.clientClosed`.
    package func connect(timeout: Duration = .seconds(5)) async throws(RedisError) {
        _ = try await connection(until: deadline(after: timeout))
    }

    /// The `run_id` of the server that the client is connected to. nil without a connection, if an ACL hides the value,
    /// or unless the client's replies are `owed`.
    package var serverRun: String? { get async { await live?.serverInfo.run } }

    /// Closes the client at `deadline`, even if callers still wait. So a Redis that hangs cannot delay a shutdown.
    package func end(by deadline: ContinuousClock.Instant) {
        closingTime = min(closingTime ?? deadline, deadline)
        Task {
            try? await Task.sleep(until: deadline, clock: .continuous)
            await self.close()
        }
    }

    private func deadline(after timeout: Duration) -> ContinuousClock.Instant {
        let deadline = ContinuousClock.now + timeout
        return closingTime.map { min($0, deadline) } ?? deadline
    }

    package func close() async {
        isClosed = true
        sentinelWatch?.cancel()
        await live?.close()
        live = nil
    }

    // MARK: Connecting

    private func connection(until deadline: ContinuousClock.Instant) async throws(RedisError) -> Connection {
        var refusal: RedisError?
        while true {
            if isClosed { throw .clientClosed }
            if replies == .wanted, Task.isCancelled { throw .cancelled }
            if let live {
                guard let failure = await live.failure else { return live }
                drop(live)
                if !isClosed { reports.lose(failure) }
            }
            do {
                let limit = Duration.seconds(hasGivenUp ? 1 : 3)
                return try await connect(within: min(limit, max(deadline - .now, .milliseconds(50))))
            } catch {
                if error.code != .timedOut { refusal = error }
                let wait = Backoff.milliseconds(failures)
                guard error.code == .unreachable || error.isTransient,
                    ContinuousClock.now + .milliseconds(wait) < deadline, !hasGivenUp,
                    !Task.isCancelled
                else {
                    giveUp()
                    // The reason why no server answers is more useful than `.timedOut`.
                    throw error.code == .timedOut ? refusal ?? error : error
                }
                await pause(wait)
            }
        }
    }

    /// One try to connect. All callers that need a connection share the same try.
    private func connect(within limit: Duration) async throws(RedisError) -> Connection {
        let task = connecting ?? Task { await self.open(within: limit) }
        connecting = task
        // Another caller with a longer limit may have started the try.
        let deadline = ContinuousClock.now + limit
        // The new task is not cancelled together with the caller.
        let result =
            replies == .owed
            ? await Task { await task.value(until: deadline) }.value : await task.value(until: deadline)
        if let result { return try result.get() }
        if replies == .wanted, Task.isCancelled { throw .cancelled }
        throw RedisError(.timedOut, "no connection to Redis at \(url.redacted) within \(limit.rounded)")
    }

    private func open(within limit: Duration) async -> Result<Connection, RedisError> {
        let result: Result<Connection, RedisError>
        do throws(RedisError) {
            let address = try await locator.find(timeout: limit)
            var login = locator.login
            login.tracesServer = replies == .owed
            let connection: Connection
            do throws(RedisError) {
                connection = try await Connection.open(address, login, timeout: limit)
            } catch {
                throw locator.meaning(of: error)
            }
            failures = 0
            locator.reached()
            reports.recover()
            traffic.countConnect()
            server = address
            if await connection.serverInfo.isCluster { mayFailOver = true }
            if isClosed { await connection.close() } else { live = connection }
            watchSentinels()
            result = .success(connection)
        } catch {
            failures += 1
            if !isClosed { reports.lose(error) }
            locator.failed(error)
            result = .failure(error)
        }
        connecting = nil
        return result
    }

    private var hasGivenUp: Bool { impatientUntil.map { .now < $0 } ?? false }

    private func giveUp() {
        if patience == .once, !hasGivenUp { impatientUntil = .now + .seconds(10) }
    }

    private func drop(_ connection: Connection) {
        forget(connection)
        Task { await connection.close() }
    }

    /// Uses `connection` for no further calls. It closes after the replies for which other callers still wait.
    private func retire(_ connection: Connection) {
        forget(connection)
        Task { await connection.retire() }
    }

    private func forget(_ connection: Connection) {
        if live === connection { live = nil }
    }

    /// Asks the sentinels every two seconds, so that the client does not keep using an old primary that a network
    /// partition has cut off.
    private func watchSentinels() {
        guard case .sentinel = url.kind, sentinelWatch == nil else { return }
        sentinelWatch = Task { [weak self] in
            while !Task.isCancelled {
                try? await Task.sleep(for: .seconds(2))
                await self?.askSentinels()
            }
        }
    }

    private func askSentinels() async {
        guard let connection = live, let server, await locator.isReplaced(server), live === connection else { return }
        // Close at once: writes that the old primary still accepts will be lost.
        drop(connection)
    }

    private func pause(_ milliseconds: Int) async { try? await Task.sleep(for: .milliseconds(milliseconds)) }

    /// Whether no call has had an effect. WAIT has no key, so a node of a cluster answers it even if it refuses the push
    /// before it.
    private func allRefused(_ replies: [RedisValue], of calls: [Call]) -> Bool {
        zip(replies, calls).allSatisfy { reply, call in
            if case .error(let error) = reply { return error.isTemporaryRefusal }
            return call.command.arguments.first as? String == "WAIT"
        }
    }
}
