/// One connection for any number of subscriptions. It is open while there are subscriptions, and is opened again after
/// a failure.
package actor Subscriber {
    enum Topic: Hashable, Sendable {
        case channel(String)
        case pattern(String)
    }

    /// The buffers of a topic, and whether the server has confirmed the subscription.
    private struct Audience {
        var buffers: [ObjectIdentifier: SubscriptionBuffer] = [:]
        var isConfirmed = false
    }

    /// One buffer, its topics, and those topics that the server has not confirmed yet.
    private struct Member {
        let buffer: SubscriptionBuffer
        let topics: Set<Topic>
        var awaited: Set<Topic>
    }

    package nonisolated var unownedExecutor: UnownedSerialExecutor { Connection.loop.asUnownedSerialExecutor() }

    private let url: RedisURL
    private let name: String
    private var members: [ObjectIdentifier: Member] = [:]
    private var audiences: [Topic: Audience] = [:]
    /// How many SUBSCRIBE commands of each topic the server has not confirmed yet. Only the confirmation of the last
    /// one counts, because an UNSUBSCRIBE may have followed an earlier SUBSCRIBE.
    private var outstanding: [Topic: Int] = [:]
    /// The connection that receives the messages.
    private var live: Connection?
    private var runner: Task<Void, Never>?
    /// The number of the current runner. An earlier runner was cancelled, but may not have ended yet.
    private var generation = 0
    private var isClosed = false
    private var reports: ConnectionReports

    /// - Parameters:
    ///   - name: The client name in CLIENT LIST.
    ///   - onChange: Called when the connection is lost, and when it is back. It must not block.
    package init(_ url: RedisURL, name: String, onChange: (@Sendable (ConnectionChange) -> Void)? = nil) {
        (self.url, self.name) = (url, name)
        reports = ConnectionReports(onChange)
    }

    /// Ends all subscriptions, and closes the connection.
    package func close() async {
        isClosed = true
        for member in members.values { member.buffer.finish() }
        members = [:]
        audiences = [:]
        await stopRunner()?.close()
    }

    // MARK: Members

    func add(_ buffer: SubscriptionBuffer, to topics: Set<Topic>) async {
        guard !isClosed, !buffer.isFinished else { return buffer.finish() }
        let id = ObjectIdentifier(buffer)
        var member = Member(buffer: buffer, topics: topics, awaited: topics)
        var news: [Topic] = []
        for topic in topics {
            if audiences[topic] == nil { news.append(topic) }
            audiences[topic, default: Audience()].buffers[id] = buffer
            if audiences[topic]?.isConfirmed == true { member.awaited.remove(topic) }
        }
        members[id] = member
        if member.awaited.isEmpty { buffer.put(.subscribed) }
        if runner == nil {
            generation += 1
            let number = generation
            runner = Task { await self.follow(as: number) }
        }
        await subscribe(news)
    }

    func remove(_ buffer: SubscriptionBuffer) async {
        let id = ObjectIdentifier(buffer)
        guard let member = members.removeValue(forKey: id) else { return }
        var gone: [Topic] = []
        for topic in member.topics {
            audiences[topic]?.buffers[id] = nil
            if audiences[topic]?.buffers.isEmpty ?? false {
                audiences[topic] = nil
                gone.append(topic)
            }
        }
        if members.isEmpty {
            await stopRunner()?.close()
            return
        }
        for (verb, names) in Self.commands(gone, "UNSUBSCRIBE") {
            await live?.post(Command(arguments: [verb] + names))
        }
        // A member that joined during the await may have subscribed before this UNSUBSCRIBE. Subscribe again.
        let back = gone.filter { audiences[$0] != nil }
        for topic in back {
            audiences[topic]?.isConfirmed = false
            for id in audiences[topic]?.buffers.keys ?? [:].keys { members[id]?.awaited.insert(topic) }
        }
        await subscribe(back)
    }

    /// Stops the runner, and returns the connection, which the caller must close. Does not suspend, because a member
    /// may join during any await.
    private func stopRunner() -> Connection? {
        runner?.cancel()
        runner = nil
        reports.forget()
        return live.take()
    }

    // MARK: The connection

    private func follow(as number: Int) async {
        var failures = 0
        var locator = PrimaryLocator(url, name: name)
        while !Task.isCancelled, number == generation {
            do {
                // Any node will do: the nodes of a cluster forward published messages to each other.
                let address = try await locator.find(timeout: .seconds(3))
                let connection = try await Connection.open(address, locator.login, timeout: .seconds(3))
                // Only a confirmed subscription resets the backoff: an ACL may allow the login but forbid the channel.
                let watch = Task { [locator] in await Self.closeIfReplaced(connection, to: address, locator) }
                let (error, wasSubscribed) = await listen(on: connection, as: number)
                watch.cancel()
                if wasSubscribed { failures = 0 }
                await connection.close()
                if number == generation, !Task.isCancelled { interrupt(error) }
            } catch {
                locator.failed(error)
                if number == generation, !Task.isCancelled { interrupt(error) }
            }
            failures += 1
            try? await Task.sleep(for: .milliseconds(Backoff.milliseconds(failures)))
        }
    }

    private func interrupt(_ error: RedisError) {
        reports.lose(error)
        for topic in audiences.keys { audiences[topic]?.isConfirmed = false }
        for (id, member) in members {
            members[id]?.awaited = member.topics
            member.buffer.put(.interrupted(error))
        }
    }

    /// Forwards messages until the connection fails or is silent for too long, or the task is cancelled.
    private func listen(on connection: Connection, as number: Int) async -> (RedisError, wasSubscribed: Bool) {
        guard number == generation, !members.isEmpty else {
            return (RedisError(.closed, "the last subscription has ended"), false)
        }
        (live, outstanding) = (connection, [:])
        // The stream carries only the final error. Messages are buffered in the buffers alone.
        let (ends, end) = AsyncStream<RedisError>.makeStream()
        let reception = Reception()
        let own = ObjectIdentifier(connection)
        await connection.listen { [weak self] reply in
            // `assumeIsolated` is correct: connections and subscribers run on the same thread.
            switch reply {
            case .failure(let error), .success(.error(let error)):
                end.yield(error)
                end.finish()
            case .success(let value):
                self?.assumeIsolated { subscriber in
                    // Ignore an earlier connection, which may still deliver messages.
                    guard let live = subscriber.live, ObjectIdentifier(live) == own else { return }
                    subscriber.receive(value, reception)
                }
            }
        }
        await subscribe(Array(audiences.keys))
        let pinger = Task { await self.ping(connection, reception) }
        defer { pinger.cancel() }
        var reason = RedisError(.closed, "the subscription ended")
        for await error in ends { reason = error }
        if live === connection { live = nil }
        return (reason, reception.wasSubscribed)
    }

    /// What one connection has received so far.
    private final class Reception: @unchecked Sendable {
        /// When the last message arrived. Like `wasSubscribed`, touched on the thread of all connections only.
        var lastArrival = ContinuousClock.now
        var wasSubscribed = false
    }

    /// Pings the server every 15 s, and closes the connection if nothing has arrived for 40 s. This detects a server
    /// that has vanished without closing the connection.
    private func ping(_ connection: Connection, _ reception: Reception) async {
        while !Task.isCancelled {
            try? await Task.sleep(for: .seconds(15))
            if ContinuousClock.now - reception.lastArrival > .seconds(40) { return await connection.close() }
            await connection.post(Command("PING"))
        }
    }

    /// Asks the sentinels every two seconds, and closes the connection once they name another primary. The old one may
    /// still be reachable, but nothing is published there any more.
    private static func closeIfReplaced(
        _ connection: Connection, to server: RedisURL.Address, _ locator: PrimaryLocator
    ) async {
        guard case .sentinel = locator.url.kind else { return }
        while !Task.isCancelled {
            try? await Task.sleep(for: .seconds(2))
            if await locator.isReplaced(server) { return await connection.close() }
        }
    }

    /// Subscribes in batches, so that no single command keeps Redis busy for long.
    private func subscribe(_ topics: [Topic]) async {
        guard let live else { return }
        for (verb, names) in Self.commands(topics, "SUBSCRIBE") {
            for name in names { outstanding[verb == "SUBSCRIBE" ? .channel(name) : .pattern(name), default: 0] += 1 }
            await live.post(Command(arguments: [verb] + names))
        }
    }

    private static func commands(_ topics: [Topic], _ verb: String) -> [(String, [String])] {
        var (channels, patterns): ([String], [String]) = ([], [])
        for topic in topics {
            switch topic {
            case .channel(let name): channels.append(name)
            case .pattern(let name): patterns.append(name)
            }
        }
        let batches = stride(from: 0, to: channels.count, by: 500).map {
            (verb, Array(channels[$0..<min($0 + 500, channels.count)]))
        }
        return batches + (patterns.isEmpty ? [] : [("P" + verb, patterns)])
    }

    // MARK: Messages

    private func receive(_ value: RedisValue, _ reception: Reception) {
        reception.lastArrival = .now
        let parts = value.array ?? []
        switch parts.first?.string {
        case "message" where parts.count == 3:
            let channel = parts[1].string ?? ""
            deliver(.message(channel: channel, payload: parts[2].bytes ?? []), to: .channel(channel))
        case "pmessage" where parts.count == 4:
            let message = Subscription.Element.message(channel: parts[2].string ?? "", payload: parts[3].bytes ?? [])
            deliver(message, to: .pattern(parts[1].string ?? ""))
        case "subscribe" where parts.count == 3:
            reception.wasSubscribed = true
            reports.recover()
            confirm(.channel(parts[1].string ?? ""))
        case "psubscribe" where parts.count == 3:
            reception.wasSubscribed = true
            reports.recover()
            confirm(.pattern(parts[1].string ?? ""))
        default: break
        }
    }

    private func deliver(_ message: Subscription.Element, to topic: Topic) {
        for buffer in audiences[topic]?.buffers.values ?? [:].values { buffer.put(message) }
    }

    private func confirm(_ topic: Topic) {
        let left = (outstanding[topic] ?? 1) - 1
        outstanding[topic] = left > 0 ? left : nil
        guard left <= 0, audiences[topic]?.isConfirmed == false else { return }
        audiences[topic]?.isConfirmed = true
        for id in audiences[topic]?.buffers.keys ?? [:].keys {
            guard members[id]?.awaited.remove(topic) != nil, members[id]?.awaited.isEmpty == true else { continue }
            members[id]?.buffer.put(.subscribed)
        }
    }
}
