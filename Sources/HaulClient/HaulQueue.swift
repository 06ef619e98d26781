import HaulBus
public import HaulContract
import HaulRedis

/// A Haul queue, as a service uses it: push downloads, steer them, await their ends.
///
///     let queue = try HaulQueue(redis: "redis://127.0.0.1:6379")
///     let id = try await queue.push(#"{"url":"https://example.org/a.iso","path":"a.iso"}"#)
///     let result = try await queue.result(of: id)
///
/// Any language does the same with a plain LPUSH; docs/bus.md is the contract.
public struct HaulQueue: Sendable {
    /// What went wrong, in a sentence that says what to do.
    public struct Failure: Error, Sendable, CustomStringConvertible {
        public let description: String
    }

    /// How a job ended.
    public struct Result: Sendable {
        public let id: String
        public let state: JobState
        /// Relative to the workers' root.
        public let file: String?
        public let error: ErrorCode?
        public let message: String?
    }

    private let queue: Queue

    /// `redis` is a URL: redis://[user:password@]host[:port][/db] or unix:///path. Connects when first used.
    public init(redis: String, queue name: String = "default") throws(Failure) {
        guard let name = QueueName(name) else {
            throw Failure(description: "a queue's name is 1 to 64 of the characters A-Z a-z 0-9 . _ -")
        }
        do { queue = Queue(name, redis: Redis(try RedisURL(redis), name: "haul-client")) } catch {
            throw Failure(description: error.message)
        }
    }

    /// Puts a job in line and returns its id. `json` is an object as docs/bus.md describes it; it is checked first.
    @discardableResult
    public func push(_ json: String) async throws(Failure) -> String {
        let element = try element(json)
        _ = try await reaching { () throws(RedisError) in try await queue.push(now: [element]) }
        return element.id
    }

    /// Puts a job in line and waits for the end that this push leads to, even if the job had ended before.
    public func download(_ json: String) async throws(Failure) -> Result {
        let element = try element(json)
        let pushed = try await reaching { () throws(RedisError) in try await queue.push(now: [element]) }
        return try await result(of: element.id, pushedAt: pushed[element.id])
    }

    /// Asks for a pause; the offsets are kept. Takes effect within 3 seconds.
    public func pause(_ ids: String...) async throws(Failure) { try await request(.paused, ids) }

    /// Resumes what is paused, or retries what has failed, at the front of the line.
    public func resume(_ ids: String...) async throws(Failure) { try await request(.running, ids) }

    /// Ends jobs and removes their partial files.
    public func cancel(_ ids: String...) async throws(Failure) { try await request(.cancelled, ids) }

    /// The state of a job, nil while no worker has seen it.
    public func state(of id: String) async throws(Failure) -> JobState? {
        try await reaching { () throws(RedisError) in try await queue.job(id)?.state }
    }

    /// The job's events as they are published, from now on; ends when the task is cancelled.
    public func events(of id: String) -> AsyncStream<Event> {
        let subscription = queue.events(of: [id])
        return AsyncStream { continuation in
            let task = Task {
                for await element in subscription {
                    if case .message(_, let payload) = element, let event = Event(payload) { continuation.yield(event) }
                }
                continuation.finish()
            }
            continuation.onTermination = { _ in task.cancel() }
        }
    }

    /// Waits until the job is completed, failed or cancelled, at once if it is already. Lost messages do not matter: the
    /// hash is looked at.
    public func result(of id: String) async throws(Failure) -> Result { try await result(of: id, pushedAt: nil) }

    /// The end that a push of this moment leads to; any without one.
    private func result(of id: String, pushedAt moment: Int64?) async throws(Failure) -> Result {
        while true {
            let record = try await reaching { () throws(RedisError) in try await queue.job(id) }
            if let record, moment.map(record.hasEnded(since:)) ?? record.hasEnded {
                return Result(
                    id: id, state: record.state, file: record["file"], error: record["error"].map(ErrorCode.init),
                    message: record["message"])
            }
            if let moment, record == nil,
                !(try await reaching { () throws(RedisError) in try await queue.removed([id: moment]) }).isEmpty
            {
                return Result(id: id, state: .cancelled, file: nil, error: nil, message: "the job was removed")
            }
            do { try await Task.sleep(for: .milliseconds(500)) } catch { throw Failure(description: "cancelled") }
        }
    }

    private func element(_ json: String) throws(Failure) -> Element {
        do { return try Element(try JSON(json)) } catch { throw Failure(description: "\(error)") }
    }

    private func request(_ request: Request, _ ids: [String]) async throws(Failure) {
        try await reaching { () throws(RedisError) in try await queue.request(request, of: ids) }
    }

    private func reaching<T>(_ body: () async throws(RedisError) -> T) async throws(Failure) -> T {
        do { return try await body() } catch { throw Failure(description: error.message) }
    }
}
