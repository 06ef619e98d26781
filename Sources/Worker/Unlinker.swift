import HaulBus
import HaulContract
import HaulStorage
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
    }

    /// A directory unlinks several files together.
    private static let maxBatch = 16
    /// Redis assigns the rest again.
    private static let maxWaiting = 10_000

    private let queue: Queue
    private let store: any DurableStore
    private let state = Mutex(State())
    private let (wakeUps, wakeUp) = AsyncStream<Void>.makeStream(bufferingPolicy: .bufferingNewest(1))

    init(_ queue: Queue, _ store: any DurableStore) { (self.queue, self.store) = (queue, store) }

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
                await unlink(batch)
                // The requests were cancelled, so the files may still be there.
                if Task.isCancelled { return }
                unlinked += batch
                // One command for many files, but well before Redis assigns them again.
                guard !hasWaiting || ContinuousClock.now - confirmed > .seconds(1) else { continue }
                await queue.reportUnlinked(unlinked)
                state.withLock { $0.entries.subtract(unlinked.map(\.entry)) }
                (unlinked, confirmed) = ([], .now)
            }
        }
    }

    private var hasWaiting: Bool { state.withLock { !$0.waiting.isEmpty } }

    private func next() -> [DroppedFile]? {
        state.withLock { state in
            let batch = Array(state.waiting.prefix(Self.maxBatch))
            state.waiting.removeFirst(batch.count)
            return batch.isEmpty ? nil : batch
        }
    }

    private func unlink(_ files: [DroppedFile]) async {
        let near = files.filter { $0.store == store.id }
        for file in near { if let identity = file.finished { await store.delete(file.file, identity) } }
        let locations = near.filter { !$0.generation.isEmpty }.map { file in
            PartialLocation(file: file.file, key: PartialKey.of(file.id, in: queue.name), generation: file.generation)
        }
        for location in locations { await store.withdrawUnanswered(location) }
        if !locations.isEmpty { await store.discardUnplaced(locations) }
    }
}
