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
    @Option(
        parsing: .singleValue,
        help:
            "queued, scheduled, running, paused, completed, failed, cancelled or rejected; all but rejected if not given. May be repeated.",
        completion: .list(Self.states))
    var state: [String] = []
    @Option(parsing: .singleValue, help: "Jobs with this error, like http_404 or 'http_5*'. May be repeated.")
    var error: [String] = []
    @Option(parsing: .singleValue, help: "Jobs whose URL is on this host or below it. May be repeated.")
    var host: [String] = []
    @Option(
        parsing: .singleValue, help: "Jobs that this worker runs or ran. May be repeated.",
        completion: Completer.workers)
    var worker: [String] = []
    @Option(help: "Jobs that have been in their state for so long: 90s, 10m, 2h, 7d.") var older: String?
    @Option(help: "Jobs whose id, URL or file has this in it; * and ? stand for other characters.") var match: String?
    @Option(help: "Sort by \(JobOrder.allCases.map(\.rawValue).joined(separator: ", ")).") var sort: JobOrder?
    @Option(help: "The most jobs of each state.") var limit = 1000
    @Option(help: "Begin after this job, the last of an earlier list. Needs one --state.", completion: Completer.jobs)
    var after: String?
    @Option(help: "Count jobs by error, host, worker or state; only failed jobs, unless --state is given.")
    var by: JobGroups.Key?
    @Flag(help: "With --state rejected: print the elements as they were pushed, with their secrets.") var all = false

    func validate() throws {
        guard limit >= 1 else { throw ValidationError("--limit must be 1 or more, not \(limit)") }
        if let older, Age.milliseconds(older) == nil {
            throw ValidationError("--older must be a time like 90s, 10m, 2h or 7d, not \"\(older)\".")
        }
        guard after == nil || state.count == 1 else {
            throw ValidationError("--after requires exactly one --state")
        }
        guard !state.contains("rejected") || state.count == 1 else {
            throw ValidationError("--state rejected allows no other --state: rejected elements are not jobs")
        }
        guard !all || state == ["rejected"] else { throw ValidationError("--all requires --state rejected") }
    }

    func run() async throws {
        let states = try chosenStates()
        let queue = try await common.connect()
        if state == ["rejected"] { return try await listRejected(of: queue) }
        var lister = JobLister(queue: queue, order: sort, limit: limit, after: after)
        lister.filter = ListFilter(
            errors: error, hosts: host, workers: worker, older: older.flatMap(Age.milliseconds), match: match)
        let now = try await printingErrors { () throws(RedisError) in try await queue.now() }
        if let by { return try await group(by, states, lister, now) }
        var (rows, rests): ([JobRow], [String]) = ([], [])
        for state in states {
            guard let found = try await seen(state, { () throws(RedisError) in try await lister.list(state) }) else {
                continue
            }
            if !found.hasBegun, let after {
                throw ExitStatus.printing(.jobFailed, "no job \(after) is \(state.rawValue) in the queue \(queue.name)")
            }
            rows += found.rows
            if let rest = rest(of: state, found) { rests.append(rest) }
        }
        // Printed after the list, where the user sees it.
        defer { for rest in rests { Terminal.complain(rest) } }
        guard !common.json else { return try await printJSON(rows, queue) }
        if rows.isEmpty { return Terminal.complain("haul: no such job in the queue \(queue.name)") }
        for line in JobTable.lines(rows, now: now, width: Terminal.width) { Terminal.line(line) }
    }

    private func chosenStates() throws -> [JobState] {
        if state.isEmpty { return by == nil ? JobState.allCases : [.failed] }
        return try state.filter { $0 != "rejected" }.map { text in
            guard let state = JobState(rawValue: text) else {
                let near = Suggestion.nearest(to: text, among: Self.states).map { " Did you mean \($0)?" } ?? ""
                throw ExitStatus.printing(
                    .usage, "\"\(text)\" is not a state: use \(Self.states.joined(separator: ", ")).\(near)")
            }
            return state
        }
    }

    /// Runs `body`. nil if the user may not read the waiting jobs, which hold secrets, and has not asked for queued
    /// jobs.
    private func seen<T>(_ state: JobState, _ body: () async throws(RedisError) -> T) async throws -> T? {
        do throws(RedisError) { return try await body() } catch {
            guard error.code == .noPermission, state == .queued, self.state.isEmpty else {
                throw ExitStatus.printing(error)
            }
            Terminal.complain(
                "haul: this user may not read the waiting jobs: queued jobs are not listed (haul stats counts them)")
            return nil
        }
    }

    /// The line about jobs that the limit left out. It goes to standard error, so that programs can read the list.
    private func rest(of state: JobState, _ found: JobLister.Found) -> String? {
        guard found.left != 0, let last = found.rows.last else { return nil }
        let count = found.left.map { "\($0) more jobs are \(state.rawValue)" } ?? "more jobs are \(state.rawValue)"
        let add = self.state.count == 1 ? "" : "--state \(state.rawValue) "
        return "haul: \(count): add \(add)--after \(last.id) to list them".printable
    }

    private func group(_ key: JobGroups.Key, _ states: [JobState], _ lister: JobLister, _ now: Int64) async throws {
        var groups = JobGroups(by: key)
        for state in states {
            _ = try await seen(state) { () throws(RedisError) in
                try await lister.forEachRow(state) { row in
                    if lister.filter.accepts(row, now: now) { groups.add(row) }
                }
            }
        }
        if common.json {
            for line in groups.json { Terminal.line(line) }
        } else if groups.groups.isEmpty {
            Terminal.complain("haul: no such job in the queue \(lister.queue.name)")
        } else {
            for line in groups.lines(now: now, width: Terminal.width) { Terminal.line(line) }
        }
    }

    /// Prints for each job what `haul show --json` prints.
    private func printJSON(_ rows: [JobRow], _ queue: Queue) async throws {
        for start in stride(from: 0, to: rows.count, by: 200) {
            let rows = rows[start..<min(start + 200, rows.count)]
            let records = try await printingErrors { () throws(RedisError) in try await queue.jobs(rows.map(\.id)) }
            let known = Dictionary(records.map { ($0.id, $0) }) { one, _ in one }
            for row in rows {
                if let record = known[row.id] {
                    Terminal.line(JobView(record: record).summary)
                } else if row.state == .queued {
                    var object = JSONObject()
                    object.set("id", row.id)
                    object.set("state", "queued")
                    if !row.url.isEmpty { object.set("url", row.url) }
                    if !row.waiting.isEmpty { object.set("waiting", row.waiting) }
                    Terminal.line(object.text)
                }
            }
        }
    }

    private func listRejected(of queue: Queue) async throws {
        let texts = try await printingErrors { () throws(RedisError) in try await queue.rejected(limit: limit) }
        let now = try await printingErrors { () throws(RedisError) in try await queue.now() }
        let elements = texts.compactMap(RejectedElement.init)
        if common.json {
            for element in elements { Terminal.line(element.json(isWhole: all)) }
        } else if elements.isEmpty {
            Terminal.complain("haul: nothing was rejected in the queue \(queue.name)")
        } else {
            for line in RejectedElement.lines(elements, isWhole: all, now: now, width: Terminal.width) {
                Terminal.line(line)
            }
        }
        let count = try await printingErrors { () throws(RedisError) in try await queue.stats().rejected }
        if count > texts.count { Terminal.complain("haul: \(count - texts.count) more elements: --limit \(count)") }
    }
}
