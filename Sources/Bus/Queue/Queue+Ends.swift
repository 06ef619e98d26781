import HaulContract
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
}
