import HaulActivities
import HaulBus
import HaulContract
import HaulFileStore
import HaulHTTP
import HaulMetrics
import HaulRedis
import HaulStorage
import HaulTestSupport
import Synchronization
import Testing

@testable import HaulWorker

/// Files that ticks assign to a worker.
@Suite struct UnlinkerTests {
    /// A store that answers no request before it is opened, like a bucket that hangs.
    private final class SlowStore: DurableStore {
        private let store: FileStore
        let discarded = Shared<[String]>([])
        let isOpen = Shared(false)
        let isRefusing = Shared(false)
        let deleted = Shared<[String]>([])
        let begun = Shared(0)

        init(root: String) throws { store = try FileStore(root: root) }

        private func wait() async {
            while !isOpen.value, !Task.isCancelled { try? await Task.sleep(for: .milliseconds(5)) }
        }

        func discardUnplaced(_ locations: [PartialLocation]) async {
            begun.change { $0 += 1 }
            await wait()
            if Task.isCancelled { return }
            discarded.change { $0 += locations.map(\.file) }
        }

        var id: String { store.id }
        var name: String { store.name }
        func fault() async -> String? { nil }
        func begin(_ request: FileRequest, generation: String, suggested: String) -> any Partial {
            store.begin(request, generation: generation, suggested: suggested)
        }
        func resume(
            _ request: FileRequest, from resume: ResumePoint
        ) async throws(TransferError) -> HaulStorage.Remainder { try await store.resume(request, from: resume) }
        func held(_ file: CompletedFile, for request: FileRequest, fencing: Bool) async -> HeldFile? { nil }
        func digest(
            of file: StoredFile, _ algorithm: Job.Checksum.Algorithm
        ) async throws(TransferError) -> String? { try await store.digest(of: file, algorithm) }
        func discard(_ location: PartialLocation) async {}
        func delete(_ file: String, _ identity: FinishedIdentity) async -> Bool {
            await wait()
            deleted.change { $0.append(file) }
            return !isRefusing.value
        }
        func leftovers(olderThan age: Int64) async -> [Leftover] { [] }
        func remove(_ leftovers: [Leftover]) async -> [Leftover] { [] }
        func runDeferredWork() async {}
    }

    private func serving(_ fleet: Fleet, _ store: SlowStore) throws -> (Task<Void, Never>, QueueServer) {
        let queueServer = QueueServer(
            index: 0, name: .default, identity: WorkerIdentity(name: "w", store: store.id),
            configuration: WorkerConfiguration(redis: fleet.queue.redis.url, root: fleet.root.path, name: "w"),
            grace: Grace(.seconds(10)), store: store, log: Fleet.errors, registry: MetricsRegistry(Metric.workerMetrics)
        )
        return (Task { await queueServer.serve { [] } }, queueServer)
    }

    /// Queues files of removed jobs for the workers of a store.
    private func drop(_ count: Int, _ fleet: Fleet, _ store: SlowStore) async throws -> Set<String> {
        let files = (0..<count).map { "f\($0)" }
        for file in files {
            let entry = #"["\#(file)","\#(file)","\#(TemporaryDirectory.generation)","","1","",""]"#
            try await fleet.queue.redis.send(Command("LPUSH", fleet.queue.keys.prefix + "deletions:" + store.id, entry))
        }
        return Set(files)
    }

    @Test("a store that does not answer holds up no tick, and each file is unlinked once") func slow() async throws {
        let fleet = try await Fleet()
        let store = try SlowStore(root: fleet.root.path)
        let files = try await drop(40, fleet, store)
        let (task, queueServer) = try serving(fleet, store)
        let deleting = fleet.queue.keys.deleting(store.id)
        try await eventually("all files to be assigned") {
            try await fleet.queue.redis.send(Command("HLEN", deleting)).int == files.count
        }
        // Redis assigns them again, because they were not confirmed for so long.
        let assigned = try await fleet.queue.redis.send(Command("HKEYS", deleting)).array?.compactMap(\.string) ?? []
        let old = assigned.flatMap { [$0, "1"] }
        try await fleet.queue.redis.send(Command(arguments: ["HSET", deleting] + old))
        var seen: Set<String> = []
        try await eventually("ticks") {
            let time = try await fleet.queue.redis.send(Command("HGET", fleet.queue.keys.worker("w"), "seen")).string
            seen.insert(time ?? "")
            return seen.count > 3
        }
        #expect(store.discarded.value.isEmpty)
        store.isOpen.change { $0 = true }
        try await eventually("the files to be confirmed") {
            try await fleet.queue.redis.send(Command("EXISTS", deleting)).int == 0
        }
        #expect(store.discarded.value.sorted() == files.sorted())
        task.cancel()
        await task.value
        await queueServer.close()
    }

    @Test("a file that cannot be deleted is tried again until it is gone") func refused() async throws {
        let fleet = try await Fleet()
        let store = try SlowStore(root: fleet.root.path)
        store.isOpen.change { $0 = true }
        store.isRefusing.change { $0 = true }
        let entry = #"["j","film","","7","1","3","5"]"#
        try await fleet.queue.redis.send(Command("LPUSH", fleet.queue.keys.prefix + "deletions:" + store.id, entry))
        let (task, queueServer) = try serving(fleet, store)
        let deleting = fleet.queue.keys.deleting(store.id)
        // Each time as if 10 s had passed.
        func assignAgain(until count: Int) async throws {
            try await eventually("the file to be tried \(count) times") {
                if store.deleted.value.count >= count { return true }
                try await fleet.queue.redis.send(Command("HSET", deleting, entry, "1"))
                return false
            }
        }
        try await assignAgain(until: 3)
        #expect(try await fleet.queue.redis.send(Command("HLEN", deleting)).int == 1)
        store.isRefusing.change { $0 = false }
        try await assignAgain(until: store.deleted.value.count + 1)
        try await eventually("the file to be confirmed") {
            try await fleet.queue.redis.send(Command("EXISTS", deleting)).int == 0
        }
        task.cancel()
        await task.value
        await queueServer.close()
    }

    @Test("a file that its job has fetched again while the deletion waited stays") func fetchedAgain() async throws {
        let fleet = try await Fleet()
        let store = try SlowStore(root: fleet.root.path)
        _ = try await drop(1, fleet, store)
        let (task, queueServer) = try serving(fleet, store)
        try await eventually("the store to be busy with another file") { store.begun.value == 1 }
        for entry in [#"["j","film","","7","1","3","5"]"#, #"["k","other","","8","1","3","5"]"#] {
            try await fleet.queue.redis.send(Command("LPUSH", fleet.queue.keys.prefix + "deletions:" + store.id, entry))
        }
        let deleting = fleet.queue.keys.deleting(store.id)
        try await eventually("all files to be assigned") {
            try await fleet.queue.redis.send(Command("HLEN", deleting)).int == 3
        }
        try await fleet.queue.redis.send(
            Command(
                "HSET", fleet.queue.keys.job("j"), "state", "completed", "inode", "7", "mtime", "5", "store", store.id))
        store.isOpen.change { $0 = true }
        try await eventually("the files to be confirmed") {
            try await fleet.queue.redis.send(Command("EXISTS", deleting)).int == 0
        }
        task.cancel()
        await task.value
        await queueServer.close()
        #expect(store.deleted.value == ["other"])
    }

    @Test("files that were not unlinked at the shutdown are left to another worker") func shutdown() async throws {
        let fleet = try await Fleet()
        let store = try SlowStore(root: fleet.root.path)
        let files = try await drop(20, fleet, store)
        let (task, queueServer) = try serving(fleet, store)
        let deleting = fleet.queue.keys.deleting(store.id)
        try await eventually("all files to be assigned") {
            try await fleet.queue.redis.send(Command("HLEN", deleting)).int == files.count
        }
        task.cancel()
        await task.value
        await queueServer.close()
        #expect(try await fleet.queue.redis.send(Command("HLEN", deleting)).int == files.count)
    }
}
