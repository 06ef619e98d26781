import HaulBus
import HaulContract
import HaulRedis

/// Reads one queue for the API. It caches what stays valid between two reads.
actor QueueReaderCache {
    nonisolated let queue: Queue

    /// The ids of running jobs, and those of ended members of batches, with the time of their reading.
    var running: (ids: [String], read: ContinuousClock.Instant)?
    var members: [String: (ids: [BatchState: [String]], read: ContinuousClock.Instant)] = [:]
    /// The speeds of running jobs when they were last read, in bytes per second.
    private var speeds: [String: Int64] = [:]
    /// The index of the running job whose speed is read next.
    private var nextSpeed = 0
    /// The history of past hours, by their number since 1970.
    private var hours: [Int64: [HistoryMinute]] = [:]
    /// Errors and hosts of the newest failures. A key has the timestamp of its failure.
    private var failures: [ListedJob: (error: String, host: String)] = [:]

    /// How many speeds one call reads, and how many of the newest failures are counted.
    private static let maxSpeeds = 2000
    private static let maxFailures = 1000

    init(_ queue: Queue) { self.queue = queue }

    // MARK: Overview

    func overview() async throws -> String {
        let now = try await queue.timestamp()
        let stats = try await queue.stats()
        var json = JSONObject()
        json.set("queue", queue.name.text)
        json.set("now", now)
        var counts = JSONObject()
        for state in JobState.allCases { counts.set(state.rawValue, stats.counts[state] ?? 0) }
        json.set("counts", json: counts.text)
        json.set("rejected", stats.rejected)
        json.set("paused", stats.isPaused)
        json.set("max_running", stats.maxRunning)
        json.set("workers", json: try await workerCounts(now))
        json.set("oldest_waiting", try await oldest())
        let (speed, share) = try await speed()
        json.set("speed", speed)
        json.set("speed_of", share)
        json.set("failures", json: try await failuresJSON())
        return json.text
    }

    private func workerCounts(_ now: Int64) async throws -> String {
        var counts: [WorkerState: Int] = [:]
        for (_, fields) in try await queue.workers() { counts[WorkerState(fields, now: now), default: 0] += 1 }
        var json = JSONObject()
        for state in WorkerState.allCases { json.set(state.rawValue, counts[state] ?? 0) }
        return json.text
    }

    /// The timestamp of the push that waits longest, unix ms. nil if none waits, if the next elements do not have it, or
    /// if this user of Redis may not read elements, since these hold secrets.
    private func oldest() async throws -> Int64? {
        let first: [ListedJob]
        do throws(RedisError) { first = try await queue.heads().compactMap { Queue.listed($0.element) } } catch {
            guard error.code == .noPermission else { throw error }
            return nil
        }
        if let timestamp = first.compactMap(\.timestamp).min() { return timestamp }
        let hashes = try await queue.fields(["updated", "created"], of: first.map(\.id))
        return hashes.compactMap { ($0["updated"] ?? $0["created"]).flatMap { Int64($0) } }.min()
    }

    /// The sum of the known speeds of running jobs, and the number of these speeds.
    private func speed() async throws -> (sum: Int64, of: Int) {
        let ids = try await runningIDs()
        if nextSpeed >= ids.count { nextSpeed = 0 }
        let batch = ids[nextSpeed..<min(nextSpeed + Self.maxSpeeds, ids.count)]
        for (id, fields) in zip(batch, try await queue.fields(["speed"], of: batch)) {
            speeds[id] = fields["speed"].flatMap { Int64($0) } ?? 0
        }
        nextSpeed = batch.endIndex
        let current = Set(ids)
        speeds = speeds.filter { current.contains($0.key) }
        return (speeds.values.reduce(0, +), speeds.count)
    }

    /// The numbers of the newest failures by error and by host. Only new failures are read.
    private func failuresJSON() async throws -> String {
        let newest = try await queue.listed(in: .failed, from: 0, limit: Self.maxFailures)
        let unknown = newest.filter { failures[$0] == nil }
        let hashes = try await queue.fields(["error", "url"], of: unknown.map(\.id))
        for (job, fields) in zip(unknown, hashes) {
            failures[job] = (fields["error"] ?? "unknown", JobJSON.host(of: fields["url"]) ?? "unknown")
        }
        let kept = Set(newest)
        failures = failures.filter { kept.contains($0.key) }
        var json = JSONObject()
        json.set("of", failures.count)
        json.set("by_error", json: Self.ranked(failures.values.map(\.error)))
        json.set("by_host", json: Self.ranked(failures.values.map(\.host)))
        return json.text
    }

    /// The most frequent names, as pairs of a name and a count.
    private static func ranked(_ names: [String]) -> String {
        let counts = Dictionary(names.map { ($0, 1) }, uniquingKeysWith: +)
        let first = counts.sorted { ($1.value, $0.key) < ($0.value, $1.key) }.prefix(12)
        return "[\(first.map { "[\(JSON.quoted($0.key)),\($0.value)]" }.joined(separator: ","))]"
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
            let place = minute.start / width - first
            guard (0...last - first).contains(place) else { continue }
            for name in Queue.historyNames { sums[name]?[Int(place)] += minute[name] }
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

    func workers() async throws -> String {
        let now = try await queue.timestamp()
        let workers = try await queue.workers().map { name, fields in
            var json = JSONObject()
            json.set("name", name)
            json.set("state", WorkerState(fields, now: now).rawValue)
            for (field, value) in fields.sorted(by: { $0.key < $1.key }) where Self.shown.contains(field) {
                json.set(field, json: Int64(value).map { "\($0)" } ?? JSON.quoted(value))
            }
            return json.text
        }
        return #"{"now":\#(now),"workers":[\#(workers.joined(separator: ","))]}"#
    }

    private static let shown: Set<String> = ["host", "pid", "version", "slots", "running", "seen", "store"]

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
