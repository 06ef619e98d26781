import ArgumentParser
import HaulBus
import HaulContract
import HaulRedis
import HaulTerminal

/// The options that select the jobs of a command.
struct Selection: ParsableArguments {
    @OptionGroup var common: CommonOptions
    @Argument(help: "Ids of jobs.", completion: Completer.jobs) var ids: [String] = []
    @Flag(help: "All jobs in a state that the command applies to.") var all = false
    @Option(help: "All jobs of this batch, including those that are pushed later.", completion: Completer.batches)
    var batch: String?
    @Flag(help: "Also for unknown jobs: the operation applies if they are pushed within an hour.")
    var waitFor = false

    func validate() throws {
        guard [!ids.isEmpty, all, batch != nil].count(where: { $0 }) == 1 else {
            throw ValidationError("Give ids of jobs, --batch NAME or --all, and only one of them")
        }
        try Self.check(ids)
        if let batch, !JobField.isID(batch) {
            throw ValidationError(
                "\"\(batch)\" is not a valid batch name: use 1 to 128 of the characters A-Z a-z 0-9 . _ : -")
        }
    }

    static func check(_ ids: [String]) throws {
        guard let bad = ids.first(where: { !JobField.isID($0) }) else { return }
        throw ValidationError("\"\(bad)\" is not a valid job id: use 1 to 128 of the characters A-Z a-z 0-9 . _ : -")
    }

    /// Requests `wanted` for the selected jobs, and prints which were asked. Named jobs in a state in which it has no
    /// effect are reported on standard error.
    func request(_ wanted: ControlVerb) async throws {
        let queue = try await common.connect()
        if let batch { return try await request(wanted, ofBatch: batch, queue) }
        if all { return try await requestAll(wanted, queue) }
        let known = try await KnownJobs.find(ids, in: queue)
        let unknown = ids.filter { known.states[$0] == nil }
        let asked = ids.filter { id in waitFor || known.states[id].map { wanted.states.contains($0) } ?? false }
        try await printingErrors { () throws(RedisError) in try await queue.request(wanted.request, of: asked) }
        for id in asked { printResult(id, wanted) }
        for id in ids where !asked.contains(id) {
            guard let state = known.states[id] else { continue }
            Terminal.complain("haul: \(id) is \(state.rawValue): there is nothing to \(wanted.name)")
        }
        guard !waitFor, !unknown.isEmpty else { return }
        throw KnownJobs.complain(unknown, in: queue, "--wait-for requests it all the same")
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
        try await printingErrors { () throws(RedisError) in try await queue.request(request, ofBatch: name) }
        if common.json {
            Terminal.line("{\"batch\":\(JSON.quoted(name)),\"requested\":\"\(request.rawValue)\"}")
        } else {
            Terminal.line("batch \(name)  \(wanted.name) requested".printable)
        }
    }

    private func requestAll(_ wanted: ControlVerb, _ queue: Queue) async throws {
        var ids: [String] = []
        for state in wanted.all {
            ids += try await printingErrors { () throws(RedisError) in try await queue.ids(in: state, limit: 1_000_000)
            }
        }
        guard !ids.isEmpty else {
            return Terminal.complain("haul: the queue \(queue.name) has no job to \(wanted.name)")
        }
        if wanted.destroys {
            try Prompt.confirm(
                "\(wanted.capitalName) \(ids.count) jobs of the queue \(queue.name)?", isConfirmed: wanted.isConfirmed)
        }
        try await printingErrors { () throws(RedisError) in try await queue.request(wanted.request, of: ids) }
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
    /// The states whose jobs `--all` takes, in this order.
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
        discussion: "With --all or --batch it asks first.")
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
        discussion: "--all means all completed, failed and cancelled jobs, and asks first.")
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
