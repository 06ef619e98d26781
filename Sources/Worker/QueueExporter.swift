import HaulBus
import HaulContract
import HaulMetrics
import HaulRedis

/// The figures of the worker's queues, as the whole fleet serves them: docs/metrics.md. It has clients of Redis of its own, so
/// that no scrape stands in the way of the worker's own commands.
final class QueueExporter: Sendable {
    /// Scrapers wait for 10 seconds, and a Redis that hangs must not take the worker's own figures from them.
    private static let patience: Duration = .seconds(3)

    private let queues: [Queue]
    private let readings: [Question<QueueReading?>]

    init(_ configuration: WorkerConfiguration) {
        queues = configuration.queues.map { queue in
            Queue(queue.name, redis: Redis(configuration.redis, name: "haul-\(configuration.name)-export"))
        }
        readings = queues.map { queue in
            let reader = QueueReader(queue)
            return Question(limit: Self.patience) { await reader.read() }
        }
    }

    func close() async {
        for queue in queues { await queue.redis.close() }
    }

    /// Reads all queues at the same time.
    func add(to exposition: inout Exposition) async {
        let answers = await withTaskGroup(of: (Int, QueueReading?).self) { group in
            for (index, reading) in readings.enumerated() {
                group.addTask { (index, await reading.answer() ?? nil) }
            }
            var answers = [QueueReading?](repeating: nil, count: readings.count)
            for await (index, answer) in group { answers[index] = answer }
            return answers
        }
        for (queue, answer) in zip(queues, answers) {
            let label = [(name: "queue", value: "\(queue.name)")]
            exposition.add(.queueUp, label, answer == nil ? 0 : 1)
            answer?.add(to: &exposition, label)
        }
    }
}

/// What one look at a queue has brought.
struct QueueReading: Sendable {
    let stats: QueueStats
    /// Of the workers that were seen within `Queue.silence`: how many, their slots, and how many of these are taken.
    private(set) var workers = 0
    private(set) var slots = 0
    private(set) var taken = 0
    /// Seconds; nil where it may not be known.
    let waited: Double?

    /// Anybody may write into a hash: a sum of these does not overflow.
    private static let largest = 1 << 32

    init(stats: QueueStats, workers: [[String: String]], waited: Double?, now: Int64) {
        (self.stats, self.waited) = (stats, waited)
        for fields in workers {
            guard let seen = fields["seen"].flatMap({ Int64($0) }), seen >= now - Int64(Queue.silence) * 1000 else {
                continue
            }
            let running = Self.count(fields["running"]) ?? 0
            self.workers += 1
            taken += running
            slots += Self.count(fields["slots"]) ?? running
        }
    }

    private static func count(_ text: String?) -> Int? { text.flatMap { Int($0) }.map { min(max(0, $0), largest) } }

    func add(to exposition: inout Exposition, _ label: Exposition.Labels) {
        for state in JobState.allCases {
            exposition.add(.queueJobs, label + [("state", state.rawValue)], stats.counts[state] ?? 0)
        }
        if let waited { exposition.add(.queueOldestWaiting, label, waited) }
        exposition.add(.queueRejected, label, stats.rejected)
        exposition.add(.queueWorkers, label, workers)
        exposition.add(.queueSlots, label, slots)
        exposition.add(.queueSlotsTaken, label, taken)
        exposition.add(.queuePaused, label, stats.isPaused ? 1 : 0)
        if let most = stats.maxRunning { exposition.add(.queueMaxRunning, label, most) }
        if let moment = stats.lastLook { exposition.add(.queueLastTick, label, Double(moment) / 1000) }
    }
}

/// Reads a queue, at most once in a second.
private actor QueueReader {
    private let queue: Queue
    private var last: (reading: QueueReading, at: ContinuousClock.Instant)?
    /// The hash of the element that is next in line, and since when it was seen there.
    private var head: (hash: Int, since: ContinuousClock.Instant)?

    init(_ queue: Queue) { self.queue = queue }

    /// nil if Redis does not answer, or refuses.
    func read() async -> QueueReading? {
        if let last, .now - last.at < .seconds(1) { return last.reading }
        guard let stats = try? await queue.stats(), let workers = try? await queue.workers(),
            let now = try? await queue.time()
        else { return nil }
        var waited: Double?
        // Who may not read what waits may know the rest all the same.
        do { waited = wait(of: try await queue.head(), at: now) } catch { head = nil }
        let reading = QueueReading(stats: stats, workers: workers.map(\.fields), waited: waited, now: now)
        last = (reading, .now)
        return reading
    }

    /// Seconds since the element's `at`, or else since it was first seen there.
    private func wait(of element: [UInt8]?, at now: Int64) -> Double {
        guard let element else {
            head = nil
            return 0
        }
        let hash = element.hashValue
        let since = head?.hash == hash ? head?.since ?? .now : .now
        head = (hash, since)
        let watched = Double((ContinuousClock.now - since).milliseconds) / 1000
        guard let pushed = (try? JSON(element))?["at"]?.integer, JobField.moments.contains(pushed) else {
            return watched
        }
        return max(watched, Double(now - pushed) / 1000)
    }
}
