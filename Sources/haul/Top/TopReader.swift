import HaulBus
import HaulContract
import HaulRedis

/// Reads what `haul top` shows. The cost of a reading is bounded, however many jobs there are: each reading reads the
/// jobs on the screen and the next page of all running jobs.
actor TopReader {
    /// What the screen shows.
    struct Focus: Sendable {
        var view = JobState.running
        /// Jobs that are on the screen.
        var visible: [String] = []
        /// The job whose page is open.
        var detail: String?
    }

    /// The number of running jobs that one reading asks for, besides the jobs on the screen.
    static let pageOfRunning = 500
    /// The number of jobs that are read of any other state.
    static let pageOfOthers = 200
    private static let maxWorkers = 40
    private static let maxFailures = 50
    private static let maxQueues = 8
    /// The list of changes is read again after this time, while the queue is paused.
    private static let maxPauseAge: Duration = .seconds(10)
    /// The jobs that ended in so many seconds are counted.
    private static let window = 5

    private let queue: Queue
    private var cursor = "0"
    /// Running jobs by id, each with the round in which it was last found. A round is a scan of all running jobs.
    private var running: [String: (row: JobRow, round: Int)] = [:]
    private var round = 0
    private var failures: [String: JobRow] = [:]
    /// Who paused the queue; nil while it is not paused.
    private var pause: (author: String?, readAt: ContinuousClock.Instant)?
    private var others: [Queue] = []
    private var lastSearch: ContinuousClock.Instant?

    /// The maximum time that the first readings scan for running jobs before they return.
    private let patience: Duration

    init(_ queue: Queue, patience: Duration = .milliseconds(300)) { (self.queue, self.patience) = (queue, patience) }

    func read(_ focus: Focus) async throws(RedisError) -> TopData {
        var data = TopData()
        data.view = focus.view
        let counted = try await queue.census(within: Self.window, failures: Self.maxFailures)
        data.now = counted.now
        (data.counts, data.rejected) = (counted.stats.counts, counted.stats.rejected)
        (data.isPaused, data.maxRunning) = (counted.stats.isPaused, counted.stats.maxRunning)
        data.scopeOfPause = counted.stats.scopeOfPause
        data.pausedBy = await authorOfPause(data)
        data.jobsPerSecond = Double(counted.ended) / Double(Self.window)
        try await readWorkers(counted.workers, &data)
        try await readFailures(counted.failures, &data)
        try await readRunning(focus, &data)
        if focus.view != .running { data.rows = try await rows(focus.view) }
        if let id = focus.detail { data.record = try await queue.job(id) }
        data.queues = await readQueues(data)
        return data
    }

    /// Who paused the queue; nil if it is not paused, or if this user may not read the list of changes.
    private func authorOfPause(_ data: TopData) async -> String? {
        guard data.isPaused else {
            pause = nil
            return nil
        }
        if let pause, pause.readAt + Self.maxPauseAge > .now { return pause.author }
        let change = try? await queue.changeThatPaused()
        pause = (change?.author, .now)
        return pause?.author
    }

    private func readWorkers(_ known: [(name: String, seen: Int64)], _ data: inout TopData) async throws(RedisError) {
        // The workers whose heartbeats are the oldest come first: an operator looks for them.
        let shown = known.prefix(Self.maxWorkers)
        let fields = try await queue.workerFields(shown.map(\.name))
        var rows: [WorkerRow] = []
        for (worker, fields) in zip(shown, fields) where !fields.isEmpty {
            var fields = fields
            fields["seen"] = fields["seen"] ?? String(worker.seen)
            rows.append(WorkerRow(name: worker.name, fields: fields, now: data.now))
        }
        data.workers = rows.sorted(by: WorkerRow.precedes)
        data.workerCount = known.count - (shown.count - rows.count)
        data.lostCount = rows.count(where: \.isLost)
    }

    private func readFailures(_ known: [ListedJob], _ data: inout TopData) async throws(RedisError) {
        let new = known.filter { failures[$0.id]?.since != $0.timestamp }
        let fields = try await queue.fields(Queue.summaryFields, of: new.map(\.id))
        for (listed, fields) in zip(new, fields) {
            failures[listed.id] = JobRow(id: listed.id, state: .failed, fields: fields, listed: listed)
        }
        let ids = Set(known.map(\.id))
        failures = failures.filter { ids.contains($0.key) }
        data.failures = known.compactMap { failures[$0.id] }
    }

    private func readRunning(_ focus: Focus, _ data: inout TopData) async throws(RedisError) {
        let count = data.counts[.running] ?? 0
        var ids: Set<String> = focus.view == .running ? Set(focus.visible).intersection(running.keys) : []
        var pages = 0
        // The first round is read in one go, unless Redis is slow. After it each reading reads one page.
        let (maxPages, begun) = (round == 0 ? 20 : 1, ContinuousClock.now)
        repeat {
            let page = try await queue.scanRunning(from: cursor, count: Self.pageOfRunning)
            ids.formUnion(page.ids)
            cursor = page.next
            pages += 1
            if cursor == "0" { round += 1 }
        } while cursor != "0" && pages < maxPages && begun.duration(to: .now) < patience
        if count == 0 { ids = [] }
        let asked = Array(ids)
        for (id, fields) in zip(asked, try await queue.fields(Queue.summaryFields, of: asked)) {
            guard fields["state"] == JobState.running.rawValue else {
                running[id] = nil
                continue
            }
            running[id] = (JobRow(id: id, state: .running, fields: fields), round)
        }
        // A job that a whole round has not found runs no more.
        running = running.filter { $0.value.round >= round - 1 }
        // Of a lost worker, the records have the last speeds.
        let lost = Set(data.workers.lazy.filter(\.isLost).map(\.name))
        for id in running.keys where lost.contains(running[id]!.row.worker) { running[id]!.row.speed = 0 }
        let speed = running.values.reduce(0.0) { $0 + Double(max(0, $1.row.speed)) }
        data.isEstimated = count > running.count && !running.isEmpty
        data.bytesPerSecond = data.isEstimated ? speed * Double(count) / Double(running.count) : speed
        if focus.view == .running { data.rows = running.values.map(\.row) }
    }

    /// The first jobs of another state, in the order of its list.
    private func rows(_ state: JobState) async throws(RedisError) -> [JobRow] {
        let listed: [ListedJob]
        do throws(RedisError) {
            listed = try await queue.listed(in: state, from: 0, limit: Self.pageOfOthers)
        } catch {
            // Without permission to read the waiting jobs, the user sees only their number.
            guard error.code == .noPermission else { throw error }
            return []
        }
        let fields = try await queue.fields(Queue.summaryFields, of: listed.map(\.id))
        return zip(listed, fields).map { JobRow(id: $0.id, state: state, fields: $1, listed: $0) }
    }

    // MARK: Queues

    /// This queue and some others of the same Redis. A few pages of keys are searched for others once a minute.
    private func readQueues(_ data: TopData) async -> [TopModel.QueueRow] {
        if lastSearch.map({ $0.duration(to: .now) > .seconds(60) }) ?? true {
            lastSearch = .now
            await findQueues()
        }
        var own = TopModel.QueueRow(name: queue.name.text)
        own.queued = data.counts[.queued] ?? 0
        own.running = data.counts[.running] ?? 0
        own.failed = data.counts[.failed] ?? 0
        own.workers = data.workerCount - data.lostCount
        var lines = [own]
        for other in others {
            guard let stats = try? await other.stats() else { continue }
            var line = TopModel.QueueRow(name: other.name.text)
            line.queued = stats.counts[.queued] ?? 0
            line.running = stats.counts[.running] ?? 0
            line.failed = stats.counts[.failed] ?? 0
            line.workers = stats.workers
            lines.append(line)
        }
        return lines.sorted { $0.name < $1.name }
    }

    /// Finds other queues. Errors are ignored, such as a missing permission: then no others are shown.
    private func findQueues() async {
        guard let names = try? await QueueName.all(on: queue.redis, maxPages: 10) else { return }
        let wanted = names.filter { $0 != queue.name }.prefix(Self.maxQueues - 1)
        for other in others where !wanted.contains(other.name) { await other.close() }
        others = wanted.map { name in
            // In a cluster another queue may be on another server, so it has a client of its own.
            others.first { $0.name == name } ?? Queue(name, redis: Redis(queue.redis.url, name: "haul-top"))
        }
    }

    /// The queue after this one in the order of the panel; nil if there is no other.
    func next() -> QueueName? {
        let names = (others.map(\.name) + [queue.name]).sorted { $0.text < $1.text }
        guard names.count > 1, let index = names.firstIndex(of: queue.name) else { return nil }
        return names[(index + 1) % names.count]
    }

    func close() async {
        for other in others { await other.close() }
        others = []
    }
}
