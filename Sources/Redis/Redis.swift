import HaulExecutors

/// A client that keeps one connection: it connects when first used, again after a failure (backoff with jitter, at most
/// a second), and pipelines the commands of concurrent callers. Blocking commands want a client of their own.
///
/// A command is written at most once. If the connection fails afterwards the call throws `.closed` or `.timedOut`, and
/// the caller decides; the bus' functions may all be sent again. Replies that say that nothing was done yet (`LOADING`,
/// `READONLY` after a failover, …) are waited out up to the call's timeout.
///
/// It has many properties because a connection has a life between two of them: what leads to the next one, what watches
/// the present one, and when all of it ends. They change together, so they are one actor.
package actor Redis {
    /// What a client's replies mean to its callers.
    package enum Replies: Sendable {
        /// They may be done without: a caller who is cancelled leaves at once with `.cancelled`.
        case wanted
        /// They say what the caller owns: a caller who is cancelled hears them out. After a lost connection the server may
        /// still do what was sent over it, although nobody hears the replies: the bus' functions refuse what is out of date.
        case owed
    }

    package nonisolated var unownedExecutor: UnownedSerialExecutor { Connection.loop.asUnownedSerialExecutor() }

    /// The thread of all connections, for tasks that mostly talk to Redis: they need no other to do so. They must not block.
    package static var executor: any TaskExecutor { Connection.loop }

    package nonisolated let url: RedisURL
    private let replies: Replies
    private var locator: Locator
    private var live: Connection?
    /// Where the live connection leads.
    private(set) var place: RedisURL.Address?
    /// Another server may take the place of the one that commands go to: sentinels look after it, or it is of a cluster,
    /// whatever the URL says.
    package private(set) var mayFailOver: Bool
    private var watch: Task<Void, Never>?
    private var connecting: Task<Result<Connection, RedisError>, Never>?
    private var isClosed = false
    /// When the client closes by itself.
    private var end: ContinuousClock.Instant?
    private var failures = 0
    package nonisolated let traffic = Traffic()

    /// `name` is what CLIENT LIST shows.
    package init(_ url: RedisURL, name: String, replies: Replies = .wanted) {
        (self.url, self.replies) = (url, replies)
        mayFailOver = url.kind != .single
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

    /// Runs a function, and loads its library before where the server does not know it.
    @discardableResult
    package func run(
        _ function: Function, keys: [String], arguments: [any RedisArgument], timeout: Duration = .seconds(5)
    ) async throws(RedisError) -> RedisValue {
        try await pipeline([.function(function, keys: keys, arguments: arguments)], timeout: timeout)[0].get()
    }

    /// Sends the calls in one write and returns a reply for each; error replies are `.error` elements. `timeout` counts
    /// the waiting for a connection and for the replies, besides the time for which a call is meant to block.
    package func pipeline(
        _ calls: [Call], timeout: Duration = .seconds(5), blocking: Duration = .zero
    ) async throws(RedisError) -> [RedisValue] {
        guard !calls.isEmpty else { return [] }
        let deadline = self.deadline(after: timeout)
        var tries = 0
        while true {
            let connection = try await connection(until: deadline)
            var answers: [RedisValue]
            do {
                answers = try await connection.call(
                    calls.map(\.command), timeout: max(deadline - .now, .milliseconds(50)) + blocking,
                    hearsOut: replies == .owed)
                traffic.noteRoundTrip()
            } catch {
                // Others can go on behind an answer that is not waited for, but not behind a wait.
                if error.code != .cancelled || blocking > .zero { drop(connection) }
                throw isClosed && error.code == .closed ? .clientClosed : error
            }
            for (index, answer) in answers.enumerated() {
                guard case .function(let function, _, _) = calls[index], case .error(let error) = answer,
                    error.code == .noFunction
                else { continue }
                let again = try await connection.call(
                    [function.library.load, calls[index].command], timeout: max(deadline - .now, .milliseconds(50)),
                    hearsOut: replies == .owed)
                if case .error(let refusal) = again[0] {
                    answers[index] = .error(refusal.whileLoadingFunctions)
                } else {
                    answers[index] = again[1]
                }
            }
            guard case .error(let error) = answers[0], error.isPassing, calls.count == 1 || allPassing(answers) else {
                return answers
            }
            let wait = Backoff.milliseconds(tries)
            if ContinuousClock.now + .milliseconds(wait) >= deadline { return answers }
            let isLedOn = locator.follow(error, from: place)
            if isLedOn { mayFailOver = true }
            // READONLY and its like: perhaps another server is the primary by now.
            if isLedOn || [.readOnly, .masterDown, .clusterDown].contains(error.code) { leave(connection) }
            tries += 1
            // At once, but not for ever: nodes that have not agreed yet send to each other. Whoever is cancelled is led on,
            // too, but waits for nothing.
            if isLedOn, tries <= 2 { continue }
            if Task.isCancelled { return answers }
            await pause(wait)
        }
    }

    /// Connects if there is no connection: what an earlier one still had to do has then been done, or will not be.
    package func connect(timeout: Duration = .seconds(5)) async throws(RedisError) {
        _ = try await connection(until: deadline(after: timeout))
    }

    /// Which run of which server the live connection leads to; nil while there is none, or where an ACL forbids to know.
    package var serverRun: String? { get async { await live?.serverSide.run } }

    /// Closes the client at `deadline`, whoever still waits then, and whatever for: what a Redis that hangs is asked has an end.
    package func end(by deadline: ContinuousClock.Instant) {
        end = min(end ?? deadline, deadline)
        Task {
            try? await Task.sleep(until: deadline, clock: .continuous)
            await self.close()
        }
    }

    private func deadline(after timeout: Duration) -> ContinuousClock.Instant {
        let deadline = ContinuousClock.now + timeout
        return end.map { min($0, deadline) } ?? deadline
    }

    package func close() async {
        isClosed = true
        watch?.cancel()
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
                if await live.isOpen { return live }
                drop(live)
            }
            do {
                return try await connect(within: min(.seconds(3), max(deadline - .now, .milliseconds(50))))
            } catch {
                if error.code != .timedOut { refusal = error }
                let wait = Backoff.milliseconds(failures)
                guard error.code == .unreachable || error.isTransient,
                    ContinuousClock.now + .milliseconds(wait) < deadline,
                    !Task.isCancelled
                else {
                    // Why nobody answers says more than that the time is over.
                    throw error.code == .timedOut ? refusal ?? error : error
                }
                await pause(wait)
            }
        }
    }

    /// One try to connect, shared by all who wait for it.
    private func connect(within limit: Duration) async throws(RedisError) -> Connection {
        let task = connecting ?? Task { await self.open(within: limit) }
        connecting = task
        // The try may have been begun by somebody who has more time.
        let deadline = ContinuousClock.now + limit
        // A task of its own hears the reply out, although the one who asks is cancelled.
        let result =
            replies == .owed
            ? await Task { await task.value(until: deadline) }.value : await task.value(until: deadline)
        if let result { return try result.get() }
        if replies == .wanted, Task.isCancelled { throw .cancelled }
        throw RedisError(.timedOut, "no connection to Redis within \(limit.rounded)")
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
            traffic.noteConnect()
            place = address
            if await connection.serverSide.isOfCluster { mayFailOver = true }
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
        leave(live: connection)
        Task { await connection.close() }
    }

    /// Others may still wait for its replies, which come.
    private func leave(_ connection: Connection) {
        leave(live: connection)
        Task { await connection.retire() }
    }

    private func leave(live connection: Connection) {
        if live === connection { live = nil }
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

    private func pause(_ milliseconds: Int) async { try? await Task.sleep(for: .milliseconds(milliseconds)) }

    private func allPassing(_ replies: [RedisValue]) -> Bool {
        replies.allSatisfy { if case .error(let error) = $0 { error.isPassing } else { false } }
    }
}
