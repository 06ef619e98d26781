import HaulBus
import HaulContract
import HaulStorage
import Logging
import Synchronization

/// Unlinks the files that ticks assign to this worker: those of jobs that were cancelled or removed while no worker ran
/// them.
///
/// In a bucket each file takes some requests, which may take minutes if the bucket does not answer. So no tick waits for
/// them, since it would extend no lease meanwhile.
final class Unlinker: Sendable {
    private struct State {
        var waiting: [DroppedFile] = []
        /// The entries of all files that wait or are being unlinked. Redis assigns a file again after 10 s, unless its
        /// entry was removed by then (Lua/core/deletions.lua).
        var entries: Set<String> = []
        /// The entries of files that could not be deleted, as far as that was logged.
        var refused: Set<String> = []
    }

    /// A directory unlinks several files together.
    private static let maxBatch = 16
    /// Redis assigns the rest again.
    private static let maxWaiting = 10_000

    private let queue: Queue
    private let store: any DurableStore
    private let log: Logger
    private let state = Mutex(State())
    private let (wakeUps, wakeUp) = AsyncStream<Void>.makeStream(bufferingPolicy: .bufferingNewest(1))

    init(_ queue: Queue, _ store: any DurableStore, log: Logger) {
        (self.queue, self.store, self.log) = (queue, store, log)
    }

    /// Unlinks these files soon, if they are on this store.
    func add(_ files: [DroppedFile]) {
        if files.isEmpty { return }
        state.withLock { state in
            for file in files where state.waiting.count < Self.maxWaiting {
                if state.entries.insert(file.entry).inserted { state.waiting.append(file) }
            }
        }
        wakeUp.yield()
    }

    /// Unlinks files until the task is cancelled. Another worker gets what is left.
    func run() async {
        for await _ in wakeUps {
            var (unlinked, confirmed): ([DroppedFile], ContinuousClock.Instant) = ([], .now)
            while let batch = next() {
                let done = await unlink(batch)
                // The requests were cancelled, so the files may still be there.
                if Task.isCancelled { return }
                unlinked += done
                // Redis assigns the others again.
                forget(batch.filter { file in !done.contains { $0.entry == file.entry } })
                // One command for many files, but well before Redis assigns them again.
                guard !hasWaiting || ContinuousClock.now - confirmed > .seconds(1) else { continue }
                await queue.reportUnlinked(unlinked)
                forget(unlinked)
                (unlinked, confirmed) = ([], .now)
            }
        }
    }

    private var hasWaiting: Bool { state.withLock { !$0.waiting.isEmpty } }

    private func forget(_ files: [DroppedFile]) { state.withLock { $0.entries.subtract(files.map(\.entry)) } }

    private func next() -> [DroppedFile]? {
        state.withLock { state in
            let batch = Array(state.waiting.prefix(Self.maxBatch))
            state.waiting.removeFirst(batch.count)
            return batch.isEmpty ? nil : batch
        }
    }

    /// Unlinks files, and returns those that are gone.
    private func unlink(_ files: [DroppedFile]) async -> [DroppedFile] {
        let near = files.filter { $0.store == store.id }
        let undeleted = await delete(near.filter { $0.finished != nil })
        let locations = near.filter { !$0.generation.isEmpty }.map { file in
            PartialLocation(file: file.file, key: PartialKey.of(file.id, in: queue.name), generation: file.generation)
        }
        for location in locations { await store.withdrawUnanswered(location) }
        if !locations.isEmpty { await store.discardUnplaced(locations) }
        return files.filter { !undeleted.contains($0.entry) }
    }

    /// Deletes finished files. Returns the entries of those that may still be there.
    private func delete(_ files: [DroppedFile]) async -> Set<String> {
        if files.isEmpty { return [] }
        var left: Set<String> = []
        for file in files {
            guard let identity = file.finished else { continue }
            // It has waited here, and behind other files, so its job may have been pushed again since Redis assigned it.
            guard let jobs = try? await queue.jobs([file.id]) else {
                left.insert(file.entry)
                continue
            }
            switch jobs.first.map(file.owner) {
            case .newer?: continue
            case .undecided?: left.insert(file.entry)
            case nil, .removed?:
                guard await !store.delete(file.file, identity), !Task.isCancelled else { continue }
                left.insert(file.entry)
                reportRefusal(of: file)
            }
        }
        let done = files.map(\.entry).filter { !left.contains($0) }
        state.withLock { $0.refused.subtract(done) }
        return left
    }

    /// Logs once that a file cannot be deleted now.
    private func reportRefusal(of file: DroppedFile) {
        let isNew = state.withLock { state in
            guard state.refused.count < Self.maxWaiting else { return false }
            return state.refused.insert(file.entry).inserted
        }
        guard isNew else { return }
        log.warning(
            "a removed job's file cannot be deleted; a worker tries again until it is gone",
            metadata: ["job": "\(file.id)", "file": "\(file.file)"])
    }
}
