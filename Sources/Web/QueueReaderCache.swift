package import HaulBus
import HaulContract
import HaulRedis

/// Reads one queue for the API, and for commands that show the same. It caches what stays valid between two reads.
package actor QueueReaderCache {
    nonisolated let queue: Queue

    /// The ids of running jobs, and those of ended members of batches, with the time of their reading.
    var running: (ids: [String], readAt: ContinuousClock.Instant)?
    var members: [String: Members] = [:]
    /// The facts of running jobs, and when they were last read.
    var facts: [String: JobFacts] = [:]
    var factsReadAt: ContinuousClock.Instant?
    /// The workers that are not lost, and when they were read.
    var present: (names: Set<String>, readAt: ContinuousClock.Instant)?
    /// The read in progress, which all callers share.
    var factsTask: Task<Void, any Error>?
    /// The index of the first running job that the next read covers.
    var nextFactsIndex = 0
    /// The facts of the newest jobs of each state. A `ListedJob` has the timestamp at which the job entered the state.
    var listed: [JobState: [ListedJob: JobFacts]] = [:]
    /// Some waiting jobs, and when they were read.
    var waiting: (jobs: [ListedJob], readAt: ContinuousClock.Instant)?
    /// The settings and the valid limits of hosts and groups, and when they were read.
    var configuration: (settings: [String: String], limits: [String: String], readAt: ContinuousClock.Instant)?
    /// The history of past hours, by their number since 1970.
    private var hours: [Int64: [HistoryMinute]] = [:]

    package init(_ queue: Queue) { self.queue = queue }

    // MARK: Overview

    package func overview() async throws -> String {
        let now = try await queue.time()
        let stats = try await queue.stats()
        var json = JSONObject()
        json.set("queue", queue.name.text)
        json.set("now", now)
        var counts = JSONObject()
        for state in JobState.allCases { counts.set(state.rawValue, stats.counts[state] ?? 0) }
        json.set("counts", json: counts.text)
        json.set("rejected", stats.rejected)
        json.set("batches", try await queue.batchCount())
        json.set("paused", stats.isPaused)
        if stats.isPartlyPaused { json.set("paused_partitions", stats.pausedPartitions) }
        if stats.isPaused, let change = try await queue.changeThatPaused() {
            json.set("paused_by", change.by)
            json.set("paused_at", change.at)
        }
        json.set("max_running", stats.maxRunning)
        let workers = try await queue.workers().map(\.fields)
        json.set("workers", json: Self.counts(of: workers, now))
        json.set("oldest_waiting", try await oldest(in: stats.waiting))
        let running = try await runningFacts()
        json.set("speed", running.values.reduce(0) { $0 + $1.speed })
        json.set("speed_of", running.count)
        let scheduled = try await scheduledReasons(stats)
        json.set("waiting_for", json: Ranking(running.values.compactMap(\.waiting) + scheduled).json())
        if let ages = Ages.json(of: running.values.compactMap(\.started), now: now) {
            json.set("running_ages", json: ages)
        }
        if let ages = Ages.json(of: try await waitingSample().compactMap(\.timestamp), now: now) {
            json.set("waiting_ages", json: ages)
        }
        if stats.counts[.scheduled] ?? 0 > 0 {
            json.set("next_scheduled", try await queue.listed(in: .scheduled, from: 0, limit: 1).first?.timestamp)
        }
        let bottlenecks = try await bottlenecks(stats, workers, scheduled: scheduled, now)
        json.set("bottlenecks", json: "[\(bottlenecks.map(\.json).joined(separator: ","))]")
        json.set("failures", json: try await failuresJSON(now))
        return json.text
    }

    private static func counts(of workers: [[String: String]], _ now: Int64) -> String {
        let counts = Dictionary(workers.map { (WorkerState($0, now: now), 1) }, uniquingKeysWith: +)
        var json = JSONObject()
        for state in WorkerState.allCases { json.set(state.rawValue, counts[state] ?? 0) }
        return json.text
    }

    /// The timestamp of the push that waits longest, unix ms. nil if none waits, if the next elements do not have it, or
    /// if this user of Redis may not read elements, since these hold secrets.
    private func oldest(in lists: WaitingLists) async throws -> Int64? {
        let first: [ListedJob]
        do throws(RedisError) { first = try await queue.heads(of: lists).map { Queue.listed($0.element) } } catch {
            guard error.code == .noPermission else { throw error }
            return nil
        }
        if let timestamp = first.compactMap(\.timestamp).min() { return timestamp }
        let hashes = try await queue.fields(["updated", "created"], of: first.map(\.id))
        return hashes.compactMap { Int64(field: $0["updated"] ?? $0["created"]) }.min()
    }

    /// The numbers of the newest failures by error, by host, and by both.
    private func failuresJSON(_ now: Int64) async throws -> String {
        let failures = try await listedFacts(in: .failed)
        var json = JSONObject()
        json.set("of", failures.count)
        json.set("by_error", json: Ranking(failures.values.map { $0.error ?? "unknown" }).json())
        json.set("by_host", json: Ranking(failures.values.map(\.host)).json())
        let groups = Self.groups(of: failures, now: now).map(\.json)
        json.set("groups", json: "[\(groups.joined(separator: ","))]")
        return json.text
    }

    // MARK: History

    /// The events of the last `minutes`: for each kind a list of numbers, one for every `step` minutes.
    func history(minutes: Int, step: Int) async throws -> String {
        let now = try await queue.time()
        let width = Int64(step) * 60_000
        let last = now / width
        let first = last - Int64((minutes + step - 1) / step) + 1
        var sums: [String: [Int64]] = [:]
        for name in Queue.historyNames { sums[name] = [Int64](repeating: 0, count: Int(last - first + 1)) }
        for minute in try await recorded(from: first * width, at: now) {
            let index = minute.start / width - first
            guard (0...last - first).contains(index) else { continue }
            for name in Queue.historyNames { sums[name]?[Int(index)] += minute[name] }
        }
        var json = JSONObject()
        json.set("from", first * width)
        json.set("step", width)
        for name in Queue.historyNames {
            json.set(name, json: "[\((sums[name] ?? []).map(String.init).joined(separator: ","))]")
        }
        return json.text
    }

    /// The minutes from the beginning of the hour of `start`. A past hour is read only once.
    private func recorded(from start: Int64, at now: Int64) async throws -> [HistoryMinute] {
        let current = now / 3_600_000
        let span = start / 3_600_000...current
        let unknown = span.filter { hours[$0] == nil }
        let read = Dictionary(grouping: try await queue.history(of: unknown)) { $0.start / 3_600_000 }
        for hour in unknown where hour < current { hours[hour] = read[hour] ?? [] }
        hours = hours.filter { $0.key >= current - Int64(Queue.historyHours) }
        return span.flatMap { read[$0] ?? hours[$0] ?? [] }
    }

    // MARK: Workers, rejected elements

    package func workers() async throws -> String {
        let now = try await queue.time()
        let running = Dictionary(grouping: try await runningFacts().values) { $0.worker ?? "" }
        let workers = try await queue.workers().map { name, fields in
            var json = JSONObject()
            json.set("name", name)
            json.set("state", WorkerState(fields, now: now).rawValue)
            for member in Shapes.worker
            where !["name", "state", "speed", "waiting"].contains(member.name) {
                json.set(member.name, json: fields[member.name].flatMap { member.kind.json($0) })
            }
            let jobs = running[name] ?? []
            json.set("speed", jobs.reduce(0) { $0 + $1.speed })
            json.set("waiting", json: Ranking(jobs.compactMap(\.waiting)).json())
            return json.text
        }
        return #"{"now":\#(now),"workers":[\#(workers.joined(separator: ","))]}"#
    }

    /// The newest rejected elements. A viewer does not see the elements, since they may hold secrets.
    func rejected(limit: Int, withElements: Bool) async throws -> String {
        let entries = try await queue.rejected(limit: limit).map { text in
            guard let entry = try? JSON(text) else { return JSON.quoted(withElements ? text : "") }
            var json = JSONObject()
            json.set("at", entry["at"]?.integer)
            json.set("reason", entry["reason"]?.string)
            if withElements { json.set("element", entry["element"]?.string) }
            return json.text
        }
        return #"{"rejected":[\#(entries.joined(separator: ","))]}"#
    }
}
