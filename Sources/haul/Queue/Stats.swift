import ArgumentParser
import HaulBus
import HaulContract
import HaulTerminal

struct Stats: AsyncParsableCommand {
    static let configuration = CommandConfiguration(commandName: "stats", abstract: "Count the jobs by state.")

    private static let maxHosts = 5

    @Flag(help: "Count what happened to jobs in the last two days.") var history = false
    @Flag(
        help:
            "List hosts with jobs, limits or recent failures, the busiest first."
    )
    var hosts = false
    @Flag(help: "Say how long jobs have run and waited, from a sample.")
    var ages = false
    @Flag(help: "Count the newest 1000 failures by error and host, the most frequent first.")
    var failures = false
    @Flag(help: "Say what keeps jobs from starting or slows them, such as a limit or a pause.")
    var bottlenecks = false
    @OptionGroup var common: CommonOptions

    func validate() throws {
        guard [history, hosts, ages, failures, bottlenecks].count(where: { $0 }) <= 1 else {
            throw ValidationError("Give only one of --history, --hosts, --ages, --failures and --bottlenecks")
        }
    }

    /// The message for a queue that no worker serves.
    static func unserved(_ queue: Queue) -> String {
        "no worker serves the queue \(queue.name) now: haul worker --queue \(queue.name.quoted) starts one"
    }

    func run() async throws {
        let queue = try await common.connect()
        if history { return try await StatsHistory.print(queue, json: common.json) }
        if hosts { return try await StatsFacts.printHosts(queue, json: common.json) }
        if ages { return try await StatsFacts.printAges(queue, json: common.json) }
        if failures { return try await StatsFacts.printFailures(queue, json: common.json) }
        if bottlenecks { return try await StatsFacts.printBottlenecks(queue, json: common.json) }
        let stats = try await queue.stats()
        // A user who may not read the workers' hashes sees only how many of them there are.
        let known = (try? await queue.workers()).map { WorkerCounts($0, now: stats.now) }
        let workers = known?.alive ?? stats.workers
        let counts = JobState.allCases.map { ($0.rawValue, stats.counts[$0] ?? 0) } + [("rejected", stats.rejected)]
        if common.json {
            let limit =
                (stats.maxRunning.map { [("max_running", String($0))] } ?? [])
                + (stats.isPartlyPaused ? [("paused_partitions", String(stats.pausedPartitions))] : [])
            var state = [
                ("queue", JSON.quoted(queue.name.text)), ("workers", String(workers)),
                ("queue_paused", String(stats.isPaused)),
            ]
            for (name, count) in [("quiet_workers", known?[.quiet] ?? 0), ("lost_workers", known?[.lost] ?? 0)]
            where count > 0 { state.append((name, String(count))) }
            let deferred = stats.deferred.sorted { $0.key < $1.key }.map { ($0.key, String($0.value)) }
            let hosts = stats.waiting.hosts.map { ($0.host, String($0.count)) }
            let groups = stats.waiting.limitedGroups.map { ($0.group, String($0.count)) }
            return Terminal.line(
                JSON.object(
                    state + counts.map { ($0, String($1)) } + limit
                        + (deferred.isEmpty ? [] : [("deferred", JSON.object(deferred))])
                        + (hosts.isEmpty ? [] : [("waiting_for_hosts", JSON.object(hosts))])
                        + (groups.isEmpty ? [] : [("waiting_for_groups", JSON.object(groups))])))
        }
        var table = Table([
            .init(title: "STATE"), .init(title: "JOBS", isNumber: true), .init(title: "OLDEST", isNumber: true),
        ])
        let oldest = try await oldest(in: queue)
        for (name, count) in counts { table.add([name, String(count), oldest[name] ?? ""]) }
        for line in table.lines(width: Terminal.width) { Terminal.line(line) }
        Terminal.line(known?.text ?? (workers == 1 ? "1 worker" : "\(workers) workers"))
        if !stats.isKnown {
            Terminal.printError("haul: the queue \(queue.name) is unknown here: it has no job and no worker")
        } else if workers == 0 {
            Terminal.printError("haul: \(Self.unserved(queue))")
        } else if let known, known.noneClaims {
            let advice = known[.quiet] > 0 ? ": haul worker resume NAME lets a quiet one claim them again" : ""
            Terminal.printError("haul: no worker of the queue \(queue.name) claims jobs now\(advice)")
        }
        if known?.lackSpace ?? false {
            Terminal.line("no worker takes jobs, because their disks have no space: haul workers shows what is free")
        }
        print(stats.waiting.hosts.map { ($0.host, $0.count, $0.reason) }, "hosts")
        print(stats.waiting.limitedGroups.map { ($0.group, $0.count, $0.reason) }, "groups")
        for (kind, count) in stats.deferred.sorted(by: { $0.key < $1.key }) {
            let jobs = count == 1 ? "1 job waits" : "\(count) jobs wait"
            Terminal.line("\(jobs) for a worker that does jobs of the kind \(kind)".printable)
        }
        if stats.isPaused {
            // A user who may not read the list of changes sees the line without a name.
            let change = try? await queue.changeThatPaused()
            let author = change.map { " by \($0.author)" } ?? ""
            let command = stats.isPartlyPaused ? "haul queue pause or resume" : "haul queue resume"
            Terminal.line(
                "the queue is paused\(stats.scopeOfPause)\(author): \(command) --queue \(queue.name.quoted)".printable)
        }
        if let limit = stats.maxRunning { Terminal.line("at most \(limit) run at once\(queue.scopeOfLimits)") }
        // A user who may not read the settings sees the figures without this line.
        let differing = ((try? await queue.differences()) ?? []).map(\.label)
        if !differing.isEmpty {
            let names = differing.prefix(8).joined(separator: ", ")
            Terminal.line(
                "partitions differ in \(names): haul queue show --queue \(queue.name.quoted) says how".printable)
        }
    }

    /// Names the hosts or groups for which most jobs wait, and why.
    private func print(_ lists: [(name: String, count: Int, reason: String)], _ what: String) {
        let sorted = lists.sorted { ($1.count, $0.name) < ($0.count, $1.name) }
        for (_, count, reason) in sorted.prefix(Self.maxHosts) {
            Terminal.line("\(count == 1 ? "1 job waits" : "\(count) jobs wait") for \(reason)".printable)
        }
        let rest = sorted.dropFirst(Self.maxHosts)
        guard !rest.isEmpty else { return }
        Terminal.line("\(rest.reduce(0) { $0 + $1.count }) jobs wait for \(rest.count) other \(what)")
    }

    /// The age of the oldest job of each state.
    private func oldest(in queue: Queue) async throws -> [String: String] {
        let now = try await queue.time()
        let timestamps = try await queue.oldest()
        return Dictionary(uniqueKeysWithValues: timestamps.map { ($0.key.rawValue, Age.text(now - $0.value)) })
    }
}
