import ArgumentParser
import HaulBus
import HaulContract
import HaulRedis

/// The jobs that a command is about.
struct Selection: ParsableArguments {
    @OptionGroup var common: CommonOptions
    @Argument(help: "Ids of jobs.", completion: Completer.jobs) var ids: [String] = []
    @Flag(help: "All jobs that it makes sense for.") var all = false

    func validate() throws {
        guard all == ids.isEmpty else { throw ValidationError("Give ids of jobs, or --all.") }
        try Self.check(ids)
    }

    static func check(_ ids: [String]) throws {
        guard let bad = ids.first(where: { !JobField.isID($0) }) else { return }
        throw ValidationError("\"\(bad)\" is no job's id: 1 to 128 of the characters A-Z a-z 0-9 . _ : -")
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
        abstract: "Forget jobs; what has not ended is cancelled first. Finished files stay, unless --files is given.",
        discussion: "With --all: completed, failed and cancelled ones.")
    @OptionGroup var selection: Selection
    @Flag(help: "Delete the finished files as well.") var files = false

    func run() async throws {
        let request = files ? Request.deleted : .removed
        try await selection.request(request, [.completed, .failed, .cancelled], "removal requested")
    }
}
