import Glibc
import HaulActivities
import HaulBus
import HaulContract
import HaulExecutors
import HaulFileStore
import HaulMetrics
import HaulRedis
import HaulStorage
import HaulTestSupport
import Logging
import Testing

@testable import HaulWorker

/// What the janitor removes, and above all what it does not remove.
@Suite struct JanitorTests {
    private let warnings = Shared<[String]>([])

    private func janitor(_ fleet: Fleet) throws -> Janitor {
        let log = Warnings.log(to: warnings)
        let store = try FileStore(root: fleet.root.path)
        let queueServer = QueueServer(
            index: 0, name: .default, identity: WorkerIdentity(name: "w", store: store.id),
            configuration: WorkerConfiguration(redis: fleet.queue.redis.url, root: fleet.root.path, name: "w"),
            grace: Grace(.seconds(10)), store: store, log: log, registry: MetricsRegistry(Metric.workerMetrics))
        var janitor = Janitor(store: store, queueServers: [queueServer], log: log)
        janitor.settledAge = -1
        return janitor
    }

    private func put(_ id: String, in state: JobState, _ queue: Queue) async throws {
        let command =
            state == .queued
            ? Command("LPUSH", queue.keys.jobs, #"{"id":"\#(id)"}"#) : Command("ZADD", queue.keys.index(state), 1, id)
        try await queue.redis.send(command)
    }

    private static func generation(_ digit: Int) -> String { String(repeating: "\(digit)", count: 32) }

    /// Puts one job into each state. Its id is the name of the state, its generation is 1, and its token is 2.
    private func putJobs(_ queue: Queue) async throws {
        for state in JobState.allCases {
            let id = state.rawValue
            try await put(id, in: state, queue)
            try await queue.redis.send(
                Command(
                    "HSET", queue.keys.job(id), "state", id, "generation", Self.generation(1), "token",
                    Self.generation(2)))
        }
    }

    private static let unfinished = [JobState.queued, .scheduled, .running, .paused, .failed].map(\.rawValue)

    @Test("leftovers of completed and cancelled jobs are removed, and nothing that may be wanted")
    func settled() async throws {
        let fleet = try await Fleet()
        let root = fleet.root
        try await putJobs(fleet.queue)
        let wanted = Self.unfinished.flatMap { [root.leave($0), root.leave($0, "3")] }
        // Others share the root: queues that are not served here, and queues of the same name on another Redis server.
        let foreign = [
            root.leave("unknown"), root.leave("unknown", "2", as: "u"), root.leave("completed", queue: "other"),
            root.leave("completed", "3"), root.leave("cancelled", "3"),
        ]
        let orphans = [
            root.leave("completed"), root.leave("cancelled"), root.leave("completed", "2", as: "c"),
            root.leave("cancelled", "4", as: "d"), root.leave("cancelled", "2.1f"),
        ]
        // The file of a worker that was killed while it tested whether it can write.
        let probe = ".haul-probe-1-2"
        close(open(root.file(probe), O_CREAT | O_WRONLY, 0o600))
        var janitor = try janitor(fleet)
        janitor.settledAge = 50
        await janitor.sweep()
        #expect(Set(orphans + [probe]).isSubset(of: root.names), "they are younger than a minute")
        janitor.settledAge = -1
        await janitor.sweep()
        #expect(Set(root.names) == Set(wanted + foreign + ["c", "d", "u"]))
    }

    @Test("leftovers of lost runs of cancelled and removed jobs are removed, even if no run reported them")
    func lost() async throws {
        let fleet = try await Fleet()
        let queue = fleet.queue
        try await put("c", in: .cancelled, queue)
        for (id, state) in [("c", ["state", "cancelled"]), ("r", []), ("again", ["state", "paused"])] {
            let lost = "\(Self.generation(1)) \(Self.generation(2))"
            let fields = state + ["lost", lost]
            try await queue.redis.send(Command(arguments: ["HSET", queue.keys.job(id)] + fields))
        }
        for id in ["gone", "again", "r"] {
            try await queue.redis.send(Command("ZADD", queue.keys.prefix + "removed", 1, id))
        }
        let wanted = [
            fleet.root.leave("c", "3"), fleet.root.leave("r", "3"), fleet.root.leave("again"), fleet.root.leave("gone"),
        ]
        let orphans = ["c", "r"].flatMap { id in
            ["1", "2", "1.1f", "3-" + String(repeating: "2", count: 32)].map { fleet.root.leave(id, $0) }
        }
        #expect(Set(fleet.root.names) == Set(wanted + orphans))
        var janitor = try janitor(fleet)
        await janitor.sweep()
        #expect(Set(fleet.root.names) == Set(wanted))
    }

    @Test("an old file of an unknown job is removed, and none that may be continued") func old() async throws {
        let fleet = try await Fleet()
        try await putJobs(fleet.queue)
        let wanted = Self.unfinished.map { fleet.root.leave($0) }
        _ = [fleet.root.leave("unknown"), fleet.root.leave("completed", queue: "other")]
        var janitor = try janitor(fleet)
        janitor.age = -1
        await janitor.sweep()
        #expect(Set(fleet.root.names) == Set(wanted))
    }

    @Test("leftovers of settled jobs are found however many jobs there are") func many() async throws {
        let fleet = try await Fleet()
        let fill = """
            for n = 1, 2500 do
              redis.call('ZADD', KEYS[1], n, 'j' .. n)
              redis.call('HSET', KEYS[2] .. n, 'state', 'completed', 'generation', ARGV[1])
            end
            """
        let keys = fleet.queue.keys
        try await fleet.queue.redis.send(
            Command("EVAL", fill, 2, keys.index(.completed), keys.job("j"), Self.generation(1)))
        let partials = [1, 1000, 1001, 2500].map { fleet.root.leave("j\($0)") }
        var janitor = try janitor(fleet)
        #expect(Set(fleet.root.names) == Set(partials))
        await janitor.sweep()
        #expect(fleet.root.names == [])
    }

    @Test("no old file is removed while there are too many jobs to read, and one warning says so")
    func tooMany() async throws {
        let fleet = try await Fleet()
        for id in ["a", "b", "c"] { try await put(id, in: .paused, fleet.queue) }
        let (known, unknown) = (fleet.root.leave("c"), fleet.root.leave("unknown"))
        var janitor = try janitor(fleet)
        janitor.age = -1
        janitor.maxJobs = 3
        for _ in 1...2 { await janitor.sweep() }
        #expect(Set(fleet.root.names) == [known, unknown])
        #expect(warnings.value.count == 1 && warnings.value[0].contains("too many jobs to read all their ids"))
        janitor.maxJobs = 4
        await janitor.sweep()
        #expect(fleet.root.names == [known])
    }

    @Test("between full sweeps Redis is asked only about new files") func lookedAt() async throws {
        let fleet = try await Fleet()
        let queue = fleet.queue
        func set(_ id: String, _ state: JobState) async throws {
            try await put(id, in: state, queue)
            try await queue.redis.send(
                Command("HSET", queue.keys.job(id), "state", state.rawValue, "generation", Self.generation(1)))
        }
        try await set("p", .paused)
        let wanted = fleet.root.leave("p")
        var janitor = try janitor(fleet)
        await janitor.sweep()
        let asked = try await fleet.server.statistic("total_commands_processed")
        // The one command that is counted is the first INFO.
        await janitor.sweep(isFull: false)
        #expect(try await fleet.server.statistic("total_commands_processed") == asked + 1)
        try await set("c", .completed)
        _ = fleet.root.leave("c")
        await janitor.sweep(isFull: false)
        #expect(fleet.root.names == [wanted])
        try await queue.redis.send(Command("DEL", queue.keys.index(.paused)))
        try await set("p", .completed)
        await janitor.sweep(isFull: false)
        #expect(fleet.root.names == [wanted])
        await janitor.sweep()
        #expect(fleet.root.names == [])
    }

    @Test("an inspection of a root finds what jobs have left, and removes it on request")
    func inspection() async throws {
        let fleet = try await Fleet()
        _ = try FileStore(root: fleet.root.path)
        try await putJobs(fleet.queue)
        let left = [fleet.root.leave("completed"), fleet.root.leave("cancelled")]
        let wanted = [fleet.root.leave("paused"), fleet.root.leave("unknown")]
        var inspection = try RootInspection(root: fleet.root.path, of: fleet.queue)
        #expect(await inspection.run(repairing: true).isEmpty, "they are too young")
        inspection.age = -1
        let findings = await inspection.run(repairing: false)
        #expect(Set(findings.map(\.subject)) == Set(left.map(fleet.root.file)))
        #expect(Set(fleet.root.names) == Set(left + wanted))
        #expect(await inspection.run(repairing: true).map(\.isRepaired) == [true, true])
        #expect(Set(fleet.root.names) == Set(wanted))
        #expect(throws: Failure.self) { try RootInspection(root: "/tmp", of: fleet.queue) }
    }

    @Test("a file that is written to after it was found is kept") func changed() async throws {
        let fleet = try await Fleet()
        let partial = fleet.root.leave("j")
        let store = try FileStore(root: fleet.root.path)
        let found = await store.leftovers(olderThan: -1)
        #expect(found.map(\.path) == [partial])
        let file = open(fleet.root.file(partial), O_WRONLY)
        defer { close(file) }
        func changed() -> Int {
            var status = stat()
            fstat(file, &status)
            return status.st_ctim.tv_nsec
        }
        let before = changed()
        // The clock of the file system advances some hundred times a second.
        try await eventually("the file's change time to advance") { write(file, "x", 1) == 1 && changed() != before }
        #expect(await store.remove(found).isEmpty)
        #expect(fleet.root.names == [partial])
    }
}

extension TemporaryDirectory {
    static let generation = String(repeating: "1", count: 32)

    /// Makes a partial file of a job, and a second link to it if `name` is given. Returns the partial file's name.
    func leave(_ id: String, _ generation: String = "1", as name: String? = nil, queue: String = "default") -> String {
        let key = PartialKey.of(id, in: QueueName(queue)!)
        let partial = ".haul-\(key)-\(String(repeating: generation.first!, count: 32))\(generation.dropFirst())"
        close(open(file(partial), O_CREAT | O_WRONLY, 0o600))
        if let name { link(file(partial), file(name)) }
        return partial
    }
}
