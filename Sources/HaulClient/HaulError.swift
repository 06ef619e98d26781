import HaulRedis

/// Why a call failed: a stable code, and one sentence that says what to do.
public struct HaulError: Error, Sendable, Equatable, CustomStringConvertible {
    /// The kind of an error. Later versions may have more codes.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        private enum Name: String {
            case invalidURL, invalidQueueName, invalidJob, invalidSetting, unreachable, refused, redis, timedOut,
                cancelled,
                notReplicated
            case rejected, jobFailed, jobCancelled, closed, eventsNotKept
        }
        private let name: Name
        private init(_ name: Name) { self.name = name }
        /// The code's name.
        public var description: String { name.rawValue }

        /// The text is not a Redis URL, or a file that the URL names cannot be used.
        public static let invalidURL = Code(.invalidURL)
        /// The text is not a name of a queue.
        public static let invalidQueueName = Code(.invalidQueueName)
        /// A job is not valid. Nothing was pushed. ``HaulError/field`` names the wrong field.
        public static let invalidJob = Code(.invalidJob)
        /// A setting, default or limit is not valid. Nothing was set. ``HaulError/field`` names it.
        public static let invalidSetting = Code(.invalidSetting)
        /// Redis does not answer or refuses commands for a while, or the connection broke. Redis may or may not have
        /// executed the call. Pushes and control operations may be repeated.
        public static let unreachable = Code(.unreachable)
        /// Redis refuses the password, its certificate is not trusted, or its user lacks a right.
        public static let refused = Code(.refused)
        /// Redis answered with another error.
        public static let redis = Code(.redis)
        /// The timeout has passed. A job that the call waited for goes on.
        public static let timedOut = Code(.timedOut)
        /// The calling task was cancelled. A job that the call waited for goes on.
        public static let cancelled = Code(.cancelled)
        /// The jobs were pushed, but too few replicas acknowledged the push in time.
        public static let notReplicated = Code(.notReplicated)
        /// A worker found that the pushed element is not a valid job. The push changed nothing.
        public static let rejected = Code(.rejected)
        /// The job failed. ``HaulError/jobError`` says why. Only ``JobResult/get()`` throws this error.
        public static let jobFailed = Code(.jobFailed)
        /// The job was cancelled or removed. Only ``JobResult/get()`` throws this error.
        public static let jobCancelled = Code(.jobCancelled)
        /// The queue keeps no events, because its setting `event_stream` is absent.
        public static let eventsNotKept = Code(.eventsNotKept)
        /// ``HaulQueue/close()`` was called.
        public static let closed = Code(.closed)
    }

    /// The kind of the error.
    public let code: Code
    /// One sentence that says what to do. It contains no secret.
    public let message: String
    /// The wrong field of an invalid job, or the name of an invalid setting. nil if the error concerns no single field.
    public private(set) var field: String?
    /// Why the job failed, for ``HaulError/Code-swift.struct/jobFailed``.
    public private(set) var jobError: ErrorCode?

    /// The code and the message.
    public var description: String { "\(code): \(message)" }

    init(_ code: Code, _ message: String) { (self.code, self.message) = (code, message) }

    init(_ invalid: Job.Invalid) {
        self.init(.invalidJob, "\(invalid)")
        field = invalid.field
    }

    init(setting name: String, _ message: String) {
        self.init(.invalidSetting, message)
        field = name
    }

    init(_ jobError: ErrorCode?, _ message: String) {
        self.init(.jobFailed, message)
        self.jobError = jobError
    }

    init(_ error: RedisError) {
        let code: Code =
            switch error.code {
            case .badURL: .invalidURL
            case .closed where error == .clientClosed: .closed
            case .authentication, .noPermission, .certificate: .refused
            case .timedOut: .timedOut
            case .cancelled: .cancelled
            case _ where error.isTransient: .unreachable
            default: .redis
            }
        self = code == .closed ? .closed : HaulError(code, error.message)
    }

    static let cancelled = HaulError(.cancelled, "the task that waited was cancelled; the job goes on")
    static let closed = HaulError(.closed, "the queue was closed")
}

/// Translates the errors of `body` into errors of this library.
func mappingErrors<T>(_ body: () async throws(RedisError) -> T) async throws(HaulError) -> T {
    do { return try await body() } catch { throw HaulError(error) }
}

/// Calls `read`, and retries while Redis is unreachable, until the deadline if there is one. For whatever promises to go
/// on when Redis is back.
func retryingWhileUnreachable<T>(
    until deadline: ContinuousClock.Instant? = nil, _ read: () async throws(HaulError) -> T
) async throws(HaulError) -> T {
    while true {
        do throws(HaulError) { return try await read() } catch {
            guard error.code == .unreachable || error.code == .timedOut, !Task.isCancelled else { throw error }
            if let deadline, deadline <= .now { throw error }
            try? await Task.sleep(for: .milliseconds(100))
        }
    }
}
