import Synchronization

/// Messages of channels and patterns, over a connection of its own that is built anew after every failure.
///
/// Ends when the consuming task is cancelled. Messages that were sent while there was no connection are lost, as pub/sub
/// goes; `.subscribed` is the moment to catch up from the hashes.
package struct Subscription: AsyncSequence, Sendable {
    package enum Element: Sendable {
        /// All channels are subscribed to, at first and after every reconnect.
        case subscribed
        case message(channel: String, payload: [UInt8])
        /// The connection failed; another try follows by itself.
        case interrupted(RedisError)
    }

    private let url: RedisURL
    private let name: String
    private let channels: [String]
    private let patterns: [String]

    package init(_ url: RedisURL, name: String, channels: [String] = [], patterns: [String] = []) {
        (self.url, self.name, self.channels, self.patterns) = (url, name, channels, patterns)
    }

    package func makeAsyncIterator() -> AsyncStream<Element>.Iterator {
        let (stream, continuation) = AsyncStream<Element>.makeStream(bufferingPolicy: .bufferingNewest(100_000))
        let task = Task { await follow(continuation) }
        continuation.onTermination = { _ in task.cancel() }
        return stream.makeAsyncIterator()
    }

    private func follow(_ output: AsyncStream<Element>.Continuation) async {
        var failures = 0
        var locator = Locator(url, name: name)
        while !Task.isCancelled {
            do {
                // Any node of a cluster passes on what is published on any other.
                let address = try await locator.find(timeout: .seconds(3))
                let connection = try await Connection.open(address, locator.login, timeout: .seconds(3))
                // Not before it is subscribed: an ACL may let us in and forbid the channel.
                let (error, wasSubscribed) = await listen(on: connection, output)
                if wasSubscribed { failures = 0 }
                await connection.close()
                output.yield(.interrupted(error))
            } catch {
                locator.failed()
                output.yield(.interrupted(error))
            }
            failures += 1
            try? await Task.sleep(for: .milliseconds(Backoff.milliseconds(failures)))
        }
        output.finish()
    }

    /// Passes messages on until the connection fails, is silent for too long, or the task is cancelled.
    private func listen(
        on connection: Connection, _ output: AsyncStream<Element>.Continuation
    ) async -> (RedisError, wasSubscribed: Bool) {
        let awaited = channels.count + patterns.count
        let (replies, feed) = AsyncStream<Result<RedisValue, RedisError>>.makeStream()
        let heard = Mutex(ContinuousClock.now)
        await connection.listen { reply in
            feed.yield(reply)
            if case .failure = reply { feed.finish() }
        }
        if !channels.isEmpty { await connection.tell(Command(arguments: ["SUBSCRIBE"] + channels)) }
        if !patterns.isEmpty { await connection.tell(Command(arguments: ["PSUBSCRIBE"] + patterns)) }
        // A peer that is gone without a word is noticed by its silence.
        let pinger = Task {
            while !Task.isCancelled {
                try? await Task.sleep(for: .seconds(15))
                if ContinuousClock.now - heard.withLock({ $0 }) > .seconds(40) { return await connection.close() }
                await connection.tell(Command("PING"))
            }
        }
        defer { pinger.cancel() }
        var confirmed = 0
        for await reply in replies {
            heard.withLock { $0 = .now }
            switch reply {
            case .failure(let error): return (error, confirmed >= awaited)
            case .success(.error(let error)): return (error, confirmed >= awaited)
            case .success(let value):
                let parts = value.array ?? []
                switch parts.first?.string {
                case "message" where parts.count == 3:
                    output.yield(.message(channel: parts[1].string ?? "", payload: parts[2].bytes ?? []))
                case "pmessage" where parts.count == 4:
                    output.yield(.message(channel: parts[2].string ?? "", payload: parts[3].bytes ?? []))
                case "subscribe", "psubscribe":
                    confirmed += 1
                    if confirmed == awaited { output.yield(.subscribed) }
                default: break
                }
            }
        }
        return (RedisError(.closed, "the subscription ended"), confirmed >= awaited)
    }
}
