import HaulContract
package import HaulRedis

/// Who changed what: an entry of the list `changes`. The page, aria2's RPC and the command write one for each change.
/// Whoever writes into `want` or `settings` with redis-cli, or with a client library, leaves none.
package struct ChangeRecord: Sendable {
    package enum Origin: String, CaseIterable, Sendable { case page, aria2, command }

    /// The members of its JSON.
    package static let members: [JSONMember] = [
        JSONMember(
            "at", .integer, "Unix milliseconds by Redis' clock; of jobs, the timestamp of their control operation.",
            isAlways: true),
        JSONMember("by", .text, "The user, or the address of a visitor who did not sign in.", isAlways: true),
        JSONMember("via", .choice(Origin.allCases.map(\.rawValue)), "What the user used.", isAlways: true),
        JSONMember("action", .text, "What was requested, like pause, cancel or set.", isAlways: true),
        JSONMember("jobs", .integer, "How many jobs were selected."),
        JSONMember("ids", .names, "The first ten of them."),
        JSONMember("batch", .id, "The batch that was selected."),
        JSONMember("schedule", .id, "The schedule that was selected."),
        JSONMember("where", .text, "The filter that selected the jobs."),
        JSONMember("settings", .text, "Settings and their values, with blanks between them."),
    ]
    /// Older entries are removed.
    static let maxCount = 1000

    package var at: Int64?
    package var by: String
    package var via: Origin
    package var action: String
    package var jobs: Int?
    package var ids: [String] = []
    package var batch: String?
    package var schedule: String?
    package var filter: String?
    package var settings: String?

    package init(_ action: String, by: String, via: Origin) { (self.action, self.by, self.via) = (action, by, via) }

    /// Selects jobs; the record names the first ten of them.
    package mutating func select(_ ids: [String]) {
        jobs = ids.count
        self.ids = Array(ids.prefix(10))
    }

    package init?(_ text: String) {
        guard let json = try? JSON(text), let by = json["by"]?.string, let action = json["action"]?.string,
            let via = json["via"]?.string.flatMap(Origin.init)
        else { return nil }
        self.init(action, by: by, via: via)
        at = json["at"]?.timestamp
        jobs = json["jobs"]?.integer.flatMap { Int(exactly: $0) }
        ids = (json["ids"]?.array ?? []).compactMap(\.string)
        (batch, schedule) = (json["batch"]?.string, json["schedule"]?.string)
        (filter, settings) = (json["where"]?.string, json["settings"]?.string)
    }

    package var json: String {
        var json = JSONObject()
        json.set("at", at)
        json.set("by", by)
        json.set("via", via.rawValue)
        json.set("action", action)
        json.set("jobs", jobs.map(Int64.init))
        if !ids.isEmpty { json.set("ids", json: "[\(ids.map(JSON.quoted).joined(separator: ","))]") }
        json.set("batch", batch)
        json.set("schedule", schedule)
        json.set("where", filter)
        json.set("settings", settings)
        return json.text
    }

    /// Whether this change paused or cancelled the job: a control operation that stops a job becomes its
    /// `settled_until`.
    package func stopped(_ job: JobRecord) -> Bool {
        [.paused, .cancelled].contains(job.state) && at != nil && at == job.integer("settled_until")
    }

    /// Whether this change is the control operation that is in force for members of the batch which join later.
    package func stopped(_ batch: BatchRecord) -> Bool {
        self.batch == batch.name && at != nil && at == batch.wantedAt
    }

    /// Whether the change paused the queue (true) or resumed it (false); nil if it did neither.
    fileprivate var pausedQueue: Bool? {
        let pauses = settings?.split(separator: " ").filter { $0.hasPrefix("paused=") }
        return pauses?.last.map { $0 == "paused=1" }
    }
}

extension Queue {
    /// Adds an entry to the list of changes. The change is made already, so that an error is ignored: a user whose
    /// rights do not include the list may still change what it may change. An operation that was requested of no job has
    /// changed nothing, and gets no entry.
    package func record(_ change: ChangeRecord) async {
        guard change.jobs != 0 else { return }
        // The list of the whole queue is that of its first partition.
        guard partitions.isEmpty else { return await partitions[0].record(change) }
        var change = change
        if change.at == nil { change.at = try? await time() }
        let commands = [
            Command("LPUSH", keys.changes, change.json),
            Command("LTRIM", keys.changes, 0, ChangeRecord.maxCount - 1),
        ]
        _ = try? await redis.pipeline(commands.map { Call.command($0) })
    }

    /// The last changes, the newest first.
    package func changes(limit: Int = ChangeRecord.maxCount) async throws(RedisError) -> [ChangeRecord] {
        guard partitions.isEmpty else { return try await partitions[0].changes(limit: limit) }
        let texts = try await redis.send(Command("LRANGE", keys.changes, 0, limit - 1)).array ?? []
        return texts.compactMap { $0.string.flatMap(ChangeRecord.init) }
    }

    /// The change that paused or cancelled a job; nil if the job is in another state, or if the change was not recorded.
    package func changeThatStopped(_ job: JobRecord) async throws(RedisError) -> ChangeRecord? {
        guard [.paused, .cancelled].contains(job.state) else { return nil }
        let changes = try await changes()
        if let change = changes.first(where: { $0.stopped(job) }) { return change }
        // A job that has joined a stopped batch was pushed after the operation, so that it has another timestamp.
        let batch = try await stoppedBatches(of: job).first { $0.wanted == job.state.rawValue }
        return batch.flatMap { batch in changes.first { $0.stopped(batch) } }
    }

    /// The change that paused the queue, which is paused; nil if that was not recorded.
    package func changeThatPaused() async throws(RedisError) -> ChangeRecord? {
        guard let change = try await changes(limit: 200).first(where: { $0.pausedQueue != nil }) else { return nil }
        return change.pausedQueue == true ? change : nil
    }
}
