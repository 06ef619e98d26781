/// How a job ended.
public struct JobResult: Sendable, Equatable, Identifiable {
    /// The job's id.
    public let id: String
    /// `completed`, `failed` or `cancelled`.
    public let state: JobState
    /// What was to be done.
    public let kind: Job.Kind
    /// The finished file, relative to the workers' root.
    public let file: String?
    /// The size of the finished file, or of the response's body; of an upload the bytes that were sent.
    public let bytes: Int64?
    /// How long the run that completed it took; 0 if the file was there and unchanged.
    public let seconds: Double?
    /// The digest that the file was checked against; nil if neither the job nor the server gave one.
    public let checksum: String?
    /// The ETag of the file, or of the response.
    public let etag: String?
    /// The file, or the response, was there already, and is what the server has.
    public let isUnchanged: Bool
    /// Whether the same job may succeed later, if it failed.
    public let isRetryable: Bool
    /// Why it failed.
    public let error: ErrorCode?
    /// A sentence about that for a person.
    public let message: String?
    /// What a server answered to a request or an upload, if it did.
    public let response: Response?
    /// The job was answered, and the response is no longer kept: the queue has no room for it (``QueueSettings/maxResponsesBytes``).
    public let wasResponseDropped: Bool
    /// What came of each file of an upload with ``Job/Upload/isEach``.
    public let files: [SentFile]
    /// What the producer put into the job's `meta`.
    public let meta: JSON?
    /// The job was forgotten since: nothing else is known of it.
    public let wasRemoved: Bool

    /// A server's answer to a job of the kind ``Job/Kind/request`` or ``Job/Kind/upload``.
    public struct Response: Sendable, Equatable {
        /// Like 200.
        public let status: Int
        /// Names in lower case, each once; values of one name are joined by commas, of `set-cookie` by line feeds.
        public let headers: [HeaderField]
        /// As it came.
        public let body: [UInt8]

        /// The first header field of this name, in either case.
        public subscript(header: String) -> String? {
            let name = header.lowercased()
            return headers.first { $0.name == name }?.value
        }
    }

    init(_ status: JobStatus) {
        let isCompleted = status.state == .completed
        (id, state, meta, wasRemoved) = (status.id, status.state, status.meta, false)
        file = isCompleted ? status.file : nil
        bytes = isCompleted ? status.received : nil
        seconds = isCompleted ? status.seconds : nil
        checksum = isCompleted ? status.checksum : nil
        etag = isCompleted ? status.etag : nil
        isUnchanged = isCompleted && status["unchanged"] == "1"
        isRetryable = state == .failed && status["retryable"] == "1"
        error = state == .failed ? status.error : nil
        message = state == .failed ? status.message : nil
        response = state.isFinal ? status.response : nil
        wasResponseDropped = state.isFinal && status["response_dropped"] != nil
        files = state.isFinal ? status.files : []
        kind = status.kind
    }

    init(removed id: String) {
        (self.id, state, wasRemoved, isUnchanged, isRetryable) = (id, .cancelled, true, false, false)
        (file, bytes, seconds, checksum, etag, error, meta) = (nil, nil, nil, nil, nil, nil, nil)
        (response, wasResponseDropped, files, kind) = (nil, false, [], .download)
        message = "the job was removed"
    }

    /// This result if the job is completed.
    ///
    /// - Throws: ``HaulError/Code-swift.struct/jobFailed`` with ``HaulError/jobError``, or ``HaulError/Code-swift.struct/jobCancelled``.
    @discardableResult
    public func get() throws(HaulError) -> JobResult {
        switch state {
        case .completed: return self
        case .failed: throw HaulError(error, "job \(id) failed: \(error?.rawValue ?? "") \(message ?? "")")
        default: throw HaulError(.jobCancelled, "job \(id): \(message ?? "it was cancelled")")
        }
    }
}
