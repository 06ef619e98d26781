import HaulBus

/// A job as its hash in Redis tells it: the truth, whatever events were heard.
public struct JobStatus: Sendable, Equatable, Identifiable {
    /// The job's id.
    public let id: String
    /// Where it is in its life.
    public let state: JobState
    private let fields: [String: String]
    /// What a server answered to a request or an upload, if it did and the response is kept.
    public let response: JobResult.Response?
    let record: Record

    /// What decides whether it has ended.
    struct Record: Sendable, Equatable {
        let position: EventPosition
        let hasEnded: Bool
    }

    init(_ record: JobRecord) {
        (id, state) = (record.id, record.state)
        fields = record.fields.filter { !$0.value.isEmpty && !JobRecord.hidden.contains($0.key) }
        response = StoredResponse(hash: record.fields).map {
            JobResult.Response(status: $0.status, headers: $0.headers, body: $0.body)
        }
        self.record = Record(position: record.position, hasEnded: record.hasEnded)
    }

    /// A field of the hash as docs/bus.md lists them; nil if it is absent or empty.
    public subscript(field: String) -> String? { fields[field] }

    private func integer(_ field: String) -> Int64? { fields[field].flatMap { Int64($0) } }

    /// Where its last event stands.
    public var position: EventPosition { record.position }
    /// What is to be done; a kind that this version does not know is told as a download.
    public var kind: Job.Kind { self["kind"].flatMap(Job.Kind.init(rawValue:)) ?? .download }
    /// What came of each file of an upload with ``Job/Upload/isEach``, once it has ended.
    public var files: [SentFile] { SentFile.list(self["files"].flatMap { try? JSON($0) }) }
    /// The first URL, without credentials and query.
    public var url: String? { self["url"] }
    /// As it was pushed.
    public var path: String? { self["path"] }
    /// The file, relative to the workers' root: the finished one, or the one that is to be.
    public var file: String? { self["file"] }
    /// Bytes that are there; of an upload bytes that were sent.
    public var received: Int64 { integer("received") ?? 0 }
    /// Bytes of the whole file or response, if the server told it; of an upload of all its files.
    public var total: Int64? { integer("total") }
    /// Bytes per second, while it runs.
    public var speed: Int64? { integer("speed") }
    /// Failed attempts in a row.
    public var attempts: Int { integer("attempt").map { Int($0) } ?? 0 }
    /// The name of the worker that runs it, or that ended it.
    public var worker: String? { self["worker"] }
    /// `disk`, `host` or `replicas`, if it waits for one of them.
    public var waiting: String? { self["waiting"] }
    /// Why it failed, or why its last attempt did.
    public var error: ErrorCode? { self["error"].map(ErrorCode.init(rawValue:)) }
    /// A sentence about that for a person.
    public var message: String? { self["message"] }
    /// The ETag of the bytes.
    public var etag: String? { self["etag"] }
    /// The digest that a finished file was checked against.
    public var checksum: String? { self["checksum"] }
    /// How long the run that completed it took.
    public var seconds: Double? { self["seconds"].flatMap { Double($0) } }
    /// What the producer put into the job's `meta`.
    public var meta: JSON? { self["meta"].flatMap { try? JSON($0) } }
    /// When it was first pushed, unix ms.
    public var created: Int64? { integer("created") }
    /// When it last changed, unix ms.
    public var updated: Int64? { integer("updated") }
    /// When it ended, unix ms.
    public var finished: Int64? { integer("finished") }
}
