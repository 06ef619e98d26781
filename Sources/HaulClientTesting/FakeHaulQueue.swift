import Glibc
public import HaulClient
import HaulContract
import Synchronization

/// A queue without Redis and without workers, for the tests of a service.
///
///     let fake = FakeHaulQueue { job in job.urls[0].hasSuffix("/missing") ? .failed(.http(404)) : .completed(bytes: 7) }
///     let result = try await fake.queue.push(Job("https://example.org/missing")).result(timeout: .seconds(5))
///     #expect(result.error == .http(404))
///
/// Hand ``queue`` to your service: it is a real `HaulQueue`, connected to a server in this process. The same client code
/// checks and pushes the jobs, follows events, and delivers and acknowledges replies. A job is taken as soon as it is
/// pushed. What becomes of it is said by the closure, or later by ``end(_:with:)``.
///
/// It leaves out batches, settings, kept events, delays, deadlines, retries, limits and the order among waiting jobs.
public final class FakeHaulQueue: Sendable {
    /// What becomes of a job.
    public enum Outcome: Sendable {
        /// It runs until the test calls ``FakeHaulQueue/end(_:with:)``.
        case running
        /// A download is complete. Without a name the file is named after the job's path and URL.
        case completed(file: String? = nil, bytes: Int64 = 0)
        /// A request or an upload has a response: the job is completed if its `expect` has the status, and has failed
        /// otherwise.
        case response(status: Int = 200, headers: [HeaderField] = [], body: [UInt8] = [])
        /// The job has failed.
        case failed(ErrorCode, message: String = "", isRetryable: Bool = false)
        /// The job was cancelled.
        case cancelled
    }

    /// The queue for the service.
    public let queue: HaulQueue
    private let store: FakeStore
    private let server: FakeRedis

    /// - Parameters:
    ///   - name: The name of the queue.
    ///   - script: Says what becomes of a job that is pushed. Without it jobs stay running.
    public init(_ name: String = "default", script: (@Sendable (Job) -> Outcome)? = nil) {
        let store = FakeStore(name, script: script ?? { _ in .running })
        let server = FakeRedis { [store] in store.respond($0, $1) }
        (self.store, self.server) = (store, server)
        store.publish = { [weak server] in server?.publish($0, on: $1) }
        do { queue = try HaulQueue(redis: server.url, queue: name) } catch { preconditionFailure("\(error)") }
    }

    /// Every valid job that was pushed, in order, repeats included.
    public var pushed: [Job] { store.state.withLock { $0.pushed } }

    /// Publishes progress of a running job.
    public func progress(_ id: String, received: Int64, total: Int64? = nil) {
        store.change { $0.progress(id, received, total) }
    }

    /// Ends a running job.
    ///
    /// - Returns: Whether there is a running or paused job with this id.
    @discardableResult
    public func end(_ id: String, with outcome: Outcome) -> Bool { store.change { $0.end(id, outcome) } }

    /// How many workers the queue reports. With none, a wait for a job says so when it times out. Jobs run nevertheless.
    public var workers: Int {
        get { store.state.withLock { $0.workers } }
        set { store.state.withLock { $0.workers = newValue } }
    }

    /// Ends all connections, and lets Redis be unreachable until ``reconnect()``.
    public func disconnect() { server.stop() }

    /// Lets Redis be reachable again.
    public func reconnect() { server.start() }
}
