package import HaulBus
import HaulContract
import HaulRedis

// Statistics over many jobs. They are computed from samples of a limited size, which the overview, hosts, workers and
// facets of a queue share. So an open page costs Redis the same with a thousand jobs and with a million.

extension QueueReaderCache {
    /// The running jobs that one call reads.
    private static let maxRunning = 2000
    /// The newest jobs of any other state that are counted.
    private static let maxListed = 1000
    /// The facts of running jobs are read again after this time.
    private static let maxFactsAge: Duration = .milliseconds(850)
    /// A sample of the waiting jobs has this many chunks, spread evenly over the queue.
    private static let sampleChunks = 20
    private static let sampleChunkLength = 10
    private static let maxSampleAge: Duration = .seconds(5)
    private static let maxLimitsAge: Duration = .milliseconds(1900)
    /// The hosts, or groups of failures, that a response lists.
    private static let maxHosts = 50

    // MARK: Samples

    /// The facts of the running jobs, by id. If there are more than `maxRunning`, each call reads the next batch and
    /// keeps what earlier calls have read.
    func runningFacts() async throws -> [String: JobFacts] {
        if let readAt = factsReadAt, readAt + Self.maxFactsAge > .now { return facts }
        let task = factsTask ?? Task { try await readRunningFacts() }
        factsTask = task
        defer { if factsTask == task { factsTask = nil } }
        try await task.value
        return facts
    }

    private func readRunningFacts() async throws {
        let ids = try await runningIDs()
        if nextFactsIndex >= ids.count { nextFactsIndex = 0 }
        let batch = ids[nextFactsIndex..<min(nextFactsIndex + Self.maxRunning, ids.count)]
        // Redis looks for each field in the whole hash, so only what may have changed is read of known jobs.
        let known = batch.filter { facts[$0] != nil }
        for (id, fields) in zip(known, try await queue.fields(JobFacts.changingFields, of: known)) {
            if facts[id]?.update(fields) != true { facts[id] = nil }
        }
        let unknown = batch.filter { facts[$0] == nil }
        for (id, fields) in zip(unknown, try await queue.fields(JobFacts.fields, of: unknown)) {
            facts[id] = JobFacts(fields)
        }
        nextFactsIndex = batch.endIndex
        let current = Set(ids)
        facts = facts.filter { current.contains($0.key) }
        let present = try await presentWorkers()
        for (id, job) in facts { facts[id]?.isWorkerLost = job.worker.map { !present.contains($0) } ?? false }
        factsReadAt = .now
    }

    /// The names of the workers that are not lost. The jobs of the others stay as they were until another worker requeues
    /// them, with the speeds that they had.
    private func presentWorkers() async throws -> Set<String> {
        if let present, present.readAt + Self.maxFactsAge > .now { return present.names }
        let now = try await queue.time()
        let workers = try await queue.workers().filter { WorkerState($0.fields, now: now) != .lost }
        let names = Set(workers.map(\.name))
        present = (names, .now)
        return names
    }

    /// Whether a running job's worker is lost, so that nothing is received now.
    func isLost(_ worker: String?) async throws -> Bool {
        guard let worker else { return false }
        return !(try await presentWorkers().contains(worker))
    }

    /// A job as it is now: without the speed that its worker reported before it was lost.
    func current(_ job: JobRecord) async throws -> JobRecord {
        guard job.state == .running, job["speed"] != nil, try await isLost(job["worker"]) else { return job }
        var fields = job.fields
        fields["speed"] = nil
        return JobRecord(id: job.id, state: job.state, fields: fields, offsets: job.offsets)
    }

    /// The facts of the newest jobs in a state whose index is sorted by time. Reads only those that are not cached yet.
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

    /// A sample of the waiting jobs, from all parts of the queue. Empty if the Redis user may not read the elements.
    func waitingSample() async throws -> [ListedJob] {
        if let waiting, waiting.readAt + Self.maxSampleAge > .now { return waiting.jobs }
        let lists = try await queue.waitingLists()
        var jobs: [ListedJob] = []
        let stride = max(Self.sampleChunkLength, lists.count / Self.sampleChunks)
        do throws(RedisError) {
            for start in Swift.stride(from: 0, to: lists.count, by: stride).prefix(Self.sampleChunks + 1) {
                jobs += try await queue.listed(in: .queued, from: start, limit: Self.sampleChunkLength, lists)
            }
            jobs = try await queue.effective(jobs)
        } catch {
            guard error.code == .noPermission else { throw error }
            jobs = []
        }
        waiting = (jobs, .now)
        return jobs
    }

    // MARK: Responses

    /// The jobs of a state, counted by host, worker, kind, batch, reason to wait and error.
    func facets(_ state: JobState) async throws -> String {
        let now = try await queue.time()
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
        json.set("group", json: Ranking(all.compactMap(\.group)).json())
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

    /// The newest failures by error and host, the largest group first; and of how many failures.
    package func failureGroups() async throws -> (groups: [FailureGroup], of: Int, now: Int64) {
        let now = try await queue.time()
        let failures = try await listedFacts(in: .failed)
        return (Self.groups(of: failures, now: now), failures.count, now)
    }

    static func groups(of failures: [ListedJob: JobFacts], now: Int64) -> [FailureGroup] {
        let all = failures.map { job, facts in
            FailureGroup.Failure(
                id: job.id, error: facts.error, host: facts.host, timestamp: job.timestamp ?? 0,
                isRetryable: facts.retryable ?? false)
        }
        return FailureGroup.groups(of: all, now: now, limit: maxHosts)
    }

    /// What slows the queue, and Redis' clock.
    package func bottlenecks() async throws -> (found: [Bottleneck], now: Int64) {
        let now = try await queue.time()
        let (stats, workers) = (try await queue.stats(), try await queue.workers().map(\.fields))
        return (try await bottlenecks(stats, workers, scheduled: try await scheduledReasons(stats), now), now)
    }

    /// What each of the next scheduled jobs waits for whose last run had no space or no store. Their next attempt is some
    /// seconds away, so that they are among the first of the index.
    func scheduledReasons(_ stats: QueueStats) async throws -> [String] {
        guard stats.counts[.scheduled] ?? 0 > 0 else { return [] }
        return try await listedFacts(in: .scheduled).values.compactMap(\.waiting)
    }

    /// What slows one job. The running jobs are read only if they may reach a rate.
    package func bottlenecks(of job: JobRecord) async throws -> [Bottleneck] {
        guard job.state == .queued || job.state == .running else { return [] }
        let (settings, limits) = try await limits()
        let hasRate = settings["rate"] != nil || limits.values.contains { HostLimit.rate($0) != nil }
        let running = job.state == .running ? hasRate ? try await runningJobs() : [QueueLoad.RunningJob(job)] : []
        let workers = try await queue.workers().map(\.fields)
        return try await bottlenecks(try await queue.stats(), workers, running, try await queue.time())
            .filter { $0.slows(job) }
    }

    private func runningJobs() async throws -> [QueueLoad.RunningJob] {
        try await runningFacts().values.map {
            QueueLoad.RunningJob(host: $0.host, group: $0.group, waiting: $0.waiting, speed: $0.speed)
        }
    }

    func bottlenecks(
        _ stats: QueueStats, _ workers: [[String: String]], scheduled: [String], _ now: Int64
    ) async throws -> [Bottleneck] {
        try await bottlenecks(stats, workers, try await runningJobs(), scheduled: scheduled, now)
    }

    private func bottlenecks(
        _ stats: QueueStats, _ workers: [[String: String]], _ running: [QueueLoad.RunningJob],
        scheduled: [String] = [], _ now: Int64
    ) async throws -> [Bottleneck] {
        let waiting = running.filter { $0.waiting == "host" }.map(\.host)
        let hosts = Set(waiting).union(stats.waiting.hosts.map(\.host)).sorted().prefix(Self.maxHosts)
        let (settings, limits) = try await limits()
        return QueueLoad(
            stats: stats, workers: workers, settings: settings, limits: limits,
            backoffs: hosts.isEmpty ? [:] : try await queue.backoffs(of: Array(hosts)), running: running,
            scheduled: scheduled, now: now
        ).bottlenecks
    }

    /// The name under which a job counts among hosts: that of the limit which it obeys, which may have a port. Otherwise it
    /// is the host alone. Limits, back-offs and lists of deferred jobs have the same names: rule_of() of
    /// Lua/limits/hosts.lua.
    private static func hostName(_ authority: String, _ limits: [String: String]) -> String {
        if limits[authority] != nil { return authority }
        guard let colon = authority.lastIndex(of: ":"), authority[colon...].dropFirst().allSatisfy(\.isNumber)
        else { return authority }
        return String(authority[..<colon])
    }

    /// The hosts that have running, waiting or recently failed jobs, and those with limits. The busiest come first.
    package func hosts() async throws -> String {
        let now = try await queue.time()
        let limits = try await limits().limits.filter { HostLimit.group($0.key) == nil }
        let running = Dictionary(grouping: try await runningFacts().values) { Self.hostName($0.authority, limits) }
        let failures = try await listedFacts(in: .failed)
        let failed = Dictionary(grouping: failures) {
            Self.hostName($0.value.authority, limits)
        }
        let lists = try await queue.waitingLists()
        let deferred = Dictionary(lists.hosts.map { ($0.host, $0.count) }) { $0 + $1 }
        let sample = Dictionary(grouping: try await waitingSample().filter { $0.waitsFor == nil }) {
            $0.maskedURL.flatMap(MaskedURL.authority).map { Self.hostName($0, limits) } ?? "unknown"
        }
        let sampled = sample.values.reduce(0) { $0 + $1.count }
        let notDeferred = max(0, lists.count - deferred.values.reduce(0, +))
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
            // An estimate from the sample, because the queue has no index of hosts.
            json.set("queued", sampled == 0 ? 0 : notDeferred * (sample[host]?.count ?? 0) / sampled)
            json.set("failed", times.count)
            let hour = FailureGroup.histogram(of: times, now: now).map(String.init)
            json.set("hour", json: "[\(hour.joined(separator: ","))]")
            json.set("backoff_until", backoffs[host].flatMap { $0 > now ? $0 : nil })
            if let limit = limits[host] { json.set("limits", json: limit) }
            return json.text
        }
        var json = JSONObject()
        json.set("now", now)
        json.set("total", names.count)
        json.set("failures", failures.count)
        json.set("hosts", json: "[\(texts.joined(separator: ","))]")
        return json.text
    }

    /// The settings and the valid limits of hosts and groups. Empty if the Redis user may not read the queue's
    /// configuration, which may hold secrets.
    private func limits() async throws(RedisError) -> (settings: [String: String], limits: [String: String]) {
        if let configuration, configuration.readAt + Self.maxLimitsAge > .now {
            return (configuration.settings, configuration.limits)
        }
        var (settings, limits): ([String: String], [String: String]) = ([:], [:])
        do throws(RedisError) {
            let read = try await queue.configuration()
            (settings, limits) = (read.settings, read.limits.filter { HostLimit.accepts($0.value, of: $0.key) })
        } catch {
            guard error.code == .noPermission else { throw error }
        }
        configuration = (settings, limits, .now)
        return (settings, limits)
    }

    /// Makes the next reading read the limits again, because they have been changed here.
    func forgetLimits() { configuration = nil }

    /// A queue's row in the list of all queues.
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
