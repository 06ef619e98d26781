package import HaulBus
import HaulContract
import HaulRedis

/// Reports the metrics of queues, over the whole fleet: docs/operate/metrics.md.
package final class QueueExporter: Sendable {
    /// The limit for reading one queue. A scraper waits for 10 s, and needs the process' metrics even if Redis hangs.
    private static let maxTime: Duration = .seconds(3)

    private let queues: [Queue]
    private let readings: [SharedQuery<QueueReading?>]

    /// - Parameter queues: Queues with Redis clients of their own, so that a scrape does not delay other calls.
    package init(_ queues: [Queue]) {
        self.queues = queues
        readings = queues.map { queue in
            let reader = QueueReader(queue)
            return SharedQuery(limit: Self.maxTime) { await reader.read() }
        }
    }

    /// Closes the queues' clients.
    package func close() async {
        for queue in queues { await queue.close() }
    }

    /// Reads all queues concurrently, and adds their samples.
    package func add(to exposition: inout Exposition) async {
        let values = await withTaskGroup(of: (Int, QueueReading?).self) { group in
            for (index, reading) in readings.enumerated() {
                group.addTask { (index, await reading.value() ?? nil) }
            }
            var values = [QueueReading?](repeating: nil, count: readings.count)
            for await (index, value) in group { values[index] = value }
            return values
        }
        for (queue, value) in zip(queues, values) {
            let label = [(name: "queue", value: "\(queue.name)")]
            exposition.add(.queueUp, label, value == nil ? 0 : 1)
            value?.add(to: &exposition, label)
        }
    }
}

/// Reads a queue, at most once per second.
private actor QueueReader {
    private let queue: Queue
    private var last: (reading: QueueReading, at: ContinuousClock.Instant)?
    /// By list: a hash of its next element, and when a reading first found this element there.
    private var heads: [String: (hash: Int, since: ContinuousClock.Instant)] = [:]
    private var totals = QueueTotals()

    init(_ queue: Queue) { self.queue = queue }

    /// nil if Redis does not answer or refuses.
    func read() async -> QueueReading? {
        if let last, .now - last.at < .seconds(1) { return last.reading }
        guard let stats = try? await queue.stats(), let workers = try? await queue.workers(),
            let now = try? await queue.time()
        else { return nil }
        var waited: Double?
        // An ACL may forbid the list of waiting jobs or the totals. The rest is reported nevertheless.
        do { waited = wait(of: try await queue.heads(), at: now) } catch { heads = [:] }
        do { totals.update(with: try await queue.totals()) } catch {
            guard error.code == .noPermission else { return nil }
            totals = QueueTotals()
        }
        guard let gauges = try? await queue.gauges() else { return nil }
        let reading = QueueReading(
            stats: stats, workers: workers.map(\.fields), waited: waited, totals: totals, gauges: gauges, now: now)
        last = (reading, .now)
        return reading
    }

    /// The age of the oldest of the next elements in seconds; 0 if none waits.
    private func wait(of next: [(key: String, element: [UInt8])], at now: Int64) -> Double {
        let known = heads
        heads = [:]
        return next.map { wait(of: $0.element, known[$0.key], in: $0.key, at: now) }.max() ?? 0
    }

    /// The age of an element: since its `at`, or since it was first seen, whichever is longer.
    private func wait(
        of element: [UInt8], _ known: (hash: Int, since: ContinuousClock.Instant)?, in list: String, at now: Int64
    ) -> Double {
        let hash = element.hashValue
        let since = known?.hash == hash ? known?.since ?? .now : .now
        heads[list] = (hash, since)
        let watched = Double((ContinuousClock.now - since).milliseconds) / 1000
        guard let pushed = (try? JSON(element))?["at"]?.timestamp else { return watched }
        return max(watched, Double(now - pushed) / 1000)
    }
}
