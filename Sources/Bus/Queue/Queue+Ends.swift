package import HaulContract
package import HaulRedis

/// A push, as its producer knows it.
package struct KnownPush: Sendable {
    package let id: String
    /// Unix ms; nil stands for any push of the job.
    package let timestamp: Int64?

    package init(id: String, timestamp: Int64?) { (self.id, self.timestamp) = (id, timestamp) }

    func hasEnded(_ record: JobRecord) -> Bool { timestamp.map(record.hasEnded(since:)) ?? record.hasEnded }
}

extension Queue {
    /// How many hashes with responses one call reads.
    private static let hashesOfCall = 20

    /// Which pushes have come to their end: those of jobs that have ended, and those of jobs that were removed since.
    package func ended(
        _ pushes: [KnownPush]
    ) async throws(RedisError) -> (jobs: [JobRecord], removed: [KnownPush]) {
        let names = ["state", "waiting", "settled_until", "ahead"]
        var ended: [KnownPush] = []
        var removed: [KnownPush] = []
        for (push, fields) in zip(pushes, try await fields(names, of: pushes.map(\.id))) {
            if let state = fields["state"].flatMap(JobState.init) {
                let record = JobRecord(id: push.id, state: state, fields: fields, offsets: ByteIntervals())
                if push.hasEnded(record) { ended.append(push) }
            } else if let timestamp = push.timestamp,
                JobRecord.isSettled(timestamp, settledUntil: fields["settled_until"], ahead: fields["ahead"])
            {
                removed.append(push)
            }
        }
        var jobs: [JobRecord] = []
        // Only few hashes at a time, because each may have a response.
        for page in ended.chunks(ofCount: Self.hashesOfCall) {
            let pushes = Dictionary(page.map { ($0.id, $0) }) { $1 }
            // A job may have been pushed again meanwhile, and then it has not ended.
            jobs += try await self.jobs(Array(pushes.keys)).filter { pushes[$0.id]?.hasEnded($0) ?? false }
        }
        return (jobs, removed)
    }

    /// Which pushes were rejected, and why, by job id. An event `rejected` names only the job, and others may push an
    /// invalid element or operation for the same job. So the list of rejected elements decides. If it does not have the
    /// element or all of it, the hash does: it says whether a worker has taken the push.
    ///
    /// - Parameters:
    ///   - events: Events `rejected` of these jobs. Without any only the list is searched, for pushes whose event was
    ///     missed.
    ///   - newest: How many entries of the list are searched. Each has up to 4 KiB.
    package func rejections(
        of pushes: [KnownPush], events: [Event] = [], searching newest: Int = 100
    ) async throws(RedisError) -> [String: String] {
        let entries = try await rejectedEntries(newest: newest)
        var found: [String: String] = [:]
        for push in pushes {
            guard let entry = entries?.first(where: { $0.isAbout(push) }) else { continue }
            found[push.id] = entry.reason
        }
        let known = Dictionary(pushes.map { ($0.id, $0) }) { $1 }
        let unexplained = events.filter { event in
            guard let push = known[event.id], found[event.id] == nil else { return false }
            return !(entries?.contains { $0.isOf(event) && $0.isAboutAnother(than: push) } ?? false)
        }
        guard !unexplained.isEmpty else { return found }
        let hashes = try await fields(["state", "pushed"], of: unexplained.map(\.id))
        for (event, fields) in zip(unexplained, hashes) {
            let taken = fields["pushed"].flatMap { Int64($0) } ?? 0
            let isTaken = known[event.id]?.timestamp.map { taken >= $0 } ?? (fields["state"] != nil)
            if !isTaken { found[event.id] = event["reason"]?.string ?? "" }
        }
        return found
    }

    /// An entry of the list `rejected`. It keeps only the beginning of an element. Our own producers write `id` and `at`
    /// there; others may have blanks between them, and any order.
    private struct RejectedEntry {
        let at: Int64, reason: String, element: String
        /// It may be the beginning of a longer element.
        let isCut: Bool

        init?(_ text: String) {
            guard let json = try? JSON(text) else { return nil }
            at = json["at"]?.integer ?? 0
            reason = json["reason"]?.string ?? ""
            let shown = json["element"]?.string ?? ""
            isCut = shown.utf8.count > 4090
            element = shown.filter { !$0.isWhitespace }
        }

        func isAbout(_ push: KnownPush) -> Bool {
            push.timestamp.map(isMade) ?? false && element.contains("\"id\":\(JSON.quoted(push.id))")
        }

        /// Whether this is certainly no element of the push.
        func isAboutAnother(than push: KnownPush) -> Bool {
            guard element.hasPrefix("{") else { return true }
            return push.timestamp.map { !isMade(at: $0) && !isCut } ?? false
        }

        private func isMade(at timestamp: Int64) -> Bool {
            [",", "}"].contains { element.contains("\"at\":\(timestamp)\($0)") }
        }

        func isOf(_ event: Event) -> Bool { at == event.at && reason == event["reason"]?.string }
    }

    /// nil if the role of this user may not read the list.
    private func rejectedEntries(newest: Int) async throws(RedisError) -> [RejectedEntry]? {
        guard partitions.isEmpty else {
            // A node that is away does not keep callers from the ends in other partitions.
            let all = await results(Array(partitions.indices)) { queue, _ throws(RedisError) in
                try await queue.rejectedEntries(newest: newest) ?? []
            }
            return all.flatMap { (try? $0.get()) ?? [] }
        }
        do {
            return try await rejected(limit: newest).compactMap(RejectedEntry.init)
        } catch {
            guard error.code == .noPermission else { throw error }
            return nil
        }
    }
}
