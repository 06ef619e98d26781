import HaulBus
import HaulContract
import HaulRedis

// Batches: docs/guides/batches.md.

extension QueueReaderCache {
    /// A page of batches, newest first.
    func batches(from start: Int, limit: Int) async throws -> String {
        let total = try await queue.batchCount()
        let rows = try await queue.batches(from: start, limit: limit).map(Self.json)
        var json = JSONObject()
        json.set("total", total)
        json.set("next", start + limit < total ? start + limit : nil)
        json.set("batches", json: "[\(rows.joined(separator: ","))]")
        return json.text
    }

    /// One batch; nil if nothing is known of it.
    func batch(_ name: String) async throws -> String? { try await queue.batch(name).map(Self.json) }

    private static func json(_ record: BatchRecord) -> String {
        var json = JSONObject()
        json.set("name", record.name)
        for state in BatchState.allCases { json.set(state.rawValue, record.counts[state] ?? 0) }
        json.set("size", record.size)
        json.set("round", record.round)
        json.set("created", record.created)
        // A batch is not finished while a member is pending again.
        if record.counts[.pending] == 0 { json.set("finished", record.finished) }
        json.set("wanted", record.wanted)
        json.set("reply_to", json: "[\(record.replyTo.map(JSON.quoted).joined(separator: ","))]")
        return json.text
    }

    /// The members of a batch that were read.
    struct Members {
        let ids: [BatchState: [String]]
        let readAt: ContinuousClock.Instant
        /// Those of the states that were asked for, the newest first.
        var listed: [BatchState: [ListedID]] = [:]
    }

    /// The members of a batch that have ended in `state`, in the order of the state's index: the newest first. They are
    /// read once a second at most, and less often if there are many. nil if this user of Redis may not use HSCAN.
    func endedMembers(of batch: String, in state: BatchState) async throws -> [ListedID]? {
        let now = ContinuousClock.now
        members = members.filter { $0.value.readAt + Self.age(of: $0.value.ids) > now }
        if let listed = members[batch]?.listed[state] { return listed }
        let found: Members
        if let known = members[batch] {
            found = known
        } else {
            do throws(RedisError) { found = Members(ids: try await queue.members(ofBatch: batch), readAt: now) } catch {
                guard error.code == .noPermission else { throw error }
                return nil
            }
        }
        let ids = found.ids[state] ?? []
        let listed = zip(ids, try await queue.fields(["finished"], of: ids))
            .map { ListedID(id: $0, timestamp: Int64(field: $1["finished"])) }
            .sorted { ($1.timestamp ?? 0, $1.id) < ($0.timestamp ?? 0, $0.id) }
        members[batch, default: found].listed[state] = listed
        return listed
    }

    private static func age(of members: [BatchState: [String]]) -> Duration {
        .milliseconds(max(900, members.values.reduce(0) { $0 + $1.count } / 20))
    }
}
