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
        return try stream(topic, caller) { [resources, holds] buffer, memory, send in
            defer { withExtendedLifetime(holds) {} }
            try await sendChanges(resources, &memory, send)
            var text = ""
            for item in buffer?.take().items ?? [] {
                switch item {
                case .event(let event): text += Message(event, as: "event", caller)?.text ?? ""
                case .opened:
                    text += (memory.isOpened ? Self.gap : "") + Self.subscribed(at: nil)
                    memory.isOpened = true
                case .dropped: text += Self.gap
                }
            }
            try await send(text)
        }
    }

    /// The events of one job or batch, or of all jobs of a queue, as they are published.
    ///
    /// - Parameter last: The field Last-Event-ID: the last id that the client has received. What came after it is sent
    ///   first, from the queue's stream.
    func events(
        _ queue: String, _ query: Query, _ caller: Caller, after last: String? = nil
    ) throws(APIError) -> ServerResponse {
        let id = query["id"]
        guard id.map({ JobField.isID($0.hasPrefix("batch/") ? String($0.dropFirst(6)) : $0) }) ?? true else {
            throw APIError(400, .badRequest, "id must be a job's id, or batch/ and the name of a batch")
        }
        let queue = try reader(queue).queue
        let topic = EventHub.Topic(queue: queue.name.text, id: id)
        var start: EventPosition?
        if let last {
            guard let position = EventPosition(last, streams: queue.parts.count) else {
                throw APIError(400, .badRequest, "Last-Event-ID must be an id of this stream")
            }
            start = position
        }
        return try stream(
            topic, caller,
            { buffer, memory, send in
                guard let buffer else { return }
                try await sendEvents(of: queue, id, from: buffer, caller, &memory, send)
            },
            prepare: { [start] memory in
                memory.isBack = start != nil
                memory.position = start
                guard start == nil else { return }
                // It is read before the stream listens. So a client that comes back with it misses nothing in between.
                memory.position = try? await EventPosition.end(of: queue)
            })
    }

    /// Sends the events that have come. Where some are missing, they are read from the queue's stream. Once the
    /// subscription is active, it misses no event that comes after that.
    private func sendEvents(
        of queue: Queue, _ id: String?, from buffer: ListenerBuffer, _ caller: Caller, _ memory: inout Memory,
        _ send: Send
    ) async throws {
        // Whether the rest of what has come was read from the queue's stream.
        var (text, isCovered) = ("", false)
        for item in buffer.take().items where !isCovered {
            if case .event(let event) = item {
                guard let message = Message(event, as: nil, caller), memory.sentEvents.insert(published: message.key)
                else { continue }
                text += message.text
                if let time = message.time { memory.position = .time(time) }
                continue
            }
            if memory.isOpened || memory.isBack {
                // What came before those that are missing is sent before them.
                try await send(text)
                let refill = try await refill(of: queue, id, from: buffer, caller, &memory, send)
                text = refill.hasGap ? Self.gap : ""
                isCovered = refill.isCurrent
            }
            guard item == .opened else { continue }
            text += Self.subscribed(at: memory.position)
            (memory.isOpened, memory.isBack) = (true, false)
        }
        try await send(text)
    }

    /// How long a client waits for a place for a search before it is sent something, and for how long a read is tried
    /// again that fails.
    private static let patience: (search: Duration, read: Duration) = (.seconds(4), .seconds(10))

    /// Sends all events that the queue has kept since the client's position.
    ///
    /// - Returns: Whether some may be missing, and whether all were read that had come when this was called. They were not
    ///   if the queue keeps none now, or if the stream cannot be read.
    private func refill(
        of queue: Queue, _ id: String?, from buffer: ListenerBuffer, _ caller: Caller, _ memory: inout Memory,
        _ send: Send
    ) async throws -> (hasGap: Bool, isCurrent: Bool) {
        var (hasGap, spoken) = (false, ContinuousClock.now)
        while true {
            guard let start = memory.position else { return (true, false) }
            var replay = EventReplay(queue, after: start)
            while true {
                guard let events = try await read(&replay, caller, send) else { return (true, false) }
                guard let last = events.last else { break }
                var text = ""
                for event in events where id == nil || event.id == id {
                    guard let message = Message(event.text, as: nil, caller),
                        memory.sentEvents.insert(kept: message.key)
                    else { continue }
                    text += message.text
                }
                // A search for one job may find nothing for a while.
                if text.isEmpty, spoken + .seconds(5) < .now { text = Self.alive }
                if !text.isEmpty { spoken = .now }
                try await send(text)
                memory.position = .time(last.time)
            }
            memory.position = replay.end
            hasGap = hasGap || replay.hasGap
            guard replay.isKeeping else { return (hasGap, false) }
            guard replay.pages > 1 else { return (hasGap, true) }
            // That took some time. What has come meanwhile is read from the stream as well, which has all of it.
            _ = buffer.take()
        }
    }

    /// Reads the next kept events. Each read is a search, for which the client waits, but not the time that the client
    /// takes for them. nil if they cannot be read.
    private func read(
        _ replay: inout EventReplay, _ caller: Caller, _ send: Send
    ) async throws -> [LoggedEvent]? {
        let end = ContinuousClock.now + Self.patience.read
        while true {
            guard let hold = await searchHold(for: caller, within: Self.patience.search) else {
                try Task.checkCancellation()
                try await send(Self.alive)
                continue
            }
            do throws(RedisError) {
                defer { withExtendedLifetime(hold) {} }
                return try await replay.next()
            } catch {
                guard error.isTransient, .now < end else { return nil }
            }
            try await Task.sleep(for: .milliseconds(250))
        }
    }

    /// Sends a text to the client of a stream; ignores an empty one.
    private typealias Send = (String) async throws -> Void

    /// What a stream has sent. It keeps no texts, which may have megabytes.
    private struct Memory {
        enum Sent: Equatable { case text(SharedText.Version), failure(String) }
        /// By the names of the resources.
        var sent: [String: Sent] = [:]
        /// Whether `subscribed` was sent.
        var isOpened = false
        /// Whether the client has come back, and what it has missed was not sent yet.
        var isBack = false
        /// Up to where the client has the events; nil if that is not known.
        var position: EventPosition?
        var sentEvents = SentEvents()
    }

    /// A stream that calls `piece` in each interval, with the buffer of its events and a memory of what it has sent.
    ///
    /// - Parameter prepare: Called before the stream listens.
    private func stream(
        _ topic: EventHub.Topic?, _ caller: Caller,
        _ piece: @escaping @Sendable (ListenerBuffer?, inout Memory, Send) async throws -> Void,
        prepare: @escaping @Sendable (inout Memory) async -> Void = { _ in }
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
                    await prepare(&memory)
                    // Listening begins only now, when the stream runs, so that it certainly ends with `leave`.
                    if let topic { buffer = try await hub.listen(to: topic, for: caller) }
                    try await writer.send("retry: 1000\n\n")
                    while !Task.isCancelled {
                        let begun = ContinuousClock.now
                        try await piece(buffer, &memory) { text in
                            guard !text.isEmpty else { return }
                            try await writer.send(text)
                            spoken = .now
                        }
                        if spoken + .seconds(5) < .now {
                            // A client that receives nothing for longer takes the connection for lost.
                            try await writer.send(Self.alive)
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

    private static let gap = "event: gap\ndata: {}\n\n"
    private static let alive = "event: alive\ndata: {}\n\n"

    private static func subscribed(at position: EventPosition?) -> String {
        "event: subscribed\n" + (position.map { "id: \($0.text)\n" } ?? "") + "data: {}\n\n"
    }

    /// An event as a stream sends it.
    private struct Message {
        let text: String
        /// Names the event in `SentEvents`.
        let key: Int
        /// Its id in the stream. A browser sends the last id when it comes back. Events of all jobs have no other number
        /// in common. No stream keeps `progress`, so it has no number.
        let time: Int64?

        /// Makes nothing of a text that is not JSON.
        init?(_ event: String, as name: String?, _ caller: Caller) {
            guard let json = try? JSON(event) else { return nil }
            let line = JSON.onOneLine(caller.role == .operator ? event : Event.withoutResponse(json))
            let isNumbered = name == nil && json["event"]?.string != Event.Kind.progress.rawValue
            time = isNumbered ? json["at"]?.integer : nil
            text = (name.map { "event: \($0)\n" } ?? "") + (time.map { "id: \($0)\n" } ?? "") + "data: \(line)\n\n"
            key = SentEvents.key(json, event)
        }
    }
}
