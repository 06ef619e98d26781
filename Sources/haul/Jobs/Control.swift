import ArgumentParser
import HaulBus
import HaulContract
import HaulRedis
import HaulTerminal

/// The options that select the jobs of a command.
struct Selection: ParsableArguments {
    @OptionGroup var common: CommonOptions
    @Argument(help: "Ids or whole URLs of jobs.", completion: Completer.jobs) var jobs: [String] = []
    @Flag(help: "All jobs in a state that the command applies to.") var all = false
    @OptionGroup var filter: FilterOptions
    @Flag(help: "Also for unknown jobs: the operation applies if they are pushed within an hour.")
    var waitFor = false

    func validate() throws {
        guard [!jobs.isEmpty, all, !filter.isEmpty].count(where: { $0 }) == 1 else {
            throw ValidationError(
                "Give ids or URLs of jobs, filters such as --state and --batch, or --all, and only one of them")
        }
        try JobArguments.check(jobs)
    }

    /// Requests `wanted` for the selected jobs, and prints which were asked. Named jobs in a state in which it has no
    /// effect are reported on standard error.
    func request(_ wanted: ControlVerb) async throws {
        let queue = try await common.connect()
        if filter.isBatchOnly, let batch = filter.batch { return try await request(wanted, ofBatch: batch, queue) }
        if jobs.isEmpty { return try await requestAll(wanted, queue) }
        let (ids, unknownURLs) = try await JobArguments.ids(jobs, in: queue)
        let known = try await KnownJobs.find(ids, in: queue)
        let unknown = ids.filter { known.states[$0] == nil }
        let asked = ids.filter { id in waitFor || known.states[id].map { wanted.states.contains($0) } ?? false }
        if !asked.isEmpty { try await apply(wanted, to: asked, of: queue) }
        for id in asked { printResult(id, wanted) }
        for id in ids where !asked.contains(id) {
            guard let state = known.states[id] else { continue }
            Terminal.complain("haul: \(id) is \(state.rawValue): there is nothing to \(wanted.name)")
        }
        if !unknownURLs.isEmpty {
            throw KnownJobs.complain(
                unknownURLs + (waitFor ? [] : unknown), in: queue, "a URL must be whole, with its query")
        }
        guard !waitFor, !unknown.isEmpty else { return }
        throw KnownJobs.complain(unknown, in: queue, "--wait-for requests it all the same")
    }

    private func apply(_ wanted: ControlVerb, to ids: [String], of queue: Queue) async throws {
        var change = ChangeRecord(byUser: wanted.name)
        change.select(ids)
        if jobs.isEmpty { change.filter = all ? "--all" : filter.text }
        change.at = try await printingErrors { () throws(RedisError) in
            try await queue.request(wanted.request, of: ids)
        }
        await queue.record(change)
    }

    private func request(_ wanted: ControlVerb, ofBatch name: String, _ queue: Queue) async throws {
        guard let request = wanted.ofBatch else {
            throw ExitStatus.printing(
                .usage, "a batch cannot be asked to \(wanted.name): name its jobs, or use --all. Nothing was done.")
        }
        if wanted.destroys {
            try Prompt.confirm(
                "\(wanted.capitalName) the batch \(name) of the queue \(queue.name)?", isConfirmed: wanted.isConfirmed)
        }
        var change = ChangeRecord(byUser: wanted.name)
        change.batch = name
        change.at = try await printingErrors { () throws(RedisError) in
            try await queue.request(request, ofBatch: name)
        }
        await queue.record(change)
        if common.json {
            Terminal.line("{\"batch\":\(JSON.quoted(name)),\"requested\":\"\(request.rawValue)\"}")
        } else {
            Terminal.line("batch \(name)  \(wanted.name) requested".printable)
        }
    }

    private func requestAll(_ wanted: ControlVerb, _ queue: Queue) async throws {
        let states = try filter.states(else: wanted.all)
        if let state = states.first(where: { !wanted.states.contains($0) }) {
            throw ExitStatus.printing(
                .usage, "--state \(state.rawValue): there is nothing to \(wanted.name) in this state. Nothing was done."
            )
        }
        let ids = try await filter.ids(in: states, of: queue)
        guard !ids.isEmpty else {
            return Terminal.complain("haul: the queue \(queue.name) has no such job to \(wanted.name)")
        }
        if wanted.destroys {
            try Prompt.confirm(
                "\(wanted.capitalName) \(ids.count) jobs of the queue \(queue.name)?", isConfirmed: wanted.isConfirmed)
        }
        try await apply(wanted, to: ids, of: queue)
        for id in ids { printResult(id, wanted) }
    }

    private func printResult(_ id: String, _ wanted: ControlVerb) {
        if common.json {
            Terminal.line("{\"id\":\(JSON.quoted(id)),\"requested\":\"\(wanted.request.rawValue)\"}")
        } else {
            Terminal.line("\(id)  \(wanted.name) requested".printable)
        }
    }
}

/// What a command requests of jobs.
struct ControlVerb {
    let name: String
    let request: ControlOperation
    /// The states in which the request has an effect.
    let states: Set<JobState>
    /// The states whose jobs `--all` takes, and filters without a state, in this order.
    let all: [JobState]
    /// The request to a batch; nil if a batch cannot be asked for it.
    var ofBatch: BatchRequest?
    /// Whether the request cannot be undone, so that the user is asked first.
    var destroys = false
    /// `--yes` was given.
    var isConfirmed = false
    /// For the beginning of a sentence.
    var capitalName: String { name.prefix(1).uppercased() + name.dropFirst() }
}

struct Pause: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pause", abstract: "Pause jobs; their bytes are kept.")
    @OptionGroup var selection: Selection
    func run() async throws {
        try await selection.request(
            ControlVerb(
                name: "pause", request: .paused, states: [.queued, .scheduled, .running],
                all: [.queued, .scheduled, .running], ofBatch: .paused))
    }
}

struct Resume: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "resume", abstract: "Resume paused jobs, at the front of the queue.")
    @OptionGroup var selection: Selection
    func run() async throws {
        // For a running or queued job this withdraws a pause that is still pending. A scheduled job starts before its
        // time.
        try await selection.request(
            ControlVerb(
                name: "resume", request: .running, states: [.paused, .running, .scheduled, .queued], all: [.paused],
                ofBatch: .running))
    }
}

struct Cancel: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "cancel", abstract: "Cancel jobs; their partial files are removed.",
        discussion: "With --all, --batch or another filter it asks first.")
    @OptionGroup var selection: Selection
    @Flag(help: "Do not ask.") var yes = false
    func run() async throws {
        try await selection.request(
            ControlVerb(
                name: "cancel", request: .cancelled, states: [.queued, .scheduled, .running, .paused],
                all: [.queued, .scheduled, .running, .paused], ofBatch: .cancelled, destroys: true, isConfirmed: yes))
    }
}

struct Retry: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "retry", abstract: "Run failed jobs again, from their last checkpoints.")
    @OptionGroup var selection: Selection
    func run() async throws {
        try await selection.request(
            ControlVerb(
                name: "retry", request: .running, states: [.failed, .scheduled], all: [.failed], ofBatch: .retried))
    }
}

struct Remove: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "remove",
        abstract:
            "Remove jobs, which are cancelled first if they have not ended. Finished files stay, unless --files is given.",
        discussion:
            "--all, and filters without --state, mean completed, failed and cancelled jobs. Both ask first.")
    @OptionGroup var selection: Selection
    @Flag(help: "Delete the finished files as well.") var files = false
    @Flag(help: "Do not ask.") var yes = false

    func run() async throws {
        try await selection.request(
            ControlVerb(
                name: "remove", request: files ? .deleted : .removed, states: Set(JobState.allCases),
                all: [.completed, .failed, .cancelled], destroys: true, isConfirmed: yes))
    }
}
