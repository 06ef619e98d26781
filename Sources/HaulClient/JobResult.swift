/// How a job ended.
public struct JobResult: Sendable, Equatable, Identifiable {
    /// The job's id.
    public let id: String
    /// `completed`, `failed` or `cancelled`.
    public let state: JobState
    /// The job's kind. nil if it is not known: a reply does not name it, and neither does a job that was removed.
    public let kind: Job.Kind?
    /// The finished file, relative to the workers' root.
    public let file: String?
    /// The size of the finished file or of the response's body. For an upload the number of bytes that were sent.
    public let bytes: Int64?
    /// How long the run that completed the job took. 0 if the file existed already and was unchanged.
    public let seconds: Double?
    /// The digest that the file was checked against. nil if neither the job nor the server gave one.
    public let checksum: String?
    /// The ETag of the file or of the response.
    public let etag: String?
    /// Whether the file or the response existed already and is still what the server has.
    public let isUnchanged: Bool
    /// Whether a failed job may succeed later.
    public let isRetryable: Bool
    /// Why the job failed.
    public let error: ErrorCode?
    /// A sentence about ``error`` for a person.
    public let message: String?
    /// The response to a request or an upload, if there was one and it is still kept.
    public let response: Response?
    /// Whether there was a response that is no longer kept, because the queue's responses exceeded
    /// ``QueueSettings/maxResponsesBytes``.
    public let wasResponseDropped: Bool
    /// The result of each file of an upload with ``Job/Upload/isEach``.
    public let files: [SentFile]
    /// The job's `meta`, as the producer wrote it.
    public let meta: JSON?
    /// Whether the job was removed from Redis. If so, nothing else is known about it.
    public let wasRemoved: Bool

    /// The response to a job of the kind ``Job/Kind/request`` or ``Job/Kind/upload``.
    public struct Response: Sendable, Equatable {
        /// The status, such as 200.
        public let status: Int
        /// Names are in lower case, and each occurs once. Values of the same name are joined by commas, those of
        /// `set-cookie` by line feeds.
        public let headers: [HeaderField]
        /// The body, byte for byte.
        public let body: [UInt8]

        /// The value of the header field with this name, in upper or lower case.
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

    init(removed id: String, meta: JSON? = nil) {
        (self.id, state, wasRemoved, isUnchanged, isRetryable) = (id, .cancelled, true, false, false)
        (file, bytes, seconds, checksum, etag, error, self.meta) = (nil, nil, nil, nil, nil, nil, meta)
        (response, wasResponseDropped, files, kind) = (nil, false, [], nil)
        message = "the job was removed"
    }

    /// nil if the event is not the end of a job.
    init?(_ event: Event) {
        guard let state = event.finalState else { return nil }
        let isCompleted = state == .completed
        (id, self.state, meta, wasRemoved, kind) = (event.id, state, event.meta, false, nil)
        file = isCompleted ? event.file : nil
        bytes = isCompleted ? event.bytes : nil
        seconds = isCompleted ? event.seconds : nil
        checksum = isCompleted ? event.checksum : nil
        etag = isCompleted ? event.etag : nil
        isUnchanged = isCompleted && event["unchanged"]?.bool == true
        isRetryable = state == .failed && event.isRetryable == true
        error = state == .failed ? event.error : nil
        message = state == .failed ? event.message : nil
        if let status = event.status, let headers = event.responseHeaders {
            response = Response(status: status, headers: headers, body: event.responseBody ?? [])
        } else {
            response = nil
        }
        wasResponseDropped = event["response_dropped"]?.bool == true
        files = event.files
    }

    /// Returns this result if the job is completed.
    ///
    /// - Throws: ``HaulError/Code-swift.struct/jobFailed`` with ``HaulError/jobError`` if the job failed.
    ///   ``HaulError/Code-swift.struct/jobCancelled`` if it was cancelled or removed.
    @discardableResult
    public func get() throws(HaulError) -> JobResult {
        switch state {
        case .completed: return self
        case .failed: throw HaulError(error, "job \(id) failed: \(error?.rawValue ?? "") \(message ?? "")")
        default: throw HaulError(.jobCancelled, "job \(id): \(message ?? "it was cancelled")")
        }
    }
}
