import ArgumentParser
import HaulBus
import HaulContract
import HaulRedis
import HaulTerminal

struct List: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "List jobs: filter, sort and group them.",
        discussion: """
            Failed, completed, cancelled and paused jobs come newest first, queued and scheduled jobs in the order in \
            which they start. If --limit leaves jobs out, a line on standard error says so.
            """)

    static let states = JobState.allCases.map(\.rawValue) + ["rejected"]

    @OptionGroup var common: CommonOptions
    @OptionGroup var filter: FilterOptions
    @Option(help: "Sort by \(JobOrder.allCases.map(\.rawValue).joined(separator: ", ")).") var sort: JobOrder?
    @Flag(help: "Reverse the order of --sort.") var reverse = false
    @Option(help: "The maximum number of jobs of each state.") var limit = 1000
    @Option(
        help: "Begin after this job, the last of an earlier list. Requires one --state.", completion: Completer.jobs)
    var after: String?
    @Option(
        help:
            "Count jobs by error, host, worker, state, kind, batch, group or what they wait for; only failed jobs, unless --state is given."
    )
    var by: JobGroups.Key?
    @Flag(help: "With --state rejected: print the elements as they were pushed, with their secrets.") var all = false

    private var listsRejected: Bool { filter.state == ["rejected"] }

    func validate() throws {
        guard limit >= 1 else { throw ValidationError("--limit must be 1 or more, not \(limit)") }
        guard !reverse || sort != nil else { throw ValidationError("--reverse requires --sort") }
        guard after == nil || filter.state.count == 1 else {
            throw ValidationError("--after requires exactly one --state")
        }
        guard !filter.state.contains("rejected") || listsRejected else {
            throw ValidationError("--state rejected allows no other --state: rejected elements are not jobs")
        }
        guard !all || listsRejected else { throw ValidationError("--all requires --state rejected") }
        guard !listsRejected || filter.conditions.isEmpty && sort == nil && by == nil && after == nil else {
            throw ValidationError(
                "--state rejected goes with --all, --limit and --json only: rejected elements are not jobs")
        }
    }

    func run() async throws {
        let states = listsRejected ? [] : try filter.states(else: by == nil ? JobState.allCases : [.failed])
        let queue = try await common.connect()
        if listsRejected { return try await listRejected(of: queue) }
        var lister = JobLister(queue: queue, order: sort, isReversed: reverse, limit: limit, after: after)
        lister.filter = filter.conditions
        let now = try await queue.time()
        if let by { return try await group(by, states, lister, now) }
        var (rows, notices): ([JobRow], [String]) = ([], [])
        for state in states {
            guard let found = try await ifPermitted(state, { () throws(RedisError) in try await lister.list(state) })
            else {
                continue
            }
            if !found.hasBegun, let after {
                throw ExitStatus.printing(.jobFailed, "no job \(after) is \(state.rawValue) in the queue \(queue.name)")
            }
            rows += found.rows
            if let notice = omissionNotice(state, found) { notices.append(notice) }
        }
        // Printed after the list, where the user sees it.
        defer { for notice in notices { Terminal.printError(notice) } }
        guard !common.json else { return try await printJSON(rows, queue) }
        if rows.isEmpty { return Terminal.printError("haul: no such job in the queue \(queue.name)") }
        for line in JobTable.lines(rows, now: now, width: Terminal.width) { Terminal.line(line) }
    }

    /// Runs `body`. nil if the user may not read the waiting jobs, which hold secrets, and has not asked for queued
    /// jobs.
    private func ifPermitted<T>(_ state: JobState, _ body: () async throws(RedisError) -> T) async throws -> T? {
        do throws(RedisError) { return try await body() } catch {
            guard error.code == .noPermission, state == .queued, filter.state.isEmpty else {
                throw ExitStatus.printing(error)
            }
            Terminal.printError(
                "haul: this user may not read the waiting jobs: queued jobs are not listed (haul stats counts them)")
            return nil
        }
    }

    /// The line about jobs that the limit left out. It goes to standard error, so that programs can read the list.
    private func omissionNotice(_ state: JobState, _ found: JobLister.Found) -> String? {
        guard found.left != 0, let last = found.rows.last else { return nil }
        let count = found.left.map { "\($0) more jobs are \(state.rawValue)" } ?? "more jobs are \(state.rawValue)"
        let add = filter.state.count == 1 ? "" : "--state \(state.rawValue) "
        return "haul: \(count): add \(add)--after \(last.id) to list them".printable
    }

    private func group(_ key: JobGroups.Key, _ states: [JobState], _ lister: JobLister, _ now: Int64) async throws {
        var groups = JobGroups(by: key)
        for state in states {
            _ = try await ifPermitted(state) { () throws(RedisError) in
                try await lister.forEachRow(state) { row in
                    if lister.filter.accepts(row, now: now) { groups.add(row) }
                }
            }
        }
        if common.json {
            for line in groups.json { Terminal.line(line) }
        } else if groups.groups.isEmpty {
            // Without --state the user may think of jobs that wait.
            let hint =
                filter.state.isEmpty
                ? ": --by counts only failed jobs, unless another state is given, like --state queued" : ""
            Terminal.printError("haul: no such job in the queue \(lister.queue.name)\(hint)")
        } else {
            for line in groups.lines(now: now, width: Terminal.width) { Terminal.line(line) }
        }
    }

    /// Prints for each job what `haul show --json` prints.
    private func printJSON(_ rows: [JobRow], _ queue: Queue) async throws {
        for start in stride(from: 0, to: rows.count, by: 200) {
            let rows = rows[start..<min(start + 200, rows.count)]
            let records = try await queue.jobs(rows.map(\.id))
            let known = Dictionary(records.map { ($0.id, $0) }) { one, _ in one }
            for row in rows {
                let fields = row.state.describing(known[row.id]?.fields ?? [:], row.listed) ?? [:]
                // A queued job without fields has only its element: no worker has claimed it, or not since its last end.
                let unclaimed = row.state == .queued && fields.isEmpty
                guard
                    let record = unclaimed
                        ? JobRecord(job: row.listed, state: .queued, fields: [:]) : known[row.id]
                else { continue }
                let timestamp = row.state == .running ? nil : row.listed.timestamp
                Terminal.line(record.json(showsResponse: false, timestamp: timestamp))
            }
        }
    }

    private func listRejected(of queue: Queue) async throws {
        let texts = try await queue.rejected(limit: limit)
        let now = try await queue.time()
        let elements = texts.compactMap(RejectedElement.init)
        if common.json {
            for element in elements { Terminal.line(element.json(includesElement: all)) }
        } else if elements.isEmpty {
            Terminal.printError("haul: nothing was rejected in the queue \(queue.name)")
        } else {
            for line in RejectedElement.lines(elements, includesElement: all, now: now, width: Terminal.width) {
                Terminal.line(line)
            }
        }
        let count = try await queue.stats().rejected
        if count > texts.count { Terminal.printError("haul: \(count - texts.count) more elements: --limit \(count)") }
    }
}
