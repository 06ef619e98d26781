/// One connection for any number of subscriptions. It is there while somebody is subscribed, and built anew after every failure.
///
/// It has many properties: what the members want, what the server has confirmed, and the connection between the two. A member
/// who leaves changes all three at once.
package actor Subscriber {
    /// What is subscribed to.
    enum Topic: Hashable, Sendable {
        case channel(String)
        case pattern(String)
    }

    /// Who wants a topic, and what the server knows of that.
    private struct Audience {
        var mailboxes: [ObjectIdentifier: Mailbox] = [:]
        var isConfirmed = false
    }

    /// One mailbox, and what it still waits for before all of its topics are subscribed to.
    private struct Member {
        let mailbox: Mailbox
        let topics: Set<Topic>
        var awaited: Set<Topic>
    }

    package nonisolated var unownedExecutor: UnownedSerialExecutor { Connection.loop.asUnownedSerialExecutor() }

    private let url: RedisURL
    private let name: String
    private var members: [ObjectIdentifier: Member] = [:]
    private var audiences: [Topic: Audience] = [:]
    /// Subscriptions that the server has not confirmed yet. Only the last one of a topic counts: others were taken back.
    private var outstanding: [Topic: Int] = [:]
    /// The connection that listens.
    private var live: Connection?
    private var runner: Task<Void, Never>?
    /// Which run of the runner counts: one that was cancelled may still have to end.
    private var generation = 0
    private var isClosed = false

    /// `name` is what CLIENT LIST shows.
    package init(_ url: RedisURL, name: String) { (self.url, self.name) = (url, name) }

    /// Ends all subscriptions, and the connection.
    package func close() async {
        isClosed = true
        for member in members.values { member.mailbox.finish() }
        members = [:]
        audiences = [:]
        await rest()?.close()
    }

    // MARK: Members

    func add(_ mailbox: Mailbox, to topics: Set<Topic>) async {
        guard !isClosed, !mailbox.isFinished else { return mailbox.finish() }
        let id = ObjectIdentifier(mailbox)
        var member = Member(mailbox: mailbox, topics: topics, awaited: topics)
        var news: [Topic] = []
        for topic in topics {
            if audiences[topic] == nil { news.append(topic) }
            audiences[topic, default: Audience()].mailboxes[id] = mailbox
            if audiences[topic]?.isConfirmed == true { member.awaited.remove(topic) }
        }
        members[id] = member
        if member.awaited.isEmpty { mailbox.put(.subscribed) }
        if runner == nil {
            generation += 1
            let number = generation
            runner = Task { await self.follow(as: number) }
        }
        await subscribe(news)
    }

    func remove(_ mailbox: Mailbox) async {
        let id = ObjectIdentifier(mailbox)
        guard let member = members.removeValue(forKey: id) else { return }
        var gone: [Topic] = []
        for topic in member.topics {
            audiences[topic]?.mailboxes[id] = nil
            if audiences[topic]?.mailboxes.isEmpty ?? false {
                audiences[topic] = nil
                gone.append(topic)
            }
        }
        if members.isEmpty {
            await rest()?.close()
            return
        }
        for (verb, names) in Self.commands(gone, "UNSUBSCRIBE") {
            await live?.tell(Command(arguments: [verb] + names))
        }
        // Who came meanwhile may have been subscribed before that, and is so no more.
        let back = gone.filter { audiences[$0] != nil }
        for topic in back {
            audiences[topic]?.isConfirmed = false
            for id in audiences[topic]?.mailboxes.keys ?? [:].keys { members[id]?.awaited.insert(topic) }
        }
        await subscribe(back)
    }

    /// Nobody is subscribed. Returns the connection, which is to be closed. It is done in one go: somebody may come at each await.
    private func rest() -> Connection? {
        runner?.cancel()
        runner = nil
        return live.take()
    }

    // MARK: The connection

    private func follow(as number: Int) async {
        var failures = 0
        var locator = Locator(url, name: name)
        while !Task.isCancelled, number == generation {
            do {
                // Any node of a cluster passes on what is published on any other.
                let address = try await locator.find(timeout: .seconds(3))
                let connection = try await Connection.open(address, locator.login, timeout: .seconds(3))
                // Not before it is subscribed: an ACL may let us in and forbid the channel.
                let (error, wasSubscribed) = await listen(on: connection, as: number)
                if wasSubscribed { failures = 0 }
                await connection.close()
                if number == generation, !Task.isCancelled { interrupt(error) }
            } catch {
                locator.failed()
                if number == generation, !Task.isCancelled { interrupt(error) }
            }
            failures += 1
            try? await Task.sleep(for: .milliseconds(Backoff.milliseconds(failures)))
        }
    }

    private func interrupt(_ error: RedisError) {
        for topic in audiences.keys { audiences[topic]?.isConfirmed = false }
        for (id, member) in members {
            members[id]?.awaited = member.topics
            member.mailbox.put(.interrupted(error))
        }
    }

    /// Passes messages on until the connection fails, is silent for too long, or the task is cancelled.
    private func listen(on connection: Connection, as number: Int) async -> (RedisError, wasSubscribed: Bool) {
        guard number == generation, !members.isEmpty else {
            return (RedisError(.closed, "nobody is subscribed any more"), false)
        }
        (live, outstanding) = (connection, [:])
        // Nothing is handed on while the end is awaited but the error: no message waits anywhere but in the mailboxes.
        let (ends, end) = AsyncStream<RedisError>.makeStream()
        let ear = Ear()
        let own = ObjectIdentifier(connection)
        await connection.listen { [weak self] reply in
            // Connections and subscribers share one thread.
            switch reply {
            case .failure(let error), .success(.error(let error)):
                end.yield(error)
                end.finish()
            case .success(let value):
                self?.assumeIsolated { subscriber in
                    // One that was left may still have something to say.
                    guard let live = subscriber.live, ObjectIdentifier(live) == own else { return }
                    subscriber.receive(value, ear)
                }
            }
        }
        await subscribe(Array(audiences.keys))
        let pinger = Task { await self.keepAwake(connection, ear) }
        defer { pinger.cancel() }
        var reason = RedisError(.closed, "the subscription ended")
        for await error in ends { reason = error }
        if live === connection { live = nil }
        return (reason, ear.wasSubscribed)
    }

    /// What is known of one connection.
    private final class Ear: @unchecked Sendable {
        /// Only touched on the thread of all connections.
        var heard = ContinuousClock.now
        var wasSubscribed = false
    }

    /// A peer that is gone without a word is noticed by its silence.
    private func keepAwake(_ connection: Connection, _ ear: Ear) async {
        while !Task.isCancelled {
            try? await Task.sleep(for: .seconds(15))
            if ContinuousClock.now - ear.heard > .seconds(40) { return await connection.close() }
            await connection.tell(Command("PING"))
        }
    }

    /// In batches, so that no single command keeps Redis for long.
    private func subscribe(_ topics: [Topic]) async {
        guard let live else { return }
        for (verb, names) in Self.commands(topics, "SUBSCRIBE") {
            for name in names { outstanding[verb == "SUBSCRIBE" ? .channel(name) : .pattern(name), default: 0] += 1 }
            await live.tell(Command(arguments: [verb] + names))
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

    private func receive(_ value: RedisValue, _ ear: Ear) {
        ear.heard = .now
        let parts = value.array ?? []
        switch parts.first?.string {
        case "message" where parts.count == 3:
            let channel = parts[1].string ?? ""
            hand(.message(channel: channel, payload: parts[2].bytes ?? []), to: .channel(channel))
        case "pmessage" where parts.count == 4:
            let message = Subscription.Element.message(channel: parts[2].string ?? "", payload: parts[3].bytes ?? [])
            hand(message, to: .pattern(parts[1].string ?? ""))
        case "subscribe" where parts.count == 3:
            ear.wasSubscribed = true
            confirm(.channel(parts[1].string ?? ""))
        case "psubscribe" where parts.count == 3:
            ear.wasSubscribed = true
            confirm(.pattern(parts[1].string ?? ""))
        default: break
        }
    }

    private func hand(_ message: Subscription.Element, to topic: Topic) {
        for mailbox in audiences[topic]?.mailboxes.values ?? [:].values { mailbox.put(message) }
    }

    private func confirm(_ topic: Topic) {
        let left = (outstanding[topic] ?? 1) - 1
        outstanding[topic] = left > 0 ? left : nil
        guard left <= 0, audiences[topic]?.isConfirmed == false else { return }
        audiences[topic]?.isConfirmed = true
        for id in audiences[topic]?.mailboxes.keys ?? [:].keys {
            guard members[id]?.awaited.remove(topic) != nil, members[id]?.awaited.isEmpty == true else { continue }
            members[id]?.mailbox.put(.subscribed)
        }
    }
}
