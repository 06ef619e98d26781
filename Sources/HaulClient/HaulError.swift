import HaulRedis

/// Why a call did not do what was asked: a stable code, and one sentence that says what to do.
public struct HaulError: Error, Sendable, Equatable, CustomStringConvertible {
    /// What kind of error it is. Open: later versions may have more.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        private enum Name: String {
            case invalidURL, invalidQueueName, invalidJob, invalidSetting, unreachable, refused, redis, timedOut,
                cancelled,
                notReplicated
            case rejected, jobFailed, jobCancelled, closed
        }
        private let name: Name
        private init(_ name: Name) { self.name = name }
        /// The code's name.
        public var description: String { name.rawValue }

        /// The text is no Redis URL.
        public static let invalidURL = Code(.invalidURL)
        /// The text is no name of a queue.
        public static let invalidQueueName = Code(.invalidQueueName)
        /// The job would be rejected. Nothing was pushed. ``HaulError/field`` names what is wrong.
        public static let invalidJob = Code(.invalidJob)
        /// A queue cannot have this setting, default or limit. Nothing was set. ``HaulError/field`` names it.
        public static let invalidSetting = Code(.invalidSetting)
        /// Redis does not answer, or the connection broke. What was sent may or may not have been done: pushes and requests
        /// may be repeated.
        public static let unreachable = Code(.unreachable)
        /// Redis refuses the password, or the user lacks a right.
        public static let refused = Code(.refused)
        /// Redis answered with another error.
        public static let redis = Code(.redis)
        /// The time was over. A job that is awaited goes on.
        public static let timedOut = Code(.timedOut)
        /// The task that asked was cancelled. The job goes on.
        public static let cancelled = Code(.cancelled)
        /// The jobs were pushed, but too few replicas said in time that they have them.
        public static let notReplicated = Code(.notReplicated)
        /// A worker could not read the push, and changed nothing.
        public static let rejected = Code(.rejected)
        /// The job ended as failed: ``HaulError/jobError`` says why. Only ``JobResult/get()`` throws it.
        public static let jobFailed = Code(.jobFailed)
        /// The job was cancelled or removed. Only ``JobResult/get()`` throws it.
        public static let jobCancelled = Code(.jobCancelled)
        /// The queue object was closed.
        public static let closed = Code(.closed)
    }

    /// What kind of error it is.
    public let code: Code
    /// One sentence that a person can act on. It holds no secret.
    public let message: String
    /// The wrong field of an invalid job, or the name of an invalid setting; nil if the whole is wrong.
    public private(set) var field: String?
    /// Why the job failed.
    public private(set) var jobError: ErrorCode?

    /// The code and the sentence.
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
            case .unreachable, .noPrimary, .closed, .loading, .masterDown, .clusterDown, .noReplicas, .tooManyClients:
                .unreachable
            case .authentication, .noPermission, .certificate: .refused
            case .timedOut: .timedOut
            case .cancelled: .cancelled
            default: .redis
            }
        self = code == .closed ? .closed : HaulError(code, error.message)
    }

    static let cancelled = HaulError(.cancelled, "the task that waited was cancelled; the job goes on")
    static let closed = HaulError(.closed, "the queue was closed")
}

/// Says what Redis says in this library's words.
func reaching<T>(_ body: () async throws(RedisError) -> T) async throws(HaulError) -> T {
    do { return try await body() } catch { throw HaulError(error) }
}
