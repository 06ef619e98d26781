package import HaulContract

/// A job as its hash and its offsets describe it.
package struct JobRecord: Sendable {
    package let id: String
    package let state: JobState
    package let fields: [String: String]
    package let offsets: ByteIntervals
    /// When a scheduled job is due, unix ms: its score in the index. nil for others, or if this user may not read it.
    package let dueAt: Int64?

    package init(
        id: String, state: JobState, fields: [String: String], offsets: ByteIntervals = ByteIntervals(),
        dueAt: Int64? = nil
    ) {
        (self.id, self.state, self.fields, self.offsets) = (id, state, fields, offsets)
        self.dueAt = state == .scheduled ? dueAt : nil
    }

    /// A job of a list. Its element says what the hash does not have, because no worker has claimed the job yet.
    ///
    /// - Parameter fields: Some or all fields of the hash; empty if there is none.
    package init(
        job: ListedJob, state: JobState, fields: [String: String], offsets: ByteIntervals = ByteIntervals()
    ) {
        var fields = fields
        for (name, value) in [
            ("url", job.maskedURL), ("batch", job.batch), ("group", job.group), ("waiting", job.waitsFor),
        ]
        where fields[name] == nil { fields[name] = value }
        self.init(
            id: job.id, state: fields["state"].flatMap(JobState.init) ?? state, fields: fields, offsets: offsets,
            dueAt: state == .scheduled ? job.timestamp : nil)
    }

    /// A field that is not empty.
    package subscript(field: String) -> String? { fields[field].flatMap { $0.isEmpty ? nil : $0 } }

    package func integer(_ field: String) -> Int64? { fields[field].flatMap { Int64($0) } }

    /// The names of its batches.
    package var batches: [String] { (self["batch"] ?? "").split(separator: " ").map(String.init) }

    /// A sentence for a job whose response was dropped; nil for others.
    package var droppedResponse: String? {
        self["response_dropped"].map { _ in
            "the response was dropped, since the queue keeps no more than max_responses_bytes of them"
        }
    }

    /// The tokens of an ended job's last run, and of its runs that were lost with their workers.
    package var endedRuns: Set<String> {
        let lost = (self["lost"] ?? "").split(separator: " ").map(String.init)
        return Set([self["token"], self["settled"]].compactMap(\.self) + lost)
    }

    /// The epoch and number of the job's last event.
    package var position: EventPosition {
        EventPosition(epoch: integer("epoch") ?? 0, sequence: integer("seq") ?? 0)
    }

    /// Whether the job has ended and its event was published. A completed job may still wait for replicas.
    package var hasEnded: Bool { state.isFinal && (state != .completed || self["waiting"] != "replicas") }

    /// Whether the push of `timestamp` (unix ms) has come to its end: the job has ended, and its event was published.
    package func hasEnded(since timestamp: Int64) -> Bool {
        hasEnded && Self.isSettled(timestamp, settledUntil: fields["settled_until"], ahead: fields["ahead"])
    }

    /// Whether a push of `timestamp` (unix ms) would count as a repeat: Pushes.is_repeat() in Lua/claim/pushes.lua.
    static func isSettled(_ timestamp: Int64, settledUntil: String?, ahead: String?) -> Bool {
        settledUntil.flatMap { Int64($0) } ?? 0 >= timestamp || ahead.flatMap { Int64($0) } == timestamp
    }

    /// Fields that only the functions and workers need.
    package static let hidden: Set<String> = [
        "next_push", "ahead", "want_next", "bytes", "completed_file", "pending_deletion", "host", "store_state", "lost",
        "earlier",
        "pushed", "request_digest",
        "resumed", "retried", "sent", "settled", "ticket", "token", "unannounced", "url_digests", "want_at",
    ]
}

/// What has become of a push, by some fields of its job's hash.
package enum PushEnd: Sendable {
    case open
    /// The job has ended, and its event was published.
    case ended
    /// The job was removed.
    case removed

    package static let fields = ["state", "waiting", "settled_until", "ahead"]

    /// - Parameters:
    ///   - timestamp: When the job was pushed, unix ms; 0 for any push. Only of a push with a time it is known that its job
    ///     was removed.
    ///   - fields: Among them `PushEnd.fields`; empty for an unknown job.
    package init(of timestamp: Int64, _ fields: [String: String]) {
        guard let state = fields["state"].flatMap(JobState.init) else {
            let isSettled = JobRecord.isSettled(
                timestamp, settledUntil: fields["settled_until"], ahead: fields["ahead"])
            self = timestamp > 0 && isSettled ? .removed : .open
            return
        }
        let record = JobRecord(id: "", state: state, fields: fields)
        self = (timestamp > 0 ? record.hasEnded(since: timestamp) : record.hasEnded) ? .ended : .open
    }
}
