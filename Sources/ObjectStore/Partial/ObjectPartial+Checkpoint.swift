import HaulContract
import HaulExecutors
import HaulHTTP
import HaulStorage
import Synchronization

// Checkpoints: what another worker needs to continue the object.
extension ObjectPartial {
    /// When an incomplete part is saved as a tail: after `age` if 1/`share` of its size is not saved yet, after
    /// `maxAge` if any byte is not, and it has fewer than `share` tails. Redis keeps a line for each of them, and a server
    /// could send a byte a minute.
    private static let slow = (age: Duration.seconds(30), share: 32, maxAge: Duration.seconds(300))
    /// A checkpoint waits this long for uploads in progress, because it names only parts that the store has
    /// acknowledged, and without new bytes there may be no later checkpoint.
    private static let maxTime = Duration.seconds(8)

    func checkpoint(isLast: Bool) async throws(TransferError) -> Checkpoint? {
        guard state.withLock({ $0.phase == .open }) else { return nil }
        if !isLast, let first = await firstCheckpoint() { return first }
        let isBeingNamed = isLast ? await recordNaming() : false
        if isLast {
            // At the same time, because a process that ends has little time for both.
            async let tails: Void = saveTails(isLast: true)
            await waitForWork(upTo: .max, within: Self.maxTime)
            await tails
        } else {
            await waitForWork(upTo: state.withLock { $0.work.last }, within: Self.maxTime)
            await saveTails(isLast: false)
        }
        return state.withLock { state in
            state.hasMoreToReport = false
            let text = state.storeState.text
            let offsets = state.storeState.offsets
            // Whoever removes the job has to know the generation of an object that may still appear.
            let isToReport = state.reportedState != nil || !offsets.isEmpty || isBeingNamed
            guard text != state.reportedState, isToReport else { return nil }
            state.reportedState = text
            return Checkpoint(offsets: offsets, blockChecks: [:], storeState: text)
        }
    }

    /// Saves incomplete parts as tails: the slow ones, or all of them. If a tail cannot be saved, its bytes may have to be
    /// fetched again.
    private func saveTails(isLast: Bool) async {
        let due = state.withLock { state -> [PartBuffer] in
            // Without a known length the download cannot be continued, so its tails would be useless.
            guard state.storeState.total != nil, state.error == nil else { return [] }
            let tails = state.storeState.tails.reduce(into: [:]) { $0[$1.part, default: 0] += 1 }
            let due = state.buffers.values.filter { buffer in
                !buffer.isClosed && (isLast || Self.isSlow(buffer, tails: tails[buffer.number] ?? 0))
            }
            if isLast { for buffer in due { buffer.isClosed = true } }
            return due
        }
        try? await save(due, releasing: isLast)
    }

    /// The first checkpoint names the upload and no part. The upload's id is enough for another run to find all parts
    /// that the store has.
    private func firstCheckpoint() async -> Checkpoint? {
        guard state.withLock({ $0.reportedState == nil }) else { return nil }
        await wait(within: Self.maxTime) { $0.storeState.upload == nil && $0.work.isAny }
        return state.withLock { state in
            guard let upload = state.storeState.upload else { return nil }
            var storeState = PartsRecord(total: state.storeState.total)
            (storeState.upload, storeState.isHidden) = (upload, state.storeState.isHidden)
            (state.reportedState, state.hasMoreToReport) = (storeState.text, true)
            return Checkpoint(offsets: storeState.offsets, blockChecks: [:], storeState: storeState.text)
        }
    }

    var hasMoreToReport: Bool { state.withLock { $0.hasMoreToReport } }

    /// - Parameter tails: How many tails the part has.
    static func isSlow(_ buffer: PartBuffer, tails: Int) -> Bool {
        let age = ContinuousClock.now - buffer.lastSaved
        guard age >= slow.age else { return false }
        let fresh = buffer.fresh.count
        return fresh > 0
            && (fresh >= Int64(buffer.range.count / slow.share) || age >= slow.maxAge && tails < slow.share)
    }

    /// Returns when all work up to number `last` has ended, or after `limit`.
    private func waitForWork(upTo last: Int, within limit: Duration) async {
        await wait(within: limit) { $0.work.isAny(upTo: last) }
    }

    /// Returns when `isToWait` is false, after `limit`, or if the task is cancelled.
    private func wait(within limit: Duration, while isToWait: @Sendable (borrowing State) -> Bool) async {
        let deadline = ContinuousClock.now + limit
        while state.withLock({ isToWait($0) }), ContinuousClock.now < deadline {
            do { try await Task.sleep(for: .milliseconds(10)) } catch { return }
        }
    }
}
