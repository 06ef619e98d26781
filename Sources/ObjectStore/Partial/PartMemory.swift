import HaulExecutors
import Synchronization

/// The bounded memory of all parts that are being filled or uploaded. A file that finds no memory waits.
///
/// A part's memory is reserved as a whole with its first byte, so every part that was begun can be filled. While others
/// wait, slowly filled parts are spilled to tails. Memory that is returned goes first to files that hold parts, and
/// then to the others. Otherwise all files would begin and none could finish.
final class PartMemory: Sendable {
    /// The memory of one part.
    struct Reservation: Sendable, Equatable {
        fileprivate let id: UInt64
    }

    private struct Holder {
        let owner: UInt64
        let bytes: Int
        let reserved: ContinuousClock.Instant
        /// Saves the part's bytes elsewhere, and then returns the memory.
        let spill: @Sendable () -> Void
        /// The part's bytes are being uploaded or spilled, so its memory is returned without a further spill.
        var isUploading = false
    }

    private struct Waiter {
        /// The file that waits for any memory; nil if it waits until its own is returned, because its maximum is used up
        /// or a part is being uploaded.
        let owner: UInt64?
        /// nil if the file tries again by itself.
        let wake: (@Sendable () async -> Bool)?
    }

    private struct State {
        var used = 0
        var holders: [UInt64: Holder] = [:]
        var owned: [UInt64: Int] = [:]
        var waiting: [Waiter] = []
        var lastID: UInt64 = 0
        var isWatched = false

        /// Whether the waiting file holds a part already.
        func hasBegun(_ waiter: Waiter) -> Bool { waiter.owner.map { owned[$0] != nil } ?? false }
    }

    /// The bounds for all partial files, and for one of them, in bytes.
    let limit: Int
    let limitForFile: Int
    /// Where the reserved memory comes from.
    let pages: PagePool
    private let state = Mutex(State())
    /// The interval between spills while a file waits, and the age from which a part may be spilled.
    private static let maxTime = Duration.seconds(2)

    init(limit: Int, limitForFile: Int) {
        (self.limit, self.limitForFile) = (limit, limitForFile)
        pages = PagePool(limit: limit)
    }

    var used: Int { state.withLock { $0.used } }
    var waiters: Int { state.withLock { $0.waiting.count } }

    /// A new number, for a partial file that reserves memory.
    func newOwner() -> UInt64 {
        state.withLock { state in
            state.lastID += 1
            return state.lastID
        }
    }

    /// Reserves memory for a part; nil if there is not enough. Then `wake` is called when another try makes sense.
    /// Without `wake` the caller tries again by itself. While no file holds memory, any part gets it, even one larger
    /// than the bound.
    func reserve(
        _ bytes: Int, for owner: UInt64, spill: @escaping @Sendable () -> Void,
        orCall wake: (@Sendable () async -> Bool)?
    ) -> Reservation? {
        let (reservation, mustWatch) = state.withLock { state -> (Reservation?, Bool) in
            let mine = state.owned[owner] ?? 0
            let isWithinOwnLimit = mine == 0 || mine + bytes <= limitForFile
            let isFree = state.used == 0 || state.used + bytes <= limit
            let isTurn = mine > 0 || state.used == 0 || !state.waiting.contains(where: state.hasBegun)
            guard isWithinOwnLimit, isFree, isTurn else {
                let waiter = Waiter(owner: isWithinOwnLimit ? owner : nil, wake: wake)
                // A caller that retries by itself counts once.
                let isKnown = wake == nil && state.waiting.contains { $0.wake == nil && $0.owner == waiter.owner }
                if !isKnown { state.waiting.append(waiter) }
                defer { state.isWatched = true }
                return (nil, !state.isWatched)
            }
            state.lastID += 1
            state.used += bytes
            state.owned[owner] = mine + bytes
            state.holders[state.lastID] = Holder(owner: owner, bytes: bytes, reserved: .now, spill: spill)
            return (Reservation(id: state.lastID), false)
        }
        if mustWatch { Task { await watch() } }
        return reservation
    }

    /// Calls `wake` when any memory has been returned.
    func wait(_ wake: @escaping @Sendable () async -> Bool) {
        state.withLock { $0.waiting.append(Waiter(owner: nil, wake: wake)) }
    }

    /// Records that the part is complete and will be uploaded, so that it is not spilled.
    func markUploading(_ reservation: Reservation) {
        state.withLock { $0.holders[reservation.id]?.isUploading = true }
    }

    func release(_ reservation: Reservation) {
        let waiting = state.withLock { state -> [Waiter] in
            guard let holder = state.holders.removeValue(forKey: reservation.id) else { return [] }
            state.used -= holder.bytes
            let mine = (state.owned[holder.owner] ?? 0) - holder.bytes
            state.owned[holder.owner] = mine > 0 ? mine : nil
            defer { state.waiting = [] }
            return state.waiting.filter(state.hasBegun) + state.waiting.filter { !state.hasBegun($0) }
        }
        guard !waiting.isEmpty else { return }
        // A waiter that finds no memory waits again. Waiters are few: mostly one for each connection.
        Task { for waiter in waiting { _ = await waiter.wake?() } }
    }

    /// Runs while a file waits, and spills the part that has been held longest, one in each interval.
    private func watch() async {
        while true {
            try? await Task.sleep(for: Self.maxTime)
            let (hasEnded, spills) = state.withLock { state -> (Bool, [@Sendable () -> Void]) in
                guard !state.waiting.isEmpty else {
                    state.isWatched = false
                    return (true, [])
                }
                let due = state.holders.filter {
                    !$0.value.isUploading && ContinuousClock.now - $0.value.reserved >= Self.maxTime
                }
                // Prefer files that hold more than half of their maximum, because only their own parts can free memory
                // for them.
                let full = Set(state.owned.filter { $0.value * 2 > limitForFile }.keys)
                let ofFullFiles = due.filter { full.contains($0.value.owner) }
                let oldest = (ofFullFiles.isEmpty ? due : ofFullFiles).min { $0.value.reserved < $1.value.reserved }
                guard let oldest else { return (false, []) }
                state.holders[oldest.key]?.isUploading = true
                return (false, [oldest.value.spill])
            }
            for spill in spills { spill() }
            if hasEnded { return }
        }
    }
}
