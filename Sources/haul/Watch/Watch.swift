import ArgumentParser
import HaulBus
import HaulRedis

struct Watch: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "watch", abstract: "Follow the given jobs, or all jobs without ids.",
        discussion: """
            Ends when all named jobs have ended, with status 1 if one did not complete. At most 20 running jobs have a line \
            at a time; haul top shows all.
            """)
    @OptionGroup var common: CommonOptions
    @Argument(help: "Ids of jobs.", completion: Completer.jobs) var ids: [String] = []
    @Flag(help: "Also wait for jobs that the queue does not know yet.") var waitFor = false

    func validate() throws {
        try Selection.check(ids)
        guard !waitFor || !ids.isEmpty else { throw ValidationError("--wait-for requires the ids of jobs") }
    }

    func run() async throws {
        let queue = try await common.connect()
        if !waitFor {
            let known = try await KnownJobs.find(ids, in: queue)
            let unknown = ids.filter { known.states[$0] == nil }
            if !unknown.isEmpty { throw KnownJobs.complain(unknown, in: queue, "--wait-for waits for it") }
        }
        try await Follower(queue, ids, json: common.json).follow()
    }
}
