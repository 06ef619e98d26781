extension Event {
    /// What an event tells. Open: a newer worker may publish other kinds.
    public struct Kind: RawRepresentable, Hashable, Sendable, CustomStringConvertible {
        /// As it is on the wire.
        public let rawValue: String
        /// Any kind, known to this version or not.
        public init(rawValue: String) { self.rawValue = rawValue }
        /// The kind as it is on the wire.
        public var description: String { rawValue }

        /// A run has its first response from the server.
        public static let started = Kind(rawValue: "started")
        /// A run goes on with bytes that are there.
        public static let resumed = Kind(rawValue: "resumed")
        /// Once a second while bytes come.
        public static let progress = Kind(rawValue: "progress")
        /// The bytes so far were dropped: ``Event/why``.
        public static let restarted = Kind(rawValue: "restarted")
        /// The job waits for a disk or for its host: ``Event/why``.
        public static let waiting = Kind(rawValue: "waiting")
        /// An attempt failed; another follows after ``Event/delay``.
        public static let retrying = Kind(rawValue: "retrying")
        /// A delay or a wait is over: the job is in line.
        public static let queued = Kind(rawValue: "queued")
        /// The job went back into the line: ``Event/why``.
        public static let requeued = Kind(rawValue: "requeued")
        /// A request stopped the job.
        public static let paused = Kind(rawValue: "paused")
        /// A request ended the job.
        public static let cancelled = Kind(rawValue: "cancelled")
        /// The file is there.
        public static let completed = Kind(rawValue: "completed")
        /// The job ended with an error.
        public static let failed = Kind(rawValue: "failed")
        /// A push started nothing, because the job is known.
        public static let duplicate = Kind(rawValue: "duplicate")
        /// Something that a person should know: ``Event/message``.
        public static let warning = Kind(rawValue: "warning")
        /// An element was no valid job: ``Event/reason``.
        public static let rejected = Kind(rawValue: "rejected")
        /// All jobs of a batch have ended: ``Event/batch``.
        public static let batchEnded = Kind(rawValue: "batch_ended")
    }

    /// What it tells.
    public var kind: Kind { Kind(rawValue: name) }

    /// The name of the batch, of `batch_ended`. How many jobs have ended in which way are members of ``Event/json``.
    public var batch: String? { json["batch"]?.string }
    /// How often the batch has been over, of `batch_ended`.
    public var round: Int? { json["round"]?.integer.map { Int($0) } }

    /// Bytes that are there, of `progress` and `failed`.
    public var received: Int64? { json["received"]?.integer }
    /// Bytes of the whole file, if the server told it.
    public var total: Int64? { json["total"]?.integer }
    /// How much is there, from 0 to 1, of `progress` with a known total.
    public var fraction: Double? { json["fraction"]?.double }
    /// Bytes per second over the last 5 seconds, of `progress`.
    public var speed: Int64? { json["speed"]?.integer }
    /// Bytes per second of this attempt, without resumed bytes, of `progress`.
    public var average: Int64? { json["average"]?.integer }
    /// Seconds until the end at this speed, of `progress` with a known total.
    public var eta: Double? { json["eta"]?.double }
    /// How many connections fetch the file, of `progress`.
    public var connections: Int? { json["connections"]?.integer.map { Int($0) } }
    /// Bytes that were there already, of `resumed`.
    public var offset: Int64? { json["offset"]?.integer }
    /// Which attempt it is, 1 for the first, of `started`.
    public var attempt: Int? { json["attempt"]?.integer.map { Int($0) } }
    /// Whether a pause keeps the bytes, of `started`.
    public var isResumable: Bool? { json["resumable"]?.bool }
    /// The reason, of `restarted`, `waiting` and `requeued`.
    public var why: String? { json["why"]?.string }
    /// Seconds until the next attempt, of `retrying`.
    public var delay: Double? { json["delay"]?.double }
    /// What went wrong, of `failed` and `retrying`.
    public var error: ErrorCode? { json["error"]?.string.map(ErrorCode.init(rawValue:)) }
    /// A sentence for a person, of `failed`, `retrying` and `warning`.
    public var message: String? { json["message"]?.string }
    /// Whether the same job may succeed later, of `failed`.
    public var isRetryable: Bool? { json["retryable"]?.bool }
    /// The file, relative to the workers' root, of `completed`.
    public var file: String? { json["file"]?.string }
    /// The size of the file in bytes, of `completed`.
    public var bytes: Int64? { json["bytes"]?.integer }
    /// How long the run took, in seconds, of `completed`.
    public var seconds: Double? { json["seconds"]?.double }
    /// The digest that the file was checked against, of `completed`.
    public var checksum: String? { json["checksum"]?.string }
    /// The ETag of the file, of `completed`.
    public var etag: String? { json["etag"]?.string }
    /// The status of a response, of `completed` and `failed` of a request or an upload.
    public var status: Int? { json["status"]?.integer.map { Int($0) } }
    /// The header fields of a response, names in lower case.
    public var responseHeaders: [HeaderField]? {
        json["headers"]?.members?.compactMap { member in member.value.string.map { HeaderField(member.name, $0) } }
    }
    /// The body of a response.
    public var responseBody: [UInt8]? {
        json["body_base64"]?.string.flatMap { Base64.decode($0.utf8) } ?? json["body"]?.string.map { Array($0.utf8) }
    }
    /// What came of each file, of `completed` and `failed` of an upload that sends each by itself.
    public var files: [SentFile] { SentFile.list(json["files"]) }
    /// The job's state, of `duplicate`; nil if the job was removed since.
    public var state: JobState? { json["state"]?.string.flatMap(JobState.init(rawValue:)) }
    /// Why an element was no job, of `rejected`. It begins with the field's name.
    public var reason: String? { json["reason"]?.string }
    /// What the producer put into the job's `meta`, of all kinds but `progress`.
    public var meta: JSON? { json["meta"] }
}
