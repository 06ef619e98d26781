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
    private let name: String
    private var live: Connection?
    private var connecting: Task<Result<Connection, RedisError>, Never>?
    private var isClosed = false
    private var failures = 0

    /// `name` is what CLIENT LIST shows.
    package init(_ url: RedisURL, name: String) { (self.url, self.name) = (url, name) }

    deinit { if let live { Task { await live.close() } } }

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
    /// the waiting for a connection and for the replies, so it must be longer than any blocking call blocks.
    package func pipeline(_ calls: [Call], timeout: Duration = .seconds(5)) async throws(RedisError) -> [RedisValue] {
        guard !calls.isEmpty else { return [] }
        let deadline = ContinuousClock.now + timeout
        while true {
            let connection = try await connection(until: deadline)
            var bytes: [UInt8] = []
            for call in calls { call.command.encode(into: &bytes) }
            var replies: [RedisValue]
            do {
                replies = try await connection.call(
                    bytes, count: calls.count, timeout: max(deadline - .now, .milliseconds(50)))
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
            // READONLY and its like: perhaps another server is the primary by now.
            if error.code == .readOnly || error.code == .masterDown { drop(connection) }
            await pause(.milliseconds(100))
        }
    }

    /// The server's number of the live connection (for CLIENT UNBLOCK from another one), nil while there is none.
    package var connectionID: Int? { get async { await live?.id } }

    package func close() async {
        isClosed = true
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
            let connection = try await Connection.open(url, name: name, timeout: limit)
            failures = 0
            if isClosed { await connection.close() } else { live = connection }
            result = .success(connection)
        } catch {
            failures += 1
            result = .failure(error)
        }
        connecting = nil
        return result
    }

    private func drop(_ connection: Connection) {
        if live === connection { live = nil }
        Task { await connection.close() }
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
