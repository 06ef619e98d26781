import HaulContract
import HaulExecutors
import HaulHTTP
import HaulStorage
import Synchronization

// What another worker could go on from.
extension ObjectPartial {
    /// A part that is not whole after so long is saved, if it has so much more than it had.
    private static let slow = (age: Duration.seconds(30), share: 32, longest: Duration.seconds(300))
    /// So long a checkpoint waits for what is under way: parts are told of once the store has them, also when no more bytes come.
    private static let patience = Duration.seconds(8)

    func checkpoint(isLast: Bool) async throws(TransferError) -> Checkpoint? {
        guard state.withLock({ $0.phase == .open }) else { return nil }
        if !isLast, let first = await firstCheckpoint() { return first }
        await workIsDone(upTo: state.withLock { isLast ? .max : $0.work.last }, within: Self.patience)
        let due = state.withLock { state -> [PartBuffer] in
            // Of a file whose length nobody knows nothing is continued.
            guard state.journal.total != nil, state.error == nil else { return [] }
            return state.buffers.values.filter { !$0.isClosed && (isLast || Self.isSlow($0)) }
        }
        // What cannot be saved is fetched again.
        try? await save(due, releasing: isLast)
        return state.withLock { state in
            state.hasMoreToTell = false
            let text = state.journal.text
            let offsets = state.journal.offsets
            guard text != state.told, state.told != nil || !offsets.isEmpty else { return nil }
            state.told = text
            return Checkpoint(offsets: offsets, blockChecks: [:], journal: text)
        }
    }

    /// The first thing that is told is the upload, before any part: with it another run finds all parts that the store has by then.
    private func firstCheckpoint() async -> Checkpoint? {
        guard state.withLock({ $0.told == nil }) else { return nil }
        await wait(within: Self.patience) { $0.journal.upload == nil && $0.work.isAny }
        return state.withLock { state in
            guard let upload = state.journal.upload else { return nil }
            var journal = PartsJournal(total: state.journal.total)
            (journal.upload, journal.isHidden) = (upload, state.journal.isHidden)
            (state.told, state.hasMoreToTell) = (journal.text, true)
            return Checkpoint(offsets: journal.offsets, blockChecks: [:], journal: journal.text)
        }
    }

    var hasMoreToTell: Bool { state.withLock { $0.hasMoreToTell } }

    private static func isSlow(_ buffer: PartBuffer) -> Bool {
        let age = ContinuousClock.now - buffer.since
        guard age >= slow.age else { return false }
        let fresh = buffer.fresh.count
        return fresh > 0 && (fresh >= Int64(buffer.range.count / slow.share) || age >= slow.longest)
    }

    /// Returns when what was begun until `last` is done, or it is too late.
    private func workIsDone(upTo last: Int, within limit: Duration) async {
        await wait(within: limit) { $0.work.isAny(upTo: last) }
    }

    /// Returns when `isToWait` is false, or it is too late.
    private func wait(within limit: Duration, while isToWait: @Sendable (borrowing State) -> Bool) async {
        let deadline = ContinuousClock.now + limit
        while state.withLock({ isToWait($0) }), ContinuousClock.now < deadline {
            // A task of its own: this one may be cancelled, and no sleep would last.
            await Task.detached { try? await Task.sleep(for: .milliseconds(10)) }.value
        }
    }
}
