import Executors
import Synchronization
import Transfer

/// Puts small files on the disk together (group commit).
///
/// A directory takes one name at a time, however many threads have one, and a sync takes about as long for fifty files as for
/// one. So one thread has all of them: in a round it names the files whose bytes the sync before has made durable, writes
/// those that have come meanwhile, and syncs names and bytes at once.
package final class GroupCommit: Sendable {
    private struct Entry: Sendable {
        let commit: FileCommit
        let answer: CheckedContinuation<Result<FileCommit.End, TransferError>, Never>

        /// What `body` makes of the file; nil if that ended it, which has been told.
        func attempt<T>(_ body: () throws(TransferError) -> T) -> T? {
            do { return try body() } catch {
                answer.resume(returning: .failure(error))
                return nil
            }
        }

        /// Whether there is no failure; one has been told.
        func isSound(_ failure: TransferError?) -> Bool {
            if let failure { answer.resume(returning: .failure(failure)) }
            return failure == nil
        }

        func end(_ end: FileCommit.End) { answer.resume(returning: .success(end)) }
    }

    private struct State: Sendable {
        var arrived: [Entry] = []
        var chores: [BlockingPool.Work] = []
        var isRunning = false
        /// Files that are on their way.
        var count = 0
    }

    /// So many that are to be durable are quicker side by side, each at its own pace.
    private static let few = 16

    private let store: Store
    private let blocking: BlockingPool
    /// Makes all durable that the file system of a descriptor has; false if it did not.
    private let syncAll: @Sendable (Int32) -> Bool
    /// Whether the file system is one for that.
    private let groups: Bool
    private let state = Mutex(State())

    init(
        _ store: Store, _ blocking: BlockingPool, groups: Bool? = nil,
        syncAll: @escaping @Sendable (Int32) -> Bool = Volume.sync
    ) {
        (self.store, self.blocking, self.syncAll) = (store, blocking, syncAll)
        self.groups = groups ?? store.isLocal
    }

    func run(_ commit: FileCommit) async throws(TransferError) -> FileCommit.End {
        let isAlone = state.withLock { state in
            state.count += 1
            return !groups || commit.durability == .disk && !state.isRunning && state.count <= Self.few
        }
        defer { state.withLock { $0.count -= 1 } }
        if isAlone { return try await blocking.run { () throws(TransferError) in try commit.run() } }
        return try await withCheckedContinuation { continuation in
            start { $0.arrived.append(Entry(commit: commit, answer: continuation)) }
        }.get()
    }

    /// Runs `chore` with the next files, or when `runChores` is called: it is not worth a wake-up.
    func later(_ chore: @escaping BlockingPool.Work) {
        guard groups else { return blocking.submit(chore) }
        state.withLock { $0.chores.append(chore) }
    }

    /// Runs what has met no files until now.
    package func runChores() async {
        guard state.withLock({ !$0.chores.isEmpty }) else { return }
        await blocking.run { for chore in self.state.withLock({ exchange(&$0.chores, with: []) }) { chore() } }
    }

    /// Files that are on their way.
    var count: Int { state.withLock { $0.count } }

    // MARK: The thread

    private func start(_ change: (inout State) -> Void) {
        let isFirst = state.withLock { state in
            change(&state)
            defer { state.isRunning = true }
            return !state.isRunning
        }
        if isFirst { blocking.submit { self.runRounds() } }
    }

    private func runRounds() {
        var written: [(entry: Entry, file: FileCommit.Written)] = []
        while let arrived = next(isLast: written.isEmpty) {
            var named: [(entry: Entry, file: FileCommit.Named)] = []
            for (entry, file) in written {
                guard entry.commit.mayName() else {
                    entry.end(.unsure(file))
                    continue
                }
                entry.attempt { () throws(TransferError) in try entry.commit.name(file) }.map {
                    named.append((entry, $0))
                }
            }
            written = []
            for entry in arrived {
                if entry.commit.durability == .disk {
                    entry.attempt(entry.commit.write).map { written.append((entry, $0)) }
                } else {
                    entry.attempt(entry.commit.run).map(entry.end)
                }
            }
            sync(&written, &named)
            for (entry, file) in named { entry.end(.ended(file.end())) }
        }
    }

    /// What has arrived since it was asked last; nil if that is nothing, and `isLast`.
    private func next(isLast: Bool) -> [Entry]? {
        let (arrived, chores) = state.withLock { state in
            state.isRunning = !isLast || !state.arrived.isEmpty
            return (
                state.isRunning ? exchange(&state.arrived, with: []) : nil,
                state.isRunning ? exchange(&state.chores, with: []) : []
            )
        }
        for chore in chores { chore() }
        return arrived
    }

    /// Makes the bytes of the one and the names of the other durable. Those that fail are told, and taken out.
    private func sync(
        _ written: inout [(entry: Entry, file: FileCommit.Written)],
        _ named: inout [(entry: Entry, file: FileCommit.Named)]
    ) {
        if written.count + named.count > 1, syncVolume(written.map(\.file), named.map(\.file)) {
            for (_, file) in written { file.output.noteSynced() }
            return
        }
        // Each directory once.
        let directories = Dictionary(
            named.compactMap { $0.file.directory.map { ($0.fileIdentity, $0) } },
            uniquingKeysWith: { first, _ in first })
        let files = written.map(\.file)
        var failures = blocking.runAll(
            files.map { file in { @Sendable in Self.failure { () throws(TransferError) in try file.sync() } } }
                + directories.values.map { directory in
                    { @Sendable in Self.failure { () throws(TransferError) in try directory.sync() } }
                })
        let failed = Dictionary(uniqueKeysWithValues: zip(directories.keys, failures.suffix(directories.count)))
        failures.removeLast(directories.count)
        named = named.filter { $0.entry.isSound(failed[$0.file.directory?.fileIdentity] ?? nil) }
        written = zip(written, failures).filter { $0.entry.isSound($1) }.map(\.0)
    }

    private static func failure(_ body: () throws(TransferError) -> Void) -> TransferError? {
        do { try body() } catch { return error }
        return nil
    }

    /// False if something is not of the root's file system, or that cannot be synced as a whole.
    private func syncVolume(_ written: [FileCommit.Written], _ named: [FileCommit.Named]) -> Bool {
        let root = store.directory
        let identities =
            written.map { FileIdentity(of: $0.output.descriptor) } + named.compactMap(\.directory?.fileIdentity)
        let device = root.fileIdentity?.device
        return identities.allSatisfy { $0?.device == device } && syncAll(root.descriptor)
    }
}
