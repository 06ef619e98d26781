package import HaulContract
package import HaulRedis

extension Queue {
    /// The pushes that were rejected, by job id, each with its event: one of `events`, or what the list of rejected
    /// elements has of it. An event `rejected` names only the job, and others may push an
    /// invalid element or operation for the same job. So the list of rejected elements decides. If it does not have the
    /// element or all of it, the hash does: it says whether a worker has taken the push.
    ///
    /// - Parameters:
    ///   - events: Events `rejected` of these jobs. Without any only the list is searched, for pushes whose event was
    ///     missed.
    ///   - newest: How many entries of the list are searched. Each has up to 4 KiB.
    package func rejections(
        of pushes: [KnownPush], events: [Event] = [], searching newest: Int = 100
    ) async throws(RedisError) -> [String: Event] {
        let known = Dictionary(pushes.map { ($0.id, $0) }) { $1 }
        let entries = try await rejectedEntries(newest: newest, mayMissSome: events.isEmpty)
        var found: [String: Event] = [:]
        for entry in entries ?? [] {
            guard let id = entry.id, let timestamp = entry.madeAt, known[id]?.timestamp == timestamp else { continue }
            found[id] = entry.event(of: id, in: name.text)
        }
        let unexplained = events.filter { event in
            guard let push = known[event.id], found[event.id] == nil else { return false }
            return !(entries?.contains { $0.isOf(event) && $0.isAboutAnother(than: push) } ?? false)
        }
        guard !unexplained.isEmpty else { return found }
        let hashes = try await fields(["state", "pushed"], of: unexplained.map(\.id))
        for (event, fields) in zip(unexplained, hashes) {
            let taken = fields["pushed"].flatMap { Int64($0) } ?? 0
            let isTaken = known[event.id]?.timestamp.map { taken >= $0 } ?? (fields["state"] != nil)
            if !isTaken { found[event.id] = event }
        }
        return found
    }

    /// An entry of the list `rejected`.
    private struct RejectedEntry {
        let at: Int64, reason: String
        /// Of an element, if they are known: of a long one only the beginning is kept. Our own producers write them there.
        let id: String?, madeAt: Int64?
        private let isElement: Bool, isWhole: Bool

        init?(_ text: String) {
            guard let json = try? JSON(text) else { return nil }
            at = json["at"]?.integer ?? 0
            reason = json["reason"]?.string ?? ""
            let shown = json["element"]?.string ?? ""
            isElement = shown.hasPrefix("{")
            let element = try? JSON(shown)
            isWhole = element != nil
            if let element {
                (id, madeAt) = (element["id"]?.string, element["at"]?.timestamp)
            } else if let own = shown.prefixMatch(of: /\{"id":"([A-Za-z0-9._:-]+)","at":(\d{1,14}),/) {
                (id, madeAt) = (String(own.1), Int64(own.2))
            } else {
                (id, madeAt) = (nil, nil)
            }
        }

        /// Whether this is certainly no element of the push.
        func isAboutAnother(than push: KnownPush) -> Bool {
            guard isElement else { return true }
            return push.timestamp.map { (isWhole || madeAt != nil) && madeAt != $0 } ?? false
        }

        /// The event that was published with the entry.
        func event(of id: String, in queue: String) -> Event? {
            var event = JSONObject()
            event.set("v", 1)
            event.set("event", "rejected")
            event.set("id", id)
            event.set("queue", queue)
            event.set("at", at)
            event.set("reason", reason)
            return Event(event.text.utf8)
        }

        func isOf(_ event: Event) -> Bool { at == event.at && reason == event["reason"]?.string }
    }

    /// nil if the role of this user may not read the list.
    ///
    /// - Parameter mayMissSome: A node that is away does not keep the caller from the ends in other partitions.
    private func rejectedEntries(newest: Int, mayMissSome: Bool) async throws(RedisError) -> [RejectedEntry]? {
        guard partitions.isEmpty else {
            let all = await results(Array(partitions.indices)) { queue, _ throws(RedisError) in
                try await queue.rejectedEntries(newest: newest, mayMissSome: false) ?? []
            }
            var entries: [RejectedEntry] = []
            for result in all {
                if mayMissSome, case .failure(let error) = result, error.isTransient { continue }
                entries += try result.get()
            }
            return entries
        }
        do {
            return try await rejected(limit: newest).compactMap(RejectedEntry.init)
        } catch {
            guard error.code == .noPermission else { throw error }
            return nil
        }
    }
}
