import HaulBus
import HaulContract
import HaulHTTPServer
import HaulRedis

/// The JSON API (docs/reference/http-api.md): what can be read, and how it is read from Redis.
struct API: Sendable {
    let configuration: WebConfiguration
    let redis: Redis
    let readers: [String: QueueReaderCache]
    let reads: SharedReads
    let hub: EventHub
    let audit: AuditLog
    /// Streams by their numbers, and lists that streams search again and again, by the keys of their texts.
    let streams: Quota<UInt64>
    let searches = Quota<String>(maxEach: 16)
    /// Searches that requests wait for. Each is a call that examines many jobs.
    let calls = Quota<UInt64>(maxEach: 2, maxViewers: 8)
    /// The number of the next stream.
    let counter = Counter()

    init(_ configuration: WebConfiguration, _ audit: AuditLog) {
        (self.configuration, self.audit) = (configuration, audit)
        // Operators keep a quarter of the streams.
        streams = Quota(
            maxEach: max(1, configuration.limits.streams / 4), maxViewers: configuration.limits.streams * 3 / 4)
        let redis = Redis(configuration.redis, name: "haul-web")
        let queues = configuration.queues.map { Queue($0, redis: redis) }
        self.redis = redis
        reads = SharedReads(redis.traffic)
        readers = Dictionary(uniqueKeysWithValues: queues.map { ($0.name.text, QueueReaderCache($0)) })
        hub = EventHub(queues)
    }

    /// Something that can be read, and that streams send again whenever it has changed.
    struct Resource: Sendable {
        /// Names the text in `SharedReads`. It is the same for all visitors who may see the same text.
        let key: String
        /// Whether each reading searches the jobs of a state.
        var isSearch = false
        /// How old the shared text may be.
        let age: Duration
        let read: @Sendable () async throws -> String
    }

    /// - Parameter isWatched: A stream waits for the text, and reports soon that Redis does not answer.
    func text(of resource: Resource, isWatched: Bool = false) async throws(APIError) -> SharedText {
        do {
            let text = try await reads.text(
                resource.key, within: resource.age, isWatched: isWatched, resource.read)
            audit.redisAnswered()
            return text
        } catch let error as APIError {
            throw error
        } catch let error as RedisError {
            audit.redisFailed(error.message)
            throw APIError(error)
        } catch {
            throw APIError(503, .cancelled, "the request was given up")
        }
    }

    func reader(_ name: String) throws(APIError) -> QueueReaderCache {
        guard let reader = readers[name] else { throw .notFound("the queue \(name)") }
        return reader
    }

    /// The caller's place for one more search, once it has one; nil if it has none in time.
    func searchHold(for caller: Caller, within patience: Duration) async -> Quota<UInt64>.Hold? {
        let end = ContinuousClock.now + patience
        while true {
            if let hold = calls.hold(counter.next(), for: caller) { return hold }
            guard .now < end, (try? await Task.sleep(for: .milliseconds(50))) != nil else { return nil }
        }
    }

    /// The resource at `path`, which is the part behind `/api`; nil if there is none.
    ///
    /// - Parameter isWatched: True if a stream reads the resource again and again, so that each read must be cheap.
    func resource(
        _ path: [String], _ query: Query, _ caller: Caller, isWatched: Bool = false
    ) throws(APIError) -> Resource? {
        guard path.first == "queues" else { return nil }
        if path.count == 1 {
            let all = configuration.queues.compactMap { readers[$0.text] }
            return Resource(key: "queues", age: .seconds(2)) {
                var texts: [String] = []
                for reader in all { texts.append(try await reader.summary()) }
                return #"{"queues":[\#(texts.joined(separator: ","))]}"#
            }
        }
        let reader = try reader(path[1])
        let key = path.joined(separator: "/")
        if path.count == 2 { return Resource(key: key, age: .milliseconds(900)) { try await reader.overview() } }
        switch (path[2], path.count) {
        case ("jobs", 3): return try list(reader, key, query, isWatched ? .watch : .search)
        case ("jobs", 4):
            let id = path[3]
            guard JobField.isID(id) else { throw .notFound("a job of such an id") }
            let isOperator = caller.role == .operator
            let searchesWaiting = try query.flag("line")
            guard !searchesWaiting || !isWatched else {
                throw APIError(400, .badRequest, "a stream cannot search the waiting jobs: watch the job without line")
            }
            return Resource(
                key: "\(key) \(isOperator) \(searchesWaiting)", isSearch: searchesWaiting, age: .milliseconds(400)
            ) {
                try await Self.job(id, of: reader, isOperator: isOperator, searchesElements: searchesWaiting)
            }
        case ("jobs", 5) where path[4] == "events":
            let id = path[3]
            guard JobField.isID(id) else { throw .notFound("a job of such an id") }
            guard !isWatched else {
                throw APIError(
                    400, .badRequest, "a stream cannot watch kept events: read them with a request of their own")
            }
            let isOperator = caller.role == .operator
            return Resource(key: "\(key) \(isOperator)", isSearch: true, age: .seconds(2)) {
                // Without a record nothing says since when the job was known.
                let created = try await reader.queue.job(id)?.integer("created") ?? 0
                let (events, hasMore) = try await reader.queue.newestLoggedEvents(of: id, since: created)
                let texts = events.compactMap { event in
                    (try? JSON(event.text)).map { isOperator ? JSON.onOneLine(event.text) : Event.withoutResponse($0) }
                }
                return #"{"events":[\#(texts.joined(separator: ","))]\#(hasMore ? #","more":true"# : "")}"#
            }
        case ("history", 3): return try history(reader, key, query)
        case ("settings", 3):
            let isOperator = caller.role == .operator
            return Resource(key: "\(key) \(isOperator)", age: .milliseconds(900)) {
                try await SettingsJSON.text(of: reader.queue, isOperator: isOperator)
            }
        case ("batches", 3):
            let start = Int(try query.integer("from", in: 0...100_000_000, else: 0))
            let limit = Int(try query.integer("limit", in: 1...500, else: 100))
            return Resource(key: "\(key) \(start) \(limit)", age: .milliseconds(900)) {
                try await reader.batches(from: start, limit: limit)
            }
        case ("batches", 4):
            let name = path[3]
            guard JobField.isID(name) else { throw .notFound("a batch of such a name") }
            return Resource(key: key, age: .milliseconds(400)) {
                guard let text = try await reader.batch(name) else { throw APIError.notFound("the batch \(name)") }
                return text
            }
        case ("schedules", 3):
            return Resource(key: key, age: .milliseconds(900)) {
                #"{"schedules":[\#(try await reader.queue.schedules().map(\.json).joined(separator: ","))]}"#
            }
        case ("hosts", 3): return Resource(key: key, age: .milliseconds(1900)) { try await reader.hosts() }
        case ("facets", 3):
            let state = try state(of: query)
            return Resource(key: "\(key) \(state.rawValue)", age: .milliseconds(1900)) {
                try await reader.facets(state)
            }
        case ("workers", 3): return Resource(key: key, age: .milliseconds(900)) { try await reader.workers() }
        case ("changes", 3):
            let limit = Int(try query.integer("limit", in: 1...1000, else: 100))
            return Resource(key: "\(key) \(limit)", age: .milliseconds(900)) {
                let changes = try await reader.queue.changes(limit: limit).map(\.json)
                return #"{"changes":[\#(changes.joined(separator: ","))]}"#
            }
        case ("rejected", 3):
            let isOperator = caller.role == .operator
            let limit = Int(try query.integer("limit", in: 1...1000, else: 100))
            return Resource(key: "\(key) \(isOperator) \(limit)", age: .milliseconds(900)) {
                try await reader.rejected(limit: limit, withElements: isOperator)
            }
        default: return nil
        }
    }

    private func history(_ reader: QueueReaderCache, _ key: String, _ query: Query) throws(APIError) -> Resource {
        let minutes = Int(try query.integer("minutes", in: 1...Int64(Queue.historyHours) * 60, else: 60))
        let step = Int(try query.integer("step", in: 1...60, else: 1))
        return Resource(key: "\(key) \(minutes) \(step)", age: .seconds(4)) {
            try await reader.history(minutes: minutes, step: step)
        }
    }

    private func state(of query: Query) throws(APIError) -> JobState {
        guard let state = JobState(rawValue: query["state"] ?? "running") else {
            let states = JobState.allCases.map(\.rawValue).joined(separator: ", ")
            throw APIError(400, .badRequest, "state must be one of \(states)")
        }
        return state
    }

    private func list(
        _ reader: QueueReaderCache, _ key: String, _ query: Query, _ reach: QueueReaderCache.Reach
    ) throws(APIError) -> Resource {
        let state = try state(of: query)
        let filter = try JobFilter(query)
        if let problem = filter.problem { throw APIError(400, .badRequest, problem) }
        let start = Int(try query.integer("from", in: 0...100_000_000, else: 0))
        let limit = Int(try query.integer("limit", in: 1...500, else: 100))
        let order = try order(of: query)
        let isReversed = try query.flag("reverse")
        if !filter.url.isEmpty {
            // The few jobs of a URL are read one by one, and not from an index. Without an order they follow their ids.
            let only = query["state"] == nil ? nil : state
            // A watched list is read once a second: too often for a search through all waiting elements.
            let isSearch = reach.limit == QueueReaderCache.Reach.search.limit
            let parts = [
                "\(isSearch)", key, only?.rawValue ?? "", "\(start)", "\(limit)", filter.description, filter.url,
                order?.rawValue ?? "", "\(isReversed)",
            ]
            return Resource(key: parts.joined(separator: "\u{0}"), isSearch: true, age: .milliseconds(900)) {
                try await reader.list(
                    filter, in: only, by: order, isReversed: isReversed, from: start, limit: limit,
                    searchesWaiting: isSearch)
            }
        }
        let key = [
            key, state.rawValue, "\(start)", "\(limit)", "\(reach.limit)", filter.text, filter.host, filter.error,
            filter.worker, filter.batch, filter.group, filter.kind, filter.waiting, filter.retryable, "\(filter.older)",
            order?.rawValue ?? "", "\(isReversed)",
        ].joined(separator: "\u{0}")
        if let order, order != .age || state == .running {
            return Resource(key: key, isSearch: true, age: .milliseconds(1900)) {
                try await reader.list(state, filter, by: order, isReversed: isReversed, from: start, limit: limit)
            }
        }
        // The indexes of Redis have the order of ages, most of them with the newest job first.
        let isBackwards = (order == .age && [.paused, .completed, .failed, .cancelled].contains(state)) != isReversed
        return Resource(key: key, isSearch: !filter.isEmpty, age: .milliseconds(900)) {
            try await reader.list(state, filter, from: start, limit: limit, reach, isReversed: isBackwards)
        }
    }

    private func order(of query: Query) throws(APIError) -> JobOrder? {
        guard let name = query["sort"] else { return nil }
        guard let order = JobOrder(rawValue: name) else {
            let names = JobOrder.allCases.map(\.rawValue).joined(separator: ", ")
            throw APIError(400, .badRequest, "sort must be one of \(names), not \(JSON.quoted(name))")
        }
        return order
    }

    private static func job(
        _ id: String, of reader: QueueReaderCache, isOperator: Bool, searchesElements: Bool
    ) async throws -> String {
        let queue = reader.queue
        if let record = try await queue.job(id) {
            return try await reader.current(record).json(showsResponse: isOperator)
        }
        if searchesElements {
            if let job = try await queue.waiting(for: id) { return JobRecord(unclaimed: id, job).json() }
            // A worker may have taken the job in the meantime.
            if let record = try await queue.job(id) {
                return try await reader.current(record).json(showsResponse: isOperator)
            }
        }
        throw APIError.unknownJob(id)
    }
}
