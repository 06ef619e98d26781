import HaulContract

/// What bottlenecks are found in: one reading of a queue.
package struct QueueLoad: Sendable {
    /// What is known of a running job.
    package struct RunningJob: Sendable {
        package let host: String
        let group: String?
        package let waiting: String?
        let speed: Int64

        package init(host: String, group: String?, waiting: String?, speed: Int64) {
            (self.host, self.group, self.waiting, self.speed) = (host, group, waiting, speed)
        }

        package init(_ job: JobRecord) {
            self.init(
                host: job["url"].flatMap(MaskedURL.host) ?? "unknown", group: job["group"], waiting: job["waiting"],
                speed: job.integer("speed") ?? 0)
        }
    }

    /// A rate counts as used up from this part of it on, because speeds are means of some seconds.
    private static let usedUp = 0.9
    private static let maxCount = 20

    let stats: QueueStats
    /// The fields of the workers' hashes.
    let workers: [[String: String]]
    /// The hashes of the queue; empty if the Redis user may not read them.
    let settings: [String: String]
    let limits: [String: String]
    /// By host, unix ms.
    let backoffs: [String: Int64]
    /// All running jobs, or as many as are known.
    let running: [RunningJob]
    /// What scheduled jobs wait for whose last run it ended, each one's; of as many as are known.
    let scheduled: [String]
    let now: Int64

    package init(
        stats: QueueStats, workers: [[String: String]], settings: [String: String], limits: [String: String],
        backoffs: [String: Int64], running: [RunningJob], scheduled: [String] = [], now: Int64
    ) {
        (self.stats, self.workers, self.settings, self.limits) = (stats, workers, settings, limits)
        (self.backoffs, self.running, self.scheduled, self.now) = (backoffs, running, scheduled, now)
    }

    /// A limit of each partition, for the whole queue. A large number may have no multiple.
    private func ofAllPartitions(_ limit: Int64) -> Int64 {
        let (product, overflows) = limit.multipliedReportingOverflow(by: Int64(stats.partitions))
        return overflows ? .max : product
    }

    private var runningCount: Int { max(running.count, stats.counts[.running] ?? 0) }

    /// What slows the queue, with what concerns most jobs first; at most twenty.
    package var bottlenecks: [Bottleneck] {
        // Queued jobs that lack space count together with running ones.
        let first = self.turn
        let queuedForSpace = first?.cause == .disk ? first?.queued ?? 0 : 0
        let turns = [pauseOfSome, queuedForSpace > 0 ? nil : first].compactMap(\.self)
        let found = turns + hosts + groups + kinds + rates + waits(queuedForSpace: queuedForSpace)
        let sorted = found.filter { $0.jobs > 0 }.sorted {
            ($1.jobs, $0.cause.rawValue, $0.name ?? "") < ($0.jobs, $1.cause.rawValue, $1.name ?? "")
        }
        return Array(sorted.prefix(Self.maxCount))
    }

    /// A pause of some partitions. The jobs of the others start.
    private var pauseOfSome: Bottleneck? {
        guard stats.isPartlyPaused else { return nil }
        let name = "\(stats.pausedPartitions) of \(stats.partitions) partitions"
        return Bottleneck(.paused, name, queued: stats.queuedInPaused)
    }

    /// What keeps jobs from starting that wait only for their turn. A pause, and the lack of workers or of space on all of
    /// their disks, stop all others, too.
    private var turn: Bottleneck? {
        let all = stats.waiting.count
        let queued = all - stats.waiting.deferred.count
        let states = workers.map { WorkerState($0, now: now) }
        if stats.isPaused, !stats.isPartlyPaused { return Bottleneck(.paused, queued: all) }
        let running = stats.counts[.running] ?? 0
        guard states.contains(.working) else {
            // Jobs of lost workers count as running until another worker requeues them.
            let stopped = states.allSatisfy { $0 == .lost } ? running : 0
            return Bottleneck(.noWorker, queued: all, running: stopped)
        }
        if let limit = stats.allowedRunning, running >= limit {
            return Bottleneck(.maxRunning, queued: queued, limit: limit)
        }
        let working = zip(workers, states).filter { $0.1 == .working }.map(\.0)
        let withSpace = working.filter { !WorkerState.hasNoSpace($0) }
        var slots: Int64? = 0
        var taken: Int64 = 0
        // A worker without space claims nothing, so its free slots do not count beside those of others.
        for worker in withSpace.isEmpty ? working : withSpace {
            let own = Int64(field: worker["slots"])
            slots = slots.flatMap { sum in own.map { sum + $0 } }
            taken += Int64(field: worker["running"]) ?? 0
        }
        if let slots, taken >= slots { return Bottleneck(.slots, queued: queued, limit: slots) }
        if withSpace.isEmpty { return Bottleneck(.disk, queued: all) }
        return settings["starts"].map { Bottleneck(.starts, queued: queued, starts: $0) }
    }

    private var hosts: [Bottleneck] {
        let atWork = Dictionary(running.map { ($0.host, 1) }, uniquingKeysWith: +)
        let waiting = Dictionary(running.filter { $0.waiting == "host" }.map { ($0.host, 1) }, uniquingKeysWith: +)
        let queued = Dictionary(stats.waiting.hosts.map { ($0.host, $0.count) }, uniquingKeysWith: +)
        return Set(waiting.keys).union(queued.keys).map { host in
            let own = limits[host].flatMap { try? JSON($0) }
            let connections = (own?["connections"]?.integer ?? settings["host_connections"].flatMap { Int64($0) })
                .map(ofAllPartitions)
            let (queued, running) = (queued[host] ?? 0, waiting[host] ?? 0)
            if let until = backoffs[host], until > now {
                return Bottleneck(.backoff, host, queued: queued, running: running, until: until)
            }
            let isFull = connections.map { Int64(atWork[Bottleneck.host(host)] ?? 0) >= $0 } ?? false
            if !isFull, let starts = Self.starts(own) {
                return Bottleneck(.hostStarts, host, queued: queued, running: running, starts: starts)
            }
            return Bottleneck(.host, host, queued: queued, running: running, limit: connections)
        }
    }

    private static func starts(_ limits: JSON?) -> String? {
        limits?["starts"].flatMap { $0.string ?? $0.integer.map(String.init) }
    }

    private var groups: [Bottleneck] {
        stats.waiting.limitedGroups.map { group, count, _ in
            let own = limits[HostLimit.name(ofGroup: group)].flatMap { try? JSON($0) }
            let atWork = Int64(running.count { $0.group == group })
            let limit = (own?["running"]?.integer).map(ofAllPartitions)
            let isFull = limit.map { atWork >= $0 } ?? false
            let starts = isFull ? nil : Self.starts(own)
            return Bottleneck(.group, group, queued: count, limit: starts == nil ? limit : nil, starts: starts)
        }
    }

    private var kinds: [Bottleneck] { stats.deferred.map { Bottleneck(.kind, $0.key, queued: $0.value) } }

    /// Rates that the running jobs use up.
    private var rates: [Bottleneck] {
        let receiving = running.filter { $0.waiting == nil }
        // If not all running jobs are known, the others are assumed to be like them.
        let part = running.isEmpty ? 1 : Double(runningCount) / Double(running.count)
        func bottleneck(
            _ cause: Bottleneck.Cause, _ name: String?, _ rate: RateSchedule?, _ jobs: [RunningJob]
        ) -> Bottleneck? {
            guard let limit = rate?.rate(at: now / 1000).map(ofAllPartitions) else { return nil }
            let speed = jobs.reduce(0) { $0 + Double($1.speed) } * part
            guard speed >= Double(limit) * Self.usedUp else { return nil }
            return Bottleneck(cause, name, running: Int(Double(jobs.count) * part), limit: limit)
        }
        var found = [bottleneck(.rate, nil, settings["rate"].flatMap(RateSchedule.init), receiving)]
        for (name, value) in limits {
            guard let rate = HostLimit.rate(value) else { continue }
            if let group = HostLimit.group(name) {
                found.append(bottleneck(.groupRate, group, rate, receiving.filter { $0.group == group }))
            } else {
                found.append(bottleneck(.hostRate, name, rate, receiving.filter { $0.host == Bottleneck.host(name) }))
            }
        }
        return found.compactMap(\.self)
    }

    /// What running jobs wait for, scheduled ones that were running, and queued ones for which no worker has space.
    private func waits(queuedForSpace: Int) -> [Bottleneck] {
        [Bottleneck.Cause.disk, .store, .gate, .replicas].map { cause in
            Bottleneck(
                cause, queued: cause == .disk ? queuedForSpace : 0,
                running: running.count { $0.waiting == cause.rawValue },
                scheduled: scheduled.count { $0 == cause.rawValue })
        }
    }
}
