extension Event {
    /// The kind of an event. A newer worker may publish kinds that are not listed here.
    public struct Kind: RawRepresentable, Hashable, Sendable, CustomStringConvertible {
        /// The kind in the wire format.
        public let rawValue: String
        /// Any kind, known to this version or not.
        public init(rawValue: String) { self.rawValue = rawValue }
        /// The kind in the wire format.
        public var description: String { rawValue }

        /// A run has received its first response from the server.
        public static let started = Kind(rawValue: "started")
        /// A run continues a partial file.
        public static let resumed = Kind(rawValue: "resumed")
        /// Published once a second while bytes arrive.
        public static let progress = Kind(rawValue: "progress")
        /// The bytes received so far were dropped. The reason is ``Event/why``.
        public static let restarted = Kind(rawValue: "restarted")
        /// The job waits for free space in its store, for its host, or for its gate. The reason is ``Event/why``.
        public static let waiting = Kind(rawValue: "waiting")
        /// An attempt failed. Another one follows after ``Event/delay``.
        public static let retrying = Kind(rawValue: "retrying")
        /// A delay or a wait has ended, and the job is in the list of waiting jobs.
        public static let queued = Kind(rawValue: "queued")
        /// The job was returned to the list of waiting jobs. The reason is ``Event/why``.
        public static let requeued = Kind(rawValue: "requeued")
        /// A control operation stopped the job.
        public static let paused = Kind(rawValue: "paused")
        /// A control operation ended the job.
        public static let cancelled = Kind(rawValue: "cancelled")
        /// The job succeeded. Its file is complete, or its response is kept.
        public static let completed = Kind(rawValue: "completed")
        /// The job ended with an error.
        public static let failed = Kind(rawValue: "failed")
        /// A push started nothing, because the job is known.
        public static let duplicate = Kind(rawValue: "duplicate")
        /// A person should know something: ``Event/message``.
        public static let warning = Kind(rawValue: "warning")
        /// An element was not a valid job. The reason is ``Event/reason``.
        public static let rejected = Kind(rawValue: "rejected")
        /// All jobs of a batch have ended: ``Event/batch``.
        public static let batchEnded = Kind(rawValue: "batch_ended")
    }

    /// The kind of this event.
    public var kind: Kind { Kind(rawValue: name) }

    /// In `batch_ended`: the name of the batch. ``Event/json`` says how many of its jobs ended in which state.
    public var batch: String? { json["batch"]?.string }
    /// In `batch_ended`: how many times the batch has ended, this time included.
    public var round: Int? { json["round"]?.integer.map { Int($0) } }

    /// In `progress` and `failed`: the bytes received so far.
    public var received: Int64? { json["received"]?.integer }
    /// The bytes of the whole file, if the server gave its size.
    public var total: Int64? { json["total"]?.integer }
    /// In `progress` with a known total: the received part of the file, from 0 to 1.
    public var fraction: Double? { json["fraction"]?.double }
    /// In `progress`: bytes per second over the last 5 seconds.
    public var speed: Int64? { json["speed"]?.integer }
    /// In `progress`: bytes per second of this attempt, without resumed bytes.
    public var average: Int64? { json["average"]?.integer }
    /// In `progress` with a known total: seconds until the end at this speed.
    public var eta: Double? { json["eta"]?.double }
    /// In `progress`: how many connections fetch the file.
    public var connections: Int? { json["connections"]?.integer.map { Int($0) } }
    /// In `resumed`: the bytes that the partial file has already.
    public var offset: Int64? { json["offset"]?.integer }
    /// In `started`: the number of the attempt, 1 for the first.
    public var attempt: Int? { json["attempt"]?.integer.map { Int($0) } }
    /// In `started`: whether the bytes survive a pause or the loss of the worker.
    public var isResumable: Bool? { json["resumable"]?.bool }
    /// In `restarted`, `waiting` and `requeued`: the reason.
    public var why: String? { json["why"]?.string }
    /// In `retrying`: seconds until the next attempt.
    public var delay: Double? { json["delay"]?.double }
    /// In `failed` and `retrying`: why the job or the attempt failed.
    public var error: ErrorCode? { json["error"]?.string.map(ErrorCode.init(rawValue:)) }
    /// In `failed`, `retrying` and `warning`: a sentence for a person.
    public var message: String? { json["message"]?.string }
    /// In `failed`: whether the same job may succeed later.
    public var isRetryable: Bool? { json["retryable"]?.bool }
    /// In `completed`: the file, relative to the workers' root.
    public var file: String? { json["file"]?.string }
    /// In `completed`: the size of the file in bytes.
    public var bytes: Int64? { json["bytes"]?.integer }
    /// In `completed`: how long the run took, in seconds.
    public var seconds: Double? { json["seconds"]?.double }
    /// In `completed`: the digest that the file was checked against.
    public var checksum: String? { json["checksum"]?.string }
    /// In `completed`: the ETag of the file.
    public var etag: String? { json["etag"]?.string }
    /// In `completed` and `failed` of a request or an upload: the status of the response.
    public var status: Int? { json["status"]?.integer.map { Int($0) } }
    /// The header fields of a response, with names in lower case.
    public var responseHeaders: [HeaderField]? {
        json["headers"]?.members?.compactMap { member in member.value.string.map { HeaderField(member.name, $0) } }
    }
    /// The body of a response.
    public var responseBody: [UInt8]? {
        json["body_base64"]?.string.flatMap { Base64.decode($0.utf8) } ?? json["body"]?.string.map { Array($0.utf8) }
    }
    /// In `completed` and `failed` of an upload with ``Job/Upload/isEach``: the result of each file.
    public var files: [SentFile] { SentFile.list(json["files"]) }
    /// In `duplicate`: the job's state. nil if the job was removed since.
    public var state: JobState? { json["state"]?.string.flatMap(JobState.init(rawValue:)) }
    /// In `rejected`: why the element is not a valid job. In `duplicate`: why the push started nothing.
    public var reason: String? { json["reason"]?.string }
    /// The job's `meta`, as the producer wrote it. All kinds of events but `progress` have it.
    public var meta: JSON? { json["meta"] }
}
