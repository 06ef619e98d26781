import ArgumentParser
import Bus
import Contract
import Redis

/// The jobs that a command is about.
struct Selection: ParsableArguments {
    @OptionGroup var common: CommonOptions
    @Argument(help: "Ids of jobs.") var ids: [String] = []
    @Flag(help: "All jobs that it makes sense for.") var all = false

    func validate() throws {
        guard all == ids.isEmpty else { throw ValidationError("Give ids of jobs, or --all.") }
        if let bad = ids.first(where: { !JobField.isID($0) }) { throw ValidationError("\"\(bad)\" is no job's id.") }
    }

    /// The ids given, or all in `states`.
    func resolve(_ queue: Queue, _ states: [JobState]) async throws -> [String] {
        guard all else { return ids }
        var result: [String] = []
        for state in states {
            result += try await reaching { () throws(RedisError) in try await queue.ids(in: state, limit: 1_000_000) }
        }
        return result
    }

    func request(_ request: Request, _ states: [JobState], _ verb: String) async throws {
        let queue = try await common.connect()
        let ids = try await resolve(queue, states)
        try await reaching { () throws(RedisError) in try await queue.request(request, of: ids) }
        for id in ids {
            Terminal.line(
                common.json ? "{\"id\":\(JSON.quoted(id)),\"requested\":\"\(request.rawValue)\"}" : "\(id)  \(verb)")
        }
    }
}

struct Pause: AsyncParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Pause jobs; what they have is kept.")
    @OptionGroup var selection: Selection
    func run() async throws {
        try await selection.request(.paused, [.queued, .scheduled, .running], "pause requested")
    }
}

struct Resume: AsyncParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Resume paused jobs, at the front of the line.")
    @OptionGroup var selection: Selection
    func run() async throws { try await selection.request(.running, [.paused], "resume requested") }
}

struct Cancel: AsyncParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Cancel jobs; their partial files are removed.")
    @OptionGroup var selection: Selection
    func run() async throws {
        try await selection.request(.cancelled, [.queued, .scheduled, .running, .paused], "cancel requested")
    }
}

struct Retry: AsyncParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Run failed jobs again, from where they got to.")
    @OptionGroup var selection: Selection
    func run() async throws { try await selection.request(.running, [.failed], "retry requested") }
}

struct Remove: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Forget jobs that do not run; finished files stay.",
        discussion: "With --all: completed, failed and cancelled ones. A running job is cancelled first.")
    @OptionGroup var selection: Selection

    func run() async throws {
        let queue = try await selection.common.connect()
        var failed = false
        for id in try await selection.resolve(queue, [.completed, .failed, .cancelled]) {
            let result = try await reaching { () throws(RedisError) in try await queue.remove(id) }
            if selection.common.json {
                Terminal.line("{\"id\":\(JSON.quoted(id)),\"result\":\"\(result.rawValue)\"}")
            } else {
                Terminal.line("\(id)  \(result == .running ? "is running: cancel it first" : result.rawValue)")
            }
            failed = failed || result != .removed
        }
        if failed { throw ExitStatus.jobFailed }
    }
}
