import ArgumentParser
import HaulBus
import HaulContract
import HaulRedis
import HaulTerminal

struct Watch: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "watch", abstract: "Follow the selected jobs, or all jobs if none are selected.",
        discussion: """
            Ends when all selected jobs have ended, with status 1 if one did not complete. At most 20 running jobs have a line \
            at a time; haul top shows all.
            """)
    @OptionGroup var common: CommonOptions
    @Argument(help: "Ids or whole URLs of jobs.", completion: Completer.jobs) var jobs: [String] = []
    @OptionGroup var filter: FilterOptions
    @OptionGroup var display: ProgressOption
    @Flag(help: "Also wait for jobs that the queue does not know yet.") var waitFor = false

    func validate() throws {
        try JobArguments.check(jobs)
        guard jobs.isEmpty || filter.isEmpty else {
            throw ValidationError("Give ids or URLs of jobs, or filters such as --state, and not both")
        }
        guard !waitFor || !jobs.isEmpty else { throw ValidationError("--wait-for requires the ids of jobs") }
    }

    func run() async throws {
        let queue = try await common.connect()
        let named = try await JobArguments.find(jobs, in: queue)
        var ids = named.ids
        guard named.unknownURLs.isEmpty else {
            throw KnownJobs.reportUnknown(named.unknownURLs, in: queue, "a URL must be whole, with its query")
        }
        if !filter.isEmpty {
            let states = try filter.states(else: [.running, .queued, .scheduled, .paused])
            ids = try await filter.ids(in: states, of: queue)
            guard !ids.isEmpty else {
                throw ExitStatus.printing(.jobFailed, "the queue \(queue.name) has no such job to watch")
            }
        }
        let now = try await queue.time()
        let known = try await KnownJobs.find(ids, in: queue, waiting: named.waiting)
        let unknown = filter.isEmpty && !waitFor ? ids.filter { known.states[$0] == nil } : []
        guard unknown.isEmpty else {
            throw KnownJobs.reportUnknown(unknown, in: queue, known.caveat ?? "--wait-for waits for it")
        }
        var follower = Follower(queue, ids, json: common.json, progress: display.progress)
        // The end that the hash tells of is not that of the push which waits. A push without a time gets that of its
        // claim.
        follower.pushed = known.anew.mapValues { $0.timestamp ?? now }
        // Nor is it that of a retry which no worker has applied yet.
        let ended = ids.filter { known.states[$0]?.isFinal ?? false }
        follower.pushed.merge(try await queue.pendingRetries(of: ended), uniquingKeysWith: max)
        try await follower.follow()
    }
}
