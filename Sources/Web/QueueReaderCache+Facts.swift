import HaulBus
import HaulContract
import HaulRedis

// Figures of many jobs. All are computed from samples of a limited size, which the queue's overview, hosts, workers and
// facets share, so that an open page costs Redis the same with a thousand jobs and with a million.

extension QueueReaderCache {
    /// How many running jobs one call reads, and how many of the newest ended jobs are counted.
    private static let maxRunning = 2000
    private static let maxListed = 1000
    /// How many waiting elements are read, in how many pieces from the whole queue, and how often.
    private static let piecesOfSample = 20
    private static let lengthOfPiece = 10
    private static let ageOfSample: Duration = .seconds(5)
    /// How many hosts are described.
    private static let maxHosts = 50
    /// The time that one number of a host's failures stands for, in milliseconds, and how many numbers there are.
    private static let failureStep: Int64 = 300_000
    private static let failureSteps = 12

    // MARK: Samples

    /// What is known of the running jobs. Of more than 2000 each call reads the next 2000.
    func runningFacts() async throws -> [String: JobFacts] {
        if let read = factsRead, read + .milliseconds(850) > .now { return facts }
        let task = factsTask ?? Task { try await readRunningFacts() }
        factsTask = task
        defer { if factsTask == task { factsTask = nil } }
        try await task.value
        return facts
    }

    private func readRunningFacts() async throws {
        let ids = try await runningIDs()
        if nextFact >= ids.count { nextFact = 0 }
        let batch = ids[nextFact..<min(nextFact + Self.maxRunning, ids.count)]
        for (id, fields) in zip(batch, try await queue.fields(JobFacts.fields, of: batch)) {
            facts[id] = JobFacts(fields)
        }
        nextFact = batch.endIndex
        let current = Set(ids)
        facts = facts.filter { current.contains($0.key) }
        factsRead = .now
    }

    /// The newest jobs of a state that has an index by time, with the time of the index. Only new ones are read.
    func listedFacts(in state: JobState) async throws -> [ListedJob: JobFacts] {
        let newest = try await queue.listed(in: state, from: 0, limit: Self.maxListed)
        let known = listed[state] ?? [:]
        let unknown = newest.filter { known[$0] == nil }
        var all = known
        for (job, fields) in zip(unknown, try await queue.fields(JobFacts.fields, of: unknown.map(\.id))) {
            all[job] = JobFacts(fields, job)
        }
        let kept = Set(newest)
        all = all.filter { kept.contains($0.key) }
        listed[state] = all
        return all
    }

    /// Waiting jobs from all parts of the queue; none if this user of Redis may not read elements.
    func waitingSample() async throws -> [ListedJob] {
        if let waiting, waiting.read + Self.ageOfSample > .now { return waiting.jobs }
        let lists = try await queue.waitingLists()
        var jobs: [ListedJob] = []
        let stride = max(Self.lengthOfPiece, lists.count / Self.piecesOfSample)
        do throws(RedisError) {
            for start in Swift.stride(from: 0, to: lists.count, by: stride).prefix(Self.piecesOfSample + 1) {
                jobs += try await queue.listed(in: .queued, from: start, limit: Self.lengthOfPiece, lists)
            }
        } catch {
            guard error.code == .noPermission else { throw error }
            jobs = []
        }
        waiting = (jobs, .now)
        return jobs
    }

    // MARK: Answers

    /// How many jobs of a state have which property.
    func facets(_ state: JobState) async throws -> String {
        let now = try await queue.timestamp()
        var json = JSONObject()
        json.set("state", state.rawValue)
        json.set("total", try await queue.count(in: state))
        let all: [JobFacts]
        switch state {
        case .running: all = Array(try await runningFacts().values)
        case .queued: all = try await waitingSample().map { JobFacts([:], $0) }
        default:
            let listed = try await listedFacts(in: state)
            all = Array(listed.values)
            let times = listed.keys.compactMap(\.timestamp)
            let recent = [1200, 3600, 86_400].map { seconds in
                "[\(seconds),\(times.count { $0 > now - Int64(seconds) * 1000 })]"
            }
            if state != .scheduled { json.set("recent", json: "[\(recent.joined(separator: ","))]") }
        }
        json.set("of", all.count)
        json.set("host", json: Ranking(all.map(\.host)).json())
        json.set("worker", json: Ranking(all.compactMap(\.worker)).json())
        json.set("kind", json: Ranking(all.map(\.kind)).json())
        json.set("batch", json: Ranking(all.flatMap(\.batches)).json())
        json.set("waiting", json: Ranking(all.compactMap(\.waiting)).json())
        json.set("error", json: Ranking(all.compactMap(\.error)).json())
        json.set(
            "retryable", json: Ranking(all.compactMap { $0.retryable.map { $0 ? "true" : "false" } }).json())
        if state == .running {
            json.set("speed", all.reduce(0) { $0 + $1.speed })
            json.set("left", all.reduce(0) { $0 + ($1.left ?? 0) })
        }
        return json.text
    }

    /// The newest failures by error and host, the most frequent first: how many, and when in the last hour.
    func failureGroups(_ failures: [ListedJob: JobFacts], now: Int64) -> String {
        struct Group: Hashable { let error, host: String }
        let groups = Dictionary(grouping: failures) { Group(error: $0.value.error ?? "unknown", host: $0.value.host) }
        // The host decides last, so that groups of one size and error do not swap places between two updates.
        let first = groups.sorted {
            ($1.value.count, $0.key.error, $0.key.host) < ($0.value.count, $1.key.error, $1.key.host)
        }.prefix(Self.maxHosts)
        let texts = first.map { group, failures in
            var json = JSONObject()
            json.set("error", group.error)
            json.set("host", group.host)
            json.set("count", failures.count)
            json.set("retryable", failures.contains { $0.value.retryable ?? false })
            json.set("recent", failures.count { ($0.key.timestamp ?? 0) > now - 1_200_000 })
            json.set("hour", json: Self.hour(failures.compactMap(\.key.timestamp), now: now))
            return json.text
        }
        return "[\(texts.joined(separator: ","))]"
    }

    /// The numbers of `times` in each five minutes of the last hour, the oldest first.
    private static func hour(_ times: some Sequence<Int64>, now: Int64) -> String {
        var numbers = [Int](repeating: 0, count: failureSteps)
        for time in times {
            let place = Int((max(0, now - time)) / failureStep)
            if place < failureSteps { numbers[failureSteps - 1 - place] += 1 }
        }
        return "[\(numbers.map(String.init).joined(separator: ","))]"
    }

    /// The hosts that jobs run at, wait for or failed at, and those with limits.
    func hosts() async throws -> String {
        let now = try await queue.timestamp()
        let running = Dictionary(grouping: try await runningFacts().values, by: \.host)
        let failed = Dictionary(grouping: try await listedFacts(in: .failed)) { $0.value.host }
        let lists = try await queue.waitingLists()
        let deferred = Dictionary(lists.hosts.map { ($0.host, $0.count) }) { $0 + $1 }
        let sample = Dictionary(grouping: try await waitingSample().filter { $0.waitReason == nil }) {
            $0.maskedURL.flatMap(MaskedURL.host) ?? "unknown"
        }
        let sampled = sample.values.reduce(0) { $0 + $1.count }
        let undecided = max(0, lists.count - deferred.values.reduce(0, +))
        let limits = try await queue.configuration().limits.filter { HostLimit.accepts($0.value) }
        var names = Set(running.keys).union(deferred.keys).union(limits.keys).union(sample.keys)
        for (host, jobs) in failed where jobs.contains(where: { ($0.key.timestamp ?? 0) > now - 3_600_000 }) {
            names.insert(host)
        }
        func weight(_ name: String) -> Int {
            (failed[name]?.count ?? 0) + (running[name]?.count ?? 0) + (deferred[name] ?? 0)
        }
        let first = names.sorted { (weight($1), $0) < (weight($0), $1) }.prefix(Self.maxHosts)
        let backoffs = try await queue.backoffs(of: Array(first))
        let texts = first.map { host in
            let jobs = running[host] ?? []
            let times = (failed[host] ?? []).compactMap(\.key.timestamp)
            var json = JSONObject()
            json.set("host", host)
            json.set("running", jobs.count)
            json.set("waiting", jobs.count { $0.waiting == "host" })
            json.set("speed", jobs.reduce(0) { $0 + $1.speed })
            json.set("deferred", deferred[host] ?? 0)
            // An estimate: no index tells for which host an element in the queue is.
            json.set("queued", sampled == 0 ? 0 : undecided * (sample[host]?.count ?? 0) / sampled)
            json.set("failed", times.count)
            json.set("hour", json: Self.hour(times, now: now))
            json.set("backoff_until", backoffs[host].flatMap { $0 > now ? $0 : nil })
            if let limit = limits[host] { json.set("limits", json: limit) }
            return json.text
        }
        var json = JSONObject()
        json.set("now", now)
        json.set("total", names.count)
        json.set("hosts", json: "[\(texts.joined(separator: ","))]")
        return json.text
    }

    /// The counts that tell how a queue is, for a list of all queues.
    func summary() async throws -> String {
        let stats = try await queue.stats()
        var json = JSONObject()
        json.set("queue", queue.name.text)
        json.set("running", stats.counts[.running] ?? 0)
        json.set("queued", stats.counts[.queued] ?? 0)
        json.set("failed", stats.counts[.failed] ?? 0)
        json.set("paused", stats.isPaused)
        json.set("workers", stats.workers)
        return json.text
    }
}
