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
        await workIsDone(upTo: state.withLock { isLast ? .max : $0.work.last }, within: Self.patience)
        let due = state.withLock { state -> [PartBuffer] in
            // Of a file whose length nobody knows nothing is continued.
            guard state.journal.total != nil, state.error == nil else { return [] }
            return state.buffers.values.filter { !$0.isClosed && (isLast || Self.isSlow($0)) }
        }
        // What cannot be saved is fetched again.
        try? await save(due, releasing: isLast)
        return state.withLock { state in
            let text = state.journal.text
            let offsets = state.journal.offsets
            guard text != state.told, state.told != nil || !offsets.isEmpty else { return nil }
            state.told = text
            return Checkpoint(offsets: offsets, blockChecks: [:], journal: text)
        }
    }

    private static func isSlow(_ buffer: PartBuffer) -> Bool {
        let age = ContinuousClock.now - buffer.since
        guard age >= slow.age else { return false }
        let fresh = buffer.fresh.count
        return fresh > 0 && (fresh >= Int64(buffer.range.count / slow.share) || age >= slow.longest)
    }

    /// Returns when what was begun until `last` is done, or it is too late.
    private func workIsDone(upTo last: Int, within limit: Duration) async {
        let deadline = ContinuousClock.now + limit
        while state.withLock({ $0.work.isAny(upTo: last) }), ContinuousClock.now < deadline {
            // A task of its own: this one may be cancelled, and no sleep would last.
            await Task.detached { try? await Task.sleep(for: .milliseconds(10)) }.value
        }
    }
}
