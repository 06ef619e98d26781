import Executors

/// A client that keeps one connection: it connects when first used, again after a failure (backoff with jitter, at most
/// a second), and pipelines the commands of concurrent callers. Blocking commands want a client of their own.
///
/// A command is written at most once. If the connection fails afterwards the call throws `.closed` or `.timedOut`, and
/// the caller decides; the bus' scripts may all be sent again. Replies that say that nothing was done yet (`LOADING`,
/// `READONLY` after a failover, …) are waited out up to the call's timeout.
package actor Redis {
    package nonisolated var unownedExecutor: UnownedSerialExecutor { Connection.loop.asUnownedSerialExecutor() }

    package nonisolated let url: RedisURL
    private var locator: Locator
    private var live: Connection?
    /// Where the live connection leads.
    private var place: RedisURL.Address?
    private var watch: Task<Void, Never>?
    private var connecting: Task<Result<Connection, RedisError>, Never>?
    private var isClosed = false
    private var failures = 0

    /// `name` is what CLIENT LIST shows.
    package init(_ url: RedisURL, name: String) {
        self.url = url
        locator = Locator(url, name: name)
    }

    deinit {
        watch?.cancel()
        if let live { Task { await live.close() } }
    }

    /// Sends one command; an error reply is thrown.
    @discardableResult
    package func send(_ command: Command, timeout: Duration = .seconds(5)) async throws(RedisError) -> RedisValue {
        try await pipeline([.command(command)], timeout: timeout)[0].get()
    }

    /// Runs a script by its hash, or by its text where the server does not know it.
    @discardableResult
    package func run(
        _ script: Script, keys: [String], arguments: [any RedisArgument], timeout: Duration = .seconds(5)
    ) async throws(RedisError) -> RedisValue {
        try await pipeline([.script(script, keys: keys, arguments: arguments)], timeout: timeout)[0].get()
    }

    /// Sends the calls in one write and returns a reply for each; error replies are `.error` elements. `timeout` counts
    /// the waiting for a connection and for the replies, besides the time for which a call is meant to block.
    package func pipeline(
        _ calls: [Call], timeout: Duration = .seconds(5), blocking: Duration = .zero
    ) async throws(RedisError) -> [RedisValue] {
        guard !calls.isEmpty else { return [] }
        let deadline = ContinuousClock.now + timeout
        while true {
            let connection = try await connection(until: deadline)
            var bytes: [UInt8] = []
            for call in calls { call.command.encode(into: &bytes) }
            var replies: [RedisValue]
            do {
                replies = try await connection.call(
                    bytes, count: calls.count, timeout: max(deadline - .now, .milliseconds(50)) + blocking)
            } catch {
                drop(connection)
                throw error
            }
            for (index, reply) in replies.enumerated() {
                guard case .error(let error) = reply, error.code == .noScript else { continue }
                replies[index] = try await evaluate(calls[index], on: connection, until: deadline)
            }
            guard case .error(let error) = replies[0], error.isPassing, calls.count == 1 || allPassing(replies),
                ContinuousClock.now < deadline - .milliseconds(200), !Task.isCancelled
            else { return replies }
            if locator.follow(error, from: place) {
                leave(connection)
                continue
            }
            // READONLY and its like: perhaps another server is the primary by now.
            if [.readOnly, .masterDown, .clusterDown].contains(error.code) { leave(connection) }
            await pause(.milliseconds(100))
        }
    }

    /// The server's number of the live connection (for CLIENT UNBLOCK from another one), nil while there is none.
    package var connectionID: Int? { get async { await live?.id } }

    package func close() async {
        isClosed = true
        watch?.cancel()
        await live?.close()
        live = nil
    }

    // MARK: Connecting

    private func connection(until deadline: ContinuousClock.Instant) async throws(RedisError) -> Connection {
        while true {
            if isClosed { throw RedisError(.closed, "the Redis client was closed") }
            if let live, await live.isOpen { return live }
            do {
                return try await connect(within: min(.seconds(3), max(deadline - .now, .milliseconds(50))))
            } catch {
                let wait = Duration.milliseconds(Backoff.milliseconds(failures))
                guard error.code == .unreachable || error.isTransient, ContinuousClock.now + wait < deadline,
                    !Task.isCancelled
                else { throw error }
                await pause(wait)
            }
        }
    }

    /// One try to connect, shared by all who wait for it.
    private func connect(within limit: Duration) async throws(RedisError) -> Connection {
        let task = connecting ?? Task { await self.open(within: limit) }
        connecting = task
        return try await task.value.get()
    }

    private func open(within limit: Duration) async -> Result<Connection, RedisError> {
        let result: Result<Connection, RedisError>
        do {
            let address = try await locator.find(timeout: limit)
            let connection = try await Connection.open(address, locator.login, timeout: limit)
            failures = 0
            place = address
            if isClosed { await connection.close() } else { live = connection }
            watchSentinels()
            result = .success(connection)
        } catch {
            failures += 1
            locator.failed()
            result = .failure(error)
        }
        connecting = nil
        return result
    }

    private func drop(_ connection: Connection) {
        if live === connection { live = nil }
        Task { await connection.close() }
    }

    /// Others may still wait for its replies, which come.
    private func leave(_ connection: Connection) {
        if live === connection { live = nil }
        Task { await connection.retire() }
    }

    /// Asks the sentinels every few seconds, so that nobody works on an old primary that was cut off from the rest.
    private func watchSentinels() {
        guard case .sentinel = url.kind, watch == nil else { return }
        watch = Task { [weak self] in
            while !Task.isCancelled {
                try? await Task.sleep(for: .seconds(2))
                await self?.askSentinels()
            }
        }
    }

    private func askSentinels() async {
        guard let connection = live, let now = try? await locator.find(timeout: .seconds(1)), now != place,
            live === connection
        else { return }
        // What the old primary answers from now on would be forgotten.
        drop(connection)
    }

    private func pause(_ duration: Duration) async { try? await Task.sleep(for: duration) }

    private func evaluate(
        _ call: Call, on connection: Connection, until deadline: ContinuousClock.Instant
    ) async throws(RedisError) -> RedisValue {
        var bytes: [UInt8] = []
        call.withSource.encode(into: &bytes)
        return try await connection.call(bytes, count: 1, timeout: max(deadline - .now, .milliseconds(50)))[0]
    }

    private func allPassing(_ replies: [RedisValue]) -> Bool {
        replies.allSatisfy { if case .error(let error) = $0 { error.isPassing } else { false } }
    }
}
