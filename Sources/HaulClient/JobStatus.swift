import HaulBus

/// A job as in its hash in Redis. The hash is reliable; events may be lost.
public struct JobStatus: Sendable, Equatable, Identifiable {
    /// The job's id.
    public let id: String
    /// The job's state.
    public let state: JobState
    private let fields: [String: String]
    /// The response to a request or an upload, if there was one and it is still kept.
    public let response: JobResult.Response?
    /// When a scheduled job is due, in unix milliseconds. nil for others, or if this user of Redis may not read it.
    public let due: Int64?
    let record: Record

    struct Record: Sendable, Equatable {
        let position: EventPosition
        let hasEnded: Bool
    }

    init(_ record: JobRecord) {
        (id, state, due) = (record.id, record.state, record.dueAt)
        fields = record.fields.filter { !$0.value.isEmpty && !JobRecord.hidden.contains($0.key) }
        response = StoredResponse(hash: record.fields).map {
            JobResult.Response(status: $0.status, headers: $0.headers, body: $0.body)
        }
        self.record = Record(position: record.position, hasEnded: record.hasEnded)
    }

    /// A field of the hash, as listed in docs/reference/keys.md. nil if it is absent or empty.
    public subscript(field: String) -> String? { fields[field] }

    private func integer(_ field: String) -> Int64? { fields[field].flatMap { Int64($0) } }

    /// The position of the job's last event.
    public var position: EventPosition { record.position }
    /// The job's kind. ``Job/Kind/download`` for a kind that this version does not know.
    public var kind: Job.Kind { self["kind"].flatMap(Job.Kind.init(rawValue:)) ?? .download }
    /// The result of each file of an upload with ``Job/Upload/isEach``, after its end.
    public var files: [SentFile] { SentFile.list(self["files"].flatMap { try? JSON($0) }) }
    /// The first URL, without credentials and query.
    public var url: String? { self["url"] }
    /// The path that was pushed.
    public var path: String? { self["path"] }
    /// The finished or planned file, relative to the workers' root.
    public var file: String? { self["file"] }
    /// The bytes received so far. For an upload the bytes sent.
    public var received: Int64 { integer("received") ?? 0 }
    /// The bytes of the whole file or response, if the server gave its size. For an upload the bytes of all its files.
    public var total: Int64? { integer("total") }
    /// Bytes per second, while the job runs.
    public var speed: Int64? { integer("speed") }
    /// The number of failed attempts in a row.
    public var attempts: Int { integer("attempt").map { Int($0) } ?? 0 }
    /// The name of the worker that runs the job, or that ended it.
    public var worker: String? { self["worker"] }
    /// What the job waits for: `disk` (space in its root), `store` (a bucket), `host` or `replicas`. nil if it waits for
    /// none of them.
    public var waiting: String? { self["waiting"] }
    /// Why the job or its last attempt failed.
    public var error: ErrorCode? { self["error"].map(ErrorCode.init(rawValue:)) }
    /// A sentence about ``error`` for a person.
    public var message: String? { self["message"] }
    /// The ETag of the bytes.
    public var etag: String? { self["etag"] }
    /// The digest that a finished file was checked against.
    public var checksum: String? { self["checksum"] }
    /// The ids of the jobs that its end has pushed: ``Job/then`` or ``Job/else``.
    public var steps: [String] { (self["steps"] ?? "").split(separator: " ").map(String.init) }
    /// How long the run that completed the job took, in seconds.
    public var seconds: Double? { self["seconds"].flatMap { Double($0) } }
    /// The job's `meta`, as the producer wrote it.
    public var meta: JSON? { self["meta"].flatMap { try? JSON($0) } }
    /// When the job was first pushed, in unix milliseconds.
    public var created: Int64? { integer("created") }
    /// When the job last changed, in unix milliseconds.
    public var updated: Int64? { integer("updated") }
    /// When the job ended, in unix milliseconds.
    public var finished: Int64? { integer("finished") }
}
