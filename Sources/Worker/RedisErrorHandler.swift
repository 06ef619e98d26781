import CoreMetrics
import HaulBus
import HaulRedis
import Logging
import Synchronization

/// Logs the errors of Redis and the end of an outage for everything that serves a queue, and pauses before retries.
final class RedisErrorHandler: Sendable {
    /// The operations on Redis, as the log names them.
    enum Operation: String {
        case registering
        case waiting = "waiting for jobs"
        case settling = "settling a job"
        case ticking = "maintaining the queue"
        case listening = "listening to the control channel"
    }

    private let queue: Queue
    private let worker: WorkerIdentity
    private let grace: Grace
    private let log: Logger
    private let metrics: QueueMetrics
    private let state = Mutex((throttle: ErrorThrottle(), outage: Outage(), successes: 0))

    init(_ queue: Queue, _ worker: WorkerIdentity, _ grace: Grace, log: Logger, metrics: QueueMetrics) {
        (self.queue, self.worker, self.grace, self.log, self.metrics) = (queue, worker, grace, log, metrics)
    }

    /// How many operations have worked so far.
    var successes: Int { state.withLock { $0.successes } }

    /// - Parameter job: The id of the job that the operation is for.
    func pause(after error: RedisError, while operation: Operation, of job: String? = nil) async {
        record(error, while: operation, of: job)
        await grace.sleep(for: .milliseconds(Int.random(in: 200...800)))
    }

    func record(_ error: RedisError, while operation: Operation, of job: String? = nil) {
        guard !Task.isCancelled else { return }
        metrics.redisFailures.increment()
        let shouldLog = state.withLock { state in
            state.outage.recordFailure(of: operation.rawValue)
            return state.throttle.shouldLog(error.message)
        }
        guard shouldLog else { return }
        var metadata: Logger.Metadata = ["while": "\(operation.rawValue)", "reason": "\(error)"]
        if let job { metadata["job"] = "\(job)" }
        log.warning("Redis failed", metadata: metadata)
        // Redis does not say which key has the wrong type.
        if error.code == .wrongType { Task { await reportWrongTypes() } }
    }

    /// Logs that Redis is back, once everything that failed works again.
    func recordSuccess(of operation: Operation) {
        let ended = state.withLock { state in
            state.successes += 1
            return state.outage.recordSuccess(of: operation.rawValue)
        }
        guard let outage = ended else { return }
        log.notice("Redis is back", metadata: ["seconds": .stringConvertible(outage.roundedSeconds)])
    }

    private func reportWrongTypes() async {
        for finding in (try? await Inspection(queue).wrongTypes(for: worker)) ?? [] {
            log.error("\(finding.subject): \(finding.problem)", metadata: ["advice": "\(finding.advice)"])
        }
    }
}

/// Decides which errors are logged. The error that was logged last is logged again after ten seconds at the earliest,
/// another error after one second.
struct ErrorThrottle {
    private var last: (reason: String, at: ContinuousClock.Instant)?

    /// Whether `reason` is to be logged now.
    mutating func shouldLog(_ reason: String, at now: ContinuousClock.Instant = .now) -> Bool {
        if let last, now - last.at < .seconds(last.reason == reason ? 10 : 1) { return false }
        last = (reason, now)
        return true
    }
}

/// The operations on Redis that fail, so that its return is logged once, when all of them work again.
struct Outage {
    private var failing: Set<String> = []
    private var failingSince: ContinuousClock.Instant?

    /// Records that an operation failed.
    mutating func recordFailure(of operation: String, at now: ContinuousClock.Instant = .now) {
        failing.insert(operation)
        failingSince = failingSince ?? now
    }

    /// Records that an operation worked. Returns how long the outage lasted, if no other operation still fails.
    mutating func recordSuccess(of operation: String, at now: ContinuousClock.Instant = .now) -> Duration? {
        guard !failing.isEmpty, failing.remove(operation) != nil, failing.isEmpty, let start = failingSince.take()
        else {
            return nil
        }
        return now - start
    }
}
