import HaulExecutors
import HaulHTTP
import Synchronization

/// Makes small files durable together (group commit).
///
/// A directory accepts one new name at a time, however many threads try, and a sync of fifty files takes about as long
/// as a sync of one. So one thread writes all files, and another makes them durable in rounds. Each round syncs the
/// bytes of the files written since the last round, together with the names that the last round gave. Then it gives
/// these files their names.
final class GroupCommit: Sendable {
    private struct Entry: Sendable {
        let commit: FileCommit
        let continuation: CheckedContinuation<Result<FileCommit.End, TransferError>, Never>

        /// Runs a step of the file; nil if the step failed. Then the caller has its result.
        func attempt<T>(_ body: () throws(TransferError) -> T) -> T? {
            do { return try body() } catch {
                continuation.resume(returning: .failure(error))
                return nil
            }
        }

        /// Reports a failure to the caller; false if there is one.
        func succeeded(_ failure: TransferError?) -> Bool {
            if let failure { continuation.resume(returning: .failure(failure)) }
            return failure == nil
        }

        func end(_ end: FileCommit.End) { continuation.resume(returning: .success(end)) }
    }

    private typealias Written = (entry: Entry, file: FileCommit.Written)
    private typealias Named = (entry: Entry, file: FileCommit.Named)

    /// A stage of the pipeline. One thread at a time works on a batch; new entries collect for the next batch.
    private struct Stage<T: Sendable>: Sendable {
        private var waiting: [T] = []
        private(set) var isRunning = false

        /// Adds an entry. Returns whether the caller must start a thread for the stage.
        mutating func add(_ one: T) -> Bool {
            waiting.append(one)
            defer { isRunning = true }
            return !isRunning
        }

        /// The next batch. nil if it is empty and the thread has no other work (`orEnds`): then the thread ends.
        mutating func take(orEnds: Bool = true) -> [T]? {
            isRunning = !waiting.isEmpty || !orEnds
            return isRunning ? exchange(&waiting, with: []) : nil
        }
    }

    private struct State: Sendable {
        var arrived = Stage<Entry>()
        var written = Stage<Written>()
        var deferredWork: [BlockingPool.Work] = []
        /// Files in progress.
        var count = 0
        /// Until this time files are committed together, even if there are few for a while: monotonic nanoseconds.
        var busyUntil: UInt64 = 0

        /// Counts one more file. Returns whether the file is committed alone.
        mutating func isNextAlone(_ now: UInt64) -> Bool {
            count += 1
            if count > (now < busyUntil ? GroupCommit.maxParallel / 2 : GroupCommit.maxParallel) {
                busyUntil = now + GroupCommit.busyTime
            }
            return now >= busyUntil && !arrived.isRunning && !written.isRunning
        }
    }

    /// Up to this many durable files are faster in parallel than in rounds.
    private static let maxParallel = 16
    /// How long after a burst files are still committed together: nanoseconds.
    private static let busyTime: UInt64 = 20_000_000

    private let root: OpenRoot
    private let blocking: BlockingPool
    /// Makes everything in the file system of a descriptor durable; false if it did not.
    private let syncAll: @Sendable (Int32) -> Bool
    /// Whether group commit makes sense on the file system.
    let groups: Bool
    private let state = Mutex(State())

    init(
        _ root: OpenRoot, _ blocking: BlockingPool, groups: Bool,
        syncAll: @escaping @Sendable (Int32) -> Bool = Volume.sync
    ) {
        (self.root, self.blocking, self.groups, self.syncAll) = (root, blocking, groups, syncAll)
    }

    func run(_ commit: FileCommit) async throws(TransferError) -> FileCommit.End {
        let isAlone = state.withLock { $0.isNextAlone(monotonicNanoseconds()) && commit.durability == .disk } || !groups
        defer { state.withLock { $0.count -= 1 } }
        if isAlone { return try await blocking.run { () throws(TransferError) in try commit.run() } }
        return try await withCheckedContinuation { continuation in
            let entry = Entry(commit: commit, continuation: continuation)
            if state.withLock({ $0.arrived.add(entry) }) { blocking.submit { self.write() } }
        }.get()
    }

    /// Runs `work` with the next files, or at the next call of `runDeferredWork`, because it is not worth waking a
    /// thread.
    func deferWork(_ work: @escaping BlockingPool.Work) {
        guard groups else { return blocking.submit(work) }
        state.withLock { $0.deferredWork.append(work) }
    }

    /// Runs the deferred work that was not run together with files.
    func runDeferredWork() async {
        guard state.withLock({ !$0.deferredWork.isEmpty }) else { return }
        await blocking.run { self.takeDeferredWork() }
    }

    /// Files in progress.
    var count: Int { state.withLock { $0.count } }

    // MARK: The two threads

    private func write() {
        while let arrived = state.withLock({ $0.arrived.take() }) {
            takeDeferredWork()
            for entry in arrived {
                guard entry.commit.durability == .disk else {
                    entry.attempt(entry.commit.run).map(entry.end)
                    continue
                }
                guard let file = entry.attempt(entry.commit.write) else { continue }
                if state.withLock({ $0.written.add((entry, file)) }) { blocking.submit { self.makeDurable() } }
            }
        }
    }

    private func makeDurable() {
        var named: [Named] = []
        while var written = state.withLock({ $0.written.take(orEnds: named.isEmpty) }) {
            sync(&written, &named)
            for (entry, file) in named { entry.end(.ended(file.end())) }
            named = written.compactMap(name)
        }
    }

    private func name(_ entry: Entry, _ file: FileCommit.Written) -> Named? {
        guard entry.commit.mayName() else {
            entry.end(.unsure(file))
            return nil
        }
        return entry.attempt { () throws(TransferError) in try entry.commit.name(file) }.map { (entry, $0) }
    }

    private func takeDeferredWork() { for work in state.withLock({ exchange(&$0.deferredWork, with: []) }) { work() } }

    /// Makes the bytes of `written` and the names of `named` durable. Files that fail are reported to their callers and
    /// taken out.
    private func sync(_ written: inout [Written], _ named: inout [Named]) {
        if written.count + named.count > 1, syncVolume(written.map(\.file), named.map(\.file)) {
            written = written.filter { one in
                one.entry.succeeded(Self.failure { () throws(TransferError) in try one.file.output.confirmSync() })
            }
            return
        }
        // Syncs each directory once.
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
        named = named.filter { $0.entry.succeeded(failed[$0.file.directory?.fileIdentity] ?? nil) }
        written = zip(written, failures).filter { $0.entry.succeeded($1) }.map(\.0)
    }

    private static func failure(_ body: () throws(TransferError) -> Void) -> TransferError? {
        do { try body() } catch { return error }
        return nil
    }

    /// False if a file is on another file system than the root, or if that file system cannot be synced as a whole.
    private func syncVolume(_ written: [FileCommit.Written], _ named: [FileCommit.Named]) -> Bool {
        let root = root.directory
        let identities =
            written.map { FileIdentity(of: $0.output.descriptor) } + named.compactMap(\.directory?.fileIdentity)
        let device = root.fileIdentity?.device
        return identities.allSatisfy { $0?.device == device } && syncAll(root.descriptor)
    }
}
