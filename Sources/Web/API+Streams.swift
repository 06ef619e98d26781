import HaulBus
import HaulContract
import HaulHTTPServer
import HaulRedis

// Streams of server-sent events, for the EventSource of browsers.

extension API {
    /// The interval in which a stream looks for changes.
    private static let pace: Duration = .milliseconds(250)
    private static let maxWatches = 6

    /// A stream of resources, each of which is sent whenever it has changed. Each `watch` is a resource's path with its
    /// query. `events` is `QUEUE/ID`: the events of this job are sent as well.
    func live(_ query: Query, _ caller: Caller) throws(APIError) -> ServerResponse {
        var resources: [(name: String, resource: Resource)] = []
        for (name, value) in query.pairs where name == "watch" {
            let parts = value.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
            let path = (parts.first ?? "").split(separator: "/").map { Query.segment($0) ?? "" }
            let query = try Query(parts.count > 1 ? parts[1] : "", of: Self.parameters(of: path))
            guard let resource = try resource(path, query, caller, isWatched: true) else {
                throw APIError(400, .badRequest, "nothing that can be watched is at \(value)")
            }
            resources.append((value, resource))
        }
        guard resources.count <= Self.maxWatches else {
            throw APIError(400, .badRequest, "at most \(Self.maxWatches) resources are watched by one stream")
        }
        var topic: EventHub.Topic?
        if let text = query["events"] {
            let parts = text.split(separator: "/", maxSplits: 1).map(String.init)
            guard parts.count == 2, JobField.isID(parts[1]) else {
                throw APIError(400, .badRequest, "events must be QUEUE/ID")
            }
            topic = EventHub.Topic(queue: try reader(parts[0]).queue.name.text, id: parts[1])
        }
        var holds: [Quota<String>.Hold] = []
        for (_, resource) in resources where resource.isSearch {
            guard let hold = searches.hold(resource.key, for: caller) else {
                throw APIError(
                    429, .tooMany, "too many different searches are watched: close another page with a filter")
            }
            holds.append(hold)
        }
        return try stream(topic, caller) { [resources, holds] content, memory, send in
            defer { withExtendedLifetime(holds) {} }
            try await sendChanges(resources, &memory, send)
            try await send(Self.text(of: content, as: "event", caller))
        }
    }

    /// The events of one job, or of all jobs of a queue, as they are published.
    ///
    /// - Parameter last: The field Last-Event-ID: the time of the last event that the client has. What came after it is
    ///   sent first, from the queue's stream.
    func events(
        _ queue: String, _ query: Query, _ caller: Caller, after last: String? = nil
    ) throws(APIError) -> ServerResponse {
        let id = query["id"]
        guard id.map(JobField.isID) ?? true else { throw APIError(400, .badRequest, "id must be a job's id") }
        let reader = try reader(queue)
        let topic = EventHub.Topic(queue: reader.queue.name.text, id: id)
        let time = try last.map { text throws(APIError) in
            guard text.utf8.count <= 15, let time = Int64(text), time >= 0 else {
                throw APIError(400, .badRequest, "Last-Event-ID must be the id of an event of this stream")
            }
            return time
        }
        return try stream(topic, caller) { content, memory, send in
            // Once the subscription is active, no event is missed between the replay and it. Some may come twice.
            if let time, content.isOpened, !memory.isReplayed {
                memory.isReplayed = true
                try await replay(reader.queue, id, after: time, caller, send)
            }
            try await send(Self.text(of: content, as: nil, caller))
        }
    }

    /// How many kept events a client that comes back gets at most.
    private static let maxReplayed = 10_000

    /// How far apart the events of two partitions may arrive that have the same time, in ms. Each partition has the clock
    /// and the subscription of its own server.
    private static let spread: Int64 = 2000

    /// How long a replay waits for other searches of its caller.
    private static let patience: Duration = .seconds(10)

    /// Sends the events that the queue's stream has kept since a time (unix ms), those of that millisecond once more, and
    /// of partitions those of `spread` before it. A client that may have missed some gets `gap`. Each read is a search, but
    /// not the wait for the client: without a place for one, or if the stream cannot be read, nothing more is sent but
    /// `gap`, after which the client reads what it needs.
    private func replay(
        _ queue: Queue, _ id: String?, after time: Int64, _ caller: Caller, _ send: Send
    ) async throws {
        var isWhole = (try? await queue.oldestLoggedEvent()).map { $0 <= time } ?? false
        // The time is that of an event that the client has. If the stream does not have it, a failover has lost it, and
        // perhaps later ones.
        var isLastThere = false
        let start = queue.partitions.isEmpty ? time : max(0, time - Self.spread)
        var (reader, count) = (EventLogReader(queue, from: "\(start)"), 0)
        while true {
            let hold = await searchHold(for: caller, within: Self.patience)
            guard hold != nil else {
                isWhole = false
                break
            }
            let events: [LoggedEvent]
            do throws(RedisError) { events = try await reader.next() } catch {
                isWhole = false
                break
            }
            withExtendedLifetime(hold) {}
            if events.isEmpty { break }
            isLastThere = isLastThere || events.contains { $0.time == time }
            var content = ListenerBuffer.Content()
            content.events = events.filter { id == nil || $0.id == id }.map(\.text)
            try await send(Self.text(of: content, as: nil, caller))
            count += events.count
            guard count < Self.maxReplayed else {
                isWhole = false
                break
            }
        }
        if !isWhole || !isLastThere || reader.hasGap { try await send("event: gap\ndata: {}\n\n") }
    }

    /// Sends a text to the client of a stream; ignores an empty one.
    private typealias Send = (String) async throws -> Void

    /// What a stream has sent. It keeps no texts, which may have megabytes.
    private struct Memory {
        enum Sent: Equatable { case text(SharedText.Version), failure(String) }
        /// By the names of the resources.
        var sent: [String: Sent] = [:]
        /// Whether the events that the client has missed were sent.
        var isReplayed = false
    }

    /// A stream that calls `piece` in each interval, with the events that have come and a memory of what it has sent.
    private func stream(
        _ topic: EventHub.Topic?, _ caller: Caller,
        _ piece: @escaping @Sendable (ListenerBuffer.Content, inout Memory, Send) async throws -> Void
    ) throws(APIError) -> ServerResponse {
        guard let hold = streams.hold(counter.next(), for: caller) else {
            throw APIError(
                429, .tooMany, "too many streams are open: close another page, or try again in some seconds")
        }
        return ServerResponse(
            200,
            fields: [
                ("Content-Type", "text/event-stream"), ("Cache-Control", "no-store"), ("X-Accel-Buffering", "no"),
            ],
            body: .stream { [hub, hold] writer in
                defer { withExtendedLifetime(hold) {} }
                var memory = Memory()
                var spoken = ContinuousClock.now
                var buffer: ListenerBuffer?
                do {
                    // Listening begins only now, when the stream runs, so that it certainly ends with `leave`.
                    if let topic { buffer = try await hub.listen(to: topic, for: caller) }
                    try await writer.send("retry: 1000\n\n")
                    while !Task.isCancelled {
                        let begun = ContinuousClock.now
                        try await piece(buffer?.take() ?? ListenerBuffer.Content(), &memory) { text in
                            guard !text.isEmpty else { return }
                            try await writer.send(text)
                            spoken = .now
                        }
                        if spoken + .seconds(5) < .now {
                            // A client that receives nothing for longer takes the connection for lost.
                            try await writer.send("event: alive\ndata: {}\n\n")
                            spoken = .now
                        }
                        try await Task.sleep(until: begun + Self.pace, clock: .continuous)
                    }
                } catch let error as APIError {
                    try? await writer.send("event: failure\ndata: \(error.json())\n\n")
                } catch {}
                if let topic, let buffer { await hub.leave(topic, buffer) }
            })
    }

    /// Sends an event for each resource that has changed, as soon as the resource is read. Mostly another stream has read
    /// all of them within their ages, so only the others cost a task.
    private func sendChanges(
        _ resources: [(name: String, resource: Resource)], _ memory: inout Memory, _ send: Send
    ) async throws {
        let known = await reads.known(resources.map { ($0.resource.key, $0.resource.age) })
        for (watched, text) in zip(resources, known) {
            guard let text else { continue }
            try await News(name: watched.name, result: .success(text)).sendUnlessSent(&memory, send)
        }
        try await withThrowingTaskGroup(of: News.self) { group in
            for (watched, text) in zip(resources, known) where text == nil {
                group.addTask { await news(of: watched.resource, as: watched.name) }
            }
            for try await news in group { try await news.sendUnlessSent(&memory, send) }
        }
    }

    /// The present state of a resource.
    private struct News {
        let name: String
        let result: Result<SharedText, APIError>

        func sendUnlessSent(_ memory: inout Memory, _ send: Send) async throws {
            let mark = mark
            guard memory.sent[name] != mark else { return }
            memory.sent[name] = mark
            try await send(text)
        }

        private var mark: Memory.Sent {
            switch result {
            case .success(let shared): .text(shared.version)
            case .failure(let error): .failure(error.json())
            }
        }

        private var text: String {
            switch result {
            case .success(let shared):
                "event: change\ndata: {\"watch\":\(JSON.quoted(name)),\"data\":\(shared.text)}\n\n"
            case .failure(let error): "event: failure\ndata: \(error.json(watch: name))\n\n"
            }
        }
    }

    private func news(of resource: Resource, as name: String) async -> News {
        do throws(APIError) {
            return News(name: name, result: .success(try await text(of: resource, isWatched: true)))
        } catch { return News(name: name, result: .failure(error)) }
    }

    private static func text(of content: ListenerBuffer.Content, as name: String?, _ caller: Caller) -> String {
        var text = ""
        if content.hasGap { text += "event: gap\ndata: {}\n\n" }
        if content.isOpened { text += "event: subscribed\ndata: {}\n\n" }
        for event in content.events {
            // Texts that are not JSON are dropped.
            guard let json = try? JSON(event) else { continue }
            let line = JSON.onOneLine(caller.role == .operator ? event : Event.withoutResponse(json))
            // A browser sends the last id when it comes back. Events of all jobs have no other number in common.
            // No stream keeps `progress`, so it has no number.
            let isNumbered = name == nil && json["event"]?.string != Event.Kind.progress.rawValue
            let number = isNumbered ? json["at"]?.integer.map { "id: \($0)\n" } ?? "" : ""
            text += (name.map { "event: \($0)\n" } ?? "") + number + "data: \(line)\n\n"
        }
        return text
    }
}
