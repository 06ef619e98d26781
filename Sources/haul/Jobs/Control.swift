import ArgumentParser
import HaulBus
import HaulContract
import HaulTerminal

/// The options that select the jobs of a command.
struct Selection: ParsableArguments {
    @OptionGroup var common: CommonOptions
    @Argument(
        help: "Ids or whole URLs of jobs. Exit status 1 if one is in a state in which this cannot be done.",
        completion: Completer.jobs) var jobs: [String] = []
    @Flag(help: "All jobs in a state that the command applies to.") var all = false
    @OptionGroup var filter: FilterOptions
    @Flag(help: "Accept unknown jobs: the operation applies if they are pushed within a day.")
    var waitFor = false

    func validate() throws {
        guard [!jobs.isEmpty, all, !filter.isEmpty].count(where: { $0 }) == 1 else {
            throw ValidationError(
                "Give ids or URLs of jobs, filters such as --state and --batch, or --all, and only one of them")
        }
        try JobArguments.check(jobs)
    }

    /// Requests the operation of `command` for the selected jobs, and prints their ids. Jobs that are named but in a
    /// state in which it has no effect are reported on standard error, and are a failure unless they are as wanted.
    func request(_ command: ControlCommand) async throws {
        let queue = try await common.connect()
        if filter.isBatchOnly, let batch = filter.batch { return try await request(command, ofBatch: batch, queue) }
        if jobs.isEmpty { return try await requestAll(command, queue) }
        let named = try await JobArguments.find(jobs, in: queue)
        let (ids, unknownURLs) = (named.ids, named.unknownURLs)
        let known = try await KnownJobs.find(ids, in: queue, waiting: named.waiting)
        let unknown = ids.filter { known.states[$0] == nil }
        let asked = ids.filter { id in waitFor || known.states[id].map { command.states.contains($0) } ?? false }
        if !asked.isEmpty { try await apply(command, to: asked, of: queue) }
        for id in asked { printResult(id, command) }
        var isRefused = false
        for id in ids where !asked.contains(id) {
            guard let state = known.states[id] else { continue }
            Terminal.printError("haul: \(id) is \(state.rawValue): there is nothing to \(command.name)")
            if !command.aims.contains(state) { isRefused = true }
        }
        if !unknownURLs.isEmpty {
            throw KnownJobs.reportUnknown(
                unknownURLs + (waitFor ? [] : unknown), in: queue, "a URL must be whole, with its query")
        }
        if !waitFor, !unknown.isEmpty {
            throw KnownJobs.reportUnknown(
                unknown, in: queue, known.caveat ?? "with --wait-for it applies once they are pushed")
        }
        if isRefused { throw ExitStatus.jobFailed }
    }

    /// - Parameter timestamps: The operation stops no push that is newer, by the number of its partition; nil: now.
    /// - Returns: The jobs without those for which a newer operation waits.
    @discardableResult private func apply(
        _ command: ControlCommand, to ids: [String], of queue: Queue, at timestamps: [Int: Int64]? = nil
    ) async throws -> [String] {
        var change = ChangeRecord(byUser: command.name)
        if jobs.isEmpty { change.filter = all ? "--all" : filter.text }
        let requested = try await queue.request(command.operation, of: ids, at: timestamps)
        change.select(requested.ids)
        change.at = requested.timestamp
        if !requested.ids.isEmpty { await queue.record(change) }
        return requested.ids
    }

    private func request(_ command: ControlCommand, ofBatch name: String, _ queue: Queue) async throws {
        guard let operation = command.batchOperation else {
            throw ExitStatus.printing(
                .usage, "\(command.name) does not apply to a batch: name its jobs, or use --all. Nothing was done.")
        }
        // A batch is counted once a worker has seen a job of it.
        if !waitFor, try await queue.batch(name) == nil, try await filter.ids(in: [.queued], of: queue).isEmpty {
            throw ExitStatus.printing(
                .jobFailed,
                "no batch \(name) is known in the queue \(queue.name), so nothing was done: with --wait-for it applies once a job "
                    + "of this batch is claimed")
        }
        try command.confirm("the batch \(name) of the queue \(queue.name)")
        var change = ChangeRecord(byUser: command.name)
        change.batch = name
        change.at = try await queue.request(operation, ofBatch: name)
        await queue.record(change)
        if common.json {
            Terminal.line("{\"batch\":\(JSON.quoted(name)),\"requested\":\"\(operation.rawValue)\"}")
        } else {
            Terminal.line("batch \(name)  \(command.name) requested".printable)
        }
    }

    private func requestAll(_ command: ControlCommand, _ queue: Queue) async throws {
        let states = try filter.states(else: command.defaultStates)
        if let state = states.first(where: { !command.states.contains($0) }) {
            throw ExitStatus.printing(
                .usage,
                "--state \(state.rawValue): there is nothing to \(command.name) in this state. Nothing was done."
            )
        }
        let chosen = try await filter.ids(in: states, of: queue)
        guard !chosen.isEmpty else {
            return Terminal.printError(
                "haul: no job of the queue \(queue.name) matches, so there is nothing to \(command.name)")
        }
        try command.confirm("\(chosen.count == 1 ? "1 job" : "\(chosen.count) jobs") of the queue \(queue.name)")
        let timestamps = try await queue.timestamps(of: command.operation, choosing: states)
        // Others may have retried or pushed some of them since the list was read.
        var ids = try await KnownJobs.ids(chosen, in: Set(states), of: queue)
        if !ids.isEmpty { ids = try await apply(command, to: ids, of: queue, at: timestamps) }
        for id in ids { printResult(id, command) }
        if ids.count < chosen.count {
            let names = states.map(\.rawValue).joined(separator: ", ")
            Terminal.printError(
                "haul: \(chosen.count - ids.count) of the jobs were left out: they are no longer \(names), were pushed again, or another operation waits for them"
            )
        }
    }

    private func printResult(_ id: String, _ command: ControlCommand) {
        if common.json {
            Terminal.line("{\"id\":\(JSON.quoted(id)),\"requested\":\"\(command.operation.rawValue)\"}")
        } else {
            Terminal.line("\(id)  \(command.name) requested".printable)
        }
    }
}

/// A command that requests a control operation.
struct ControlCommand {
    let name: String
    let operation: ControlOperation
    /// The states in which the operation has an effect.
    let states: Set<JobState>
    /// The states in which a job is as the operation would make it.
    let aims: Set<JobState>
    /// The states whose jobs `--all` and filters without a state select, in this order.
    let defaultStates: [JobState]
    /// The operation for a whole batch; nil if that is not possible.
    var batchOperation: BatchOperation?
    /// Whether the user must confirm the operation for many jobs.
    var confirmation = Confirmation.none
    /// `--yes` was given.
    var isConfirmed = false

    enum Confirmation {
        case none
        /// Whoever sits at a terminal is asked, and scripts are not.
        case atTerminal
        /// The operation cannot be undone, so that a script must say `--yes`.
        case always
    }

    /// - Throws: `ExitStatus` if the user does not confirm the operation; the reason has been printed.
    func confirm(_ jobs: String) throws {
        if confirmation == .none || confirmation == .atTerminal && !Prompt.isPossible { return }
        try Prompt.confirm("\(name.prefix(1).uppercased() + name.dropFirst()) \(jobs)?", isConfirmed: isConfirmed)
    }
}

struct Pause: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pause", abstract: "Pause jobs; their bytes are kept.")
    @OptionGroup var selection: Selection
    func run() async throws {
        try await selection.request(
            ControlCommand(
                name: "pause", operation: .paused, states: [.queued, .scheduled, .running], aims: [.paused],
                defaultStates: [.queued, .scheduled, .running], batchOperation: .paused))
    }
}

struct Resume: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "resume", abstract: "Resume paused jobs, at the front of the queue.")
    @OptionGroup var selection: Selection
    func run() async throws {
        // For a running or queued job this withdraws a pending pause. A scheduled job starts at once.
        try await selection.request(
            ControlCommand(
                name: "resume", operation: .running, states: [.paused, .running, .scheduled, .queued],
                aims: [], defaultStates: [.paused],
                batchOperation: .running))
    }
}

struct Cancel: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "cancel", abstract: "Cancel jobs; their partial files are removed.",
        discussion: "With --all, --batch or another filter it asks for confirmation.")
    @OptionGroup var selection: Selection
    @Flag(help: "Do not ask.") var yes = false
    func run() async throws {
        try await selection.request(
            ControlCommand(
                name: "cancel", operation: .cancelled, states: [.queued, .scheduled, .running, .paused],
                aims: [.cancelled], defaultStates: [.queued, .scheduled, .running, .paused], batchOperation: .cancelled,
                confirmation: .always, isConfirmed: yes))
    }
}

struct Retry: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "retry", abstract: "Run failed jobs again, from their last checkpoints.",
        discussion: "On a terminal it asks for confirmation with --all, --batch or another filter.")
    @OptionGroup var selection: Selection
    @Flag(help: "Do not ask.") var yes = false
    func run() async throws {
        try await selection.request(
            ControlCommand(
                name: "retry", operation: .running, states: [.failed, .scheduled],
                aims: [.queued, .running], defaultStates: [.failed], batchOperation: .retried,
                confirmation: .atTerminal, isConfirmed: yes))
    }
}

struct Remove: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "remove",
        abstract:
            "Remove jobs, which are cancelled first if they have not ended. Finished files stay, unless --files is given.",
        discussion:
            "--all, and filters without --state, select completed, failed and cancelled jobs. Both ask for confirmation."
    )
    @OptionGroup var selection: Selection
    @Flag(help: "Delete the finished files as well.") var files = false
    @Flag(help: "Do not ask.") var yes = false

    func run() async throws {
        try await selection.request(
            ControlCommand(
                name: "remove", operation: files ? .deleted : .removed, states: Set(JobState.allCases),
                aims: [], defaultStates: [.completed, .failed, .cancelled], confirmation: .always, isConfirmed: yes))
    }
}
