import CoreMetrics
import HaulContract
import HaulMetrics
import Synchronization

/// The metrics of one queue as this worker serves it.
///
/// It has a stored property for each metric, so that counting needs no lookup.
final class QueueMetrics: Sendable {
    /// How a run ended, and with which error.
    private struct End: Hashable {
        let result: String
        let code: String
    }

    let claims: Counter
    let takeovers: Counter
    let resumes: Counter
    let restarts: Counter
    let fenced: Counter
    let refetched: Counter
    let redisFailures: Counter
    let runs: CoreMetrics.Timer
    let claiming: CoreMetrics.Timer
    let settling: CoreMetrics.Timer
    let ticks: CoreMetrics.Timer
    let checkpoints: CoreMetrics.Timer
    let commits: CoreMetrics.Timer
    private let queue: String
    private let registry: MetricsRegistry
    private let ends = Mutex<[End: Counter]>([:])
    /// When the last tick of the whole queue began, and when Redis last replied to one; nil before the first one.
    private let tickTimes = Mutex<(started: ContinuousClock.Instant?, replied: ContinuousClock.Instant?)>((nil, nil))

    /// The maximum number of error codes that are counted separately. Servers can make up codes like `http_599`.
    private static let maxCodes = 100

    init(queue: String, in registry: MetricsRegistry) {
        func counter(_ metric: Metric) -> Counter { Counter(metric, [("queue", queue)], in: registry) }
        func timer(_ metric: Metric) -> CoreMetrics.Timer {
            CoreMetrics.Timer(metric, [("queue", queue)], in: registry)
        }
        claims = counter(.claims)
        takeovers = counter(.takeovers)
        resumes = counter(.resumes)
        restarts = counter(.restarts)
        fenced = counter(.fenced)
        refetched = counter(.refetchedBytes)
        redisFailures = counter(.redisFailures)
        runs = timer(.runDuration)
        claiming = timer(.claimDuration)
        settling = timer(.settleDuration)
        ticks = timer(.tickDuration)
        checkpoints = CoreMetrics.Timer(.checkpointDuration, in: registry)
        commits = CoreMetrics.Timer(.commitDuration, in: registry)
        (self.queue, self.registry) = (queue, registry)
    }

    func ended(_ result: String, code: ErrorCode?) {
        let (end, known) = ends.withLock { ends in
            var end = End(result: result, code: code?.rawValue ?? "")
            if ends[end] == nil, !end.code.isEmpty, Set(ends.keys.map(\.code)).count >= Self.maxCodes {
                end = End(result: result, code: "other")
            }
            return (end, ends[end])
        }
        if let known { return known.increment() }
        // The registry has a lock of its own. It has one counter for these labels, even if two runs ask at once.
        let counter = Counter(
            .runsEnded, [("queue", queue), ("result", end.result), ("code", end.code)], in: registry)
        ends.withLock { $0[end] = counter }
        counter.increment()
    }

    /// A gate has judged a file. A worker without a gate has no such metric.
    func judged(_ result: String, duration: Duration) {
        CoreMetrics.Timer(.gateDuration, [("queue", queue), ("result", result)], in: registry).record(duration)
    }

    /// A run of a webhook has ended. A worker that sends none has no such metric.
    func sentWebhook(_ result: String) {
        func counter(_ result: String) -> Counter {
            Counter(.webhooks, [("queue", queue), ("result", result)], in: registry)
        }
        // The first failure is an increase only if the counter was 0 before.
        for name in ["completed", "retried", "failed"] where name != result { counter(name).increment(by: 0) }
        counter(result).increment()
    }

    func recordTickStart() { tickTimes.withLock { $0.started = .now } }

    func recordTickReply() { tickTimes.withLock { $0.replied = .now } }

    /// How long ago the last tick of the whole queue began; nil before the first one.
    var sinceTickStart: Duration? { tickTimes.withLock { $0.started }.map { .now - $0 } }

    /// How long ago Redis last replied to a tick of the whole queue; nil before the first reply.
    var sinceTickReply: Duration? { tickTimes.withLock { $0.replied }.map { .now - $0 } }

    /// When Redis last replied to a tick of the whole queue, in unix ms.
    var lastTickReply: Int64? { sinceTickReply.map { UnixTime.milliseconds - Int64($0.milliseconds) } }
}
