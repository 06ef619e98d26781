import ArgumentParser
import HaulBus
import HaulContract
import HaulTerminal

/// The options that select jobs by what is known of them. All of those that are given must be met.
struct FilterOptions: ParsableArguments {
    @Option(
        parsing: .singleValue, help: "Jobs in this state. May be repeated.",
        completion: .list(List.states))
    var state: [String] = []
    @Option(parsing: .singleValue, help: "Jobs with this error, like http_404 or 'http_5*'. May be repeated.")
    var error: [String] = []
    @Option(parsing: .singleValue, help: "Jobs whose URL is on this host or below it. May be repeated.")
    var host: [String] = []
    @Option(
        parsing: .singleValue, help: "Jobs that this worker runs or ran. May be repeated.",
        completion: Completer.workers)
    var worker: [String] = []
    @Option(help: "Jobs of this batch.", completion: Completer.batches) var batch: String?
    @Option(parsing: .singleValue, help: "Jobs of this group. May be repeated.") var group: [String] = []
    @Option(help: "Jobs that have been in their state for so long: 90s, 10m, 2h, 7d.") var older: String?
    @Option(help: "Jobs whose id, URL or file contains this text; * and ? are wildcards.") var match: String?

    func validate() throws {
        if let older, Age.milliseconds(older) == nil {
            throw ValidationError("--older must be a time like 90s, 10m, 2h or 7d, not \"\(older)\".")
        }
        if let batch, !JobField.isID(batch) {
            throw ValidationError(
                "\"\(batch)\" is not a valid batch name: use 1 to 128 of the characters A-Z a-z 0-9 . _ : -")
        }
    }

    /// The conditions besides the states.
    var conditions: ListFilter {
        ListFilter(
            errors: error, hosts: host, workers: worker, batch: batch, groups: group,
            older: older.flatMap(Age.milliseconds), match: match)
    }

    /// The filters as they were given, for the list of changes.
    var text: String {
        let lists = [("state", state), ("error", error), ("host", host), ("worker", worker), ("group", group)]
        let single = [("batch", batch), ("older", older), ("match", match)]
        let all =
            lists.flatMap { name, values in values.map { (name, $0) } }
            + single.compactMap { name, value in
                value.map { (name, $0) }
            }
        return all.map { "\($0)=\($1)" }.joined(separator: " ")
    }

    var isEmpty: Bool { state.isEmpty && conditions.isEmpty }

    /// Whether nothing but the batch is given. Then an operation is for the batch itself.
    var isBatchOnly: Bool {
        var others = conditions
        others.batch = nil
        return batch != nil && state.isEmpty && others.isEmpty
    }

    /// The states that are given, or else `states`.
    func states(else states: [JobState]) throws -> [JobState] {
        guard !state.isEmpty else { return states }
        return try state.map { text in
            guard let state = JobState(rawValue: text) else {
                let names = JobState.allCases.map(\.rawValue)
                let near = Suggestion.nearest(to: text, among: names).map { " Did you mean \($0)?" } ?? ""
                throw ExitStatus.printing(
                    .usage, "\"\(text)\" is not a state: use \(names.joined(separator: ", ")).\(near)")
            }
            return state
        }
    }

    /// The ids of the jobs that meet all conditions, those of `states` in turn.
    func ids(in states: [JobState], of queue: Queue) async throws -> [String] {
        var (ids, known): ([String], Set<String>) = ([], [])
        let conditions = conditions
        let lister = JobLister(queue: queue, filter: conditions)
        let now = try await queue.time()
        for state in states {
            try await lister.forEachRow(state) { row in
                guard conditions.accepts(row, now: now), known.insert(row.id).inserted else { return }
                ids.append(row.id)
            }
        }
        return ids
    }
}

/// Arguments that name jobs: ids, or whole URLs with their queries.
enum JobArguments {
    /// No id has a slash.
    static func isURL(_ text: String) -> Bool { text.contains("://") }

    static func check(_ arguments: [String]) throws {
        guard let bad = arguments.first(where: { !isURL($0) && !JobField.isID($0) }) else { return }
        throw ValidationError(
            "\"\(bad)\" is not a valid job id: use 1 to 128 of the characters A-Z a-z 0-9 . _ : -, or give a whole URL")
    }

    struct Named {
        var ids: [String] = []
        /// URLs that no job has, as they may be shown.
        var unknownURLs: [String] = []
        /// The jobs of URLs that wait in the queue, by id.
        var waiting: [String: ListedJob] = [:]
    }

    /// The jobs that are named. A URL names all jobs that have it.
    static func find(_ arguments: [String], in queue: Queue) async throws -> Named {
        let urls = Set(arguments.filter(isURL))
        let found = urls.isEmpty ? JobsByURL() : try await queue.jobs(ofURLs: urls)
        var named = Named(waiting: found.waiting)
        var known: Set<String> = []
        for argument in arguments {
            let ids = isURL(argument) ? found.ids[argument] ?? [] : [argument]
            if ids.isEmpty { named.unknownURLs.append(MaskedURL.keepingQuery(argument)) }
            for id in ids where known.insert(id).inserted { named.ids.append(id) }
        }
        return named
    }
}
