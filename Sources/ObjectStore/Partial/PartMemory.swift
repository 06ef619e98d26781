import HaulExecutors
import Synchronization

/// The memory of all parts that are on their way, and its bound: who finds none waits.
///
/// A part's memory is reserved as a whole when its first byte comes, so that whatever was begun can be filled. What is filled slowly
/// while others wait is asked to go elsewhere. What comes back goes to those who have begun, and then to those who have nothing: the
/// other way round all would begin, and none could end.
final class PartMemory: Sendable {
    /// One part's memory.
    struct Reservation: Sendable, Equatable {
        fileprivate let id: UInt64
    }

    private struct Holder {
        let owner: UInt64
        let bytes: Int
        let since: ContinuousClock.Instant
        /// Puts the part's bytes elsewhere, and gives the memory back.
        let spill: @Sendable () -> Void
        /// It comes back by itself: its bytes are on their way to the store.
        var isLeaving = false
    }

    private struct Waiter {
        /// Who waits for any memory; nil for a part of its own that is on its way out.
        let owner: UInt64?
        let wake: @Sendable () async -> Bool
    }

    private struct State {
        var used = 0
        var holders: [UInt64: Holder] = [:]
        var owned: [UInt64: Int] = [:]
        var waiting: [Waiter] = []
        var lastID: UInt64 = 0
        var isWatched = false

        /// Has begun a part, and waits for another one.
        func hasBegun(_ waiter: Waiter) -> Bool { waiter.owner.map { owned[$0] != nil } ?? false }
    }

    /// Of all, and of one partial file: bytes.
    let limit: Int
    let share: Int
    private let state = Mutex(State())
    /// Others have waited for so long when a part is asked to go.
    private static let patience = Duration.seconds(2)

    init(limit: Int, share: Int) { (self.limit, self.share) = (limit, share) }

    var used: Int { state.withLock { $0.used } }

    /// A number for one that reserves.
    func newOwner() -> UInt64 {
        state.withLock { state in
            state.lastID += 1
            return state.lastID
        }
    }

    /// nil if there is no room; `wake` is called when it is worth trying again. Somebody who has nothing always gets a first part
    /// where nobody has any.
    func reserve(
        _ bytes: Int, for owner: UInt64, spill: @escaping @Sendable () -> Void,
        orCall wake: @escaping @Sendable () async -> Bool
    ) -> Reservation? {
        let (reservation, mustWatch) = state.withLock { state -> (Reservation?, Bool) in
            let mine = state.owned[owner] ?? 0
            let isWithinShare = mine == 0 || mine + bytes <= share
            let isFree = state.used == 0 || state.used + bytes <= limit
            let isTurn = mine > 0 || state.used == 0 || !state.waiting.contains(where: state.hasBegun)
            guard isWithinShare, isFree, isTurn else {
                state.waiting.append(Waiter(owner: isWithinShare ? owner : nil, wake: wake))
                defer { state.isWatched = true }
                return (nil, !state.isWatched)
            }
            state.lastID += 1
            state.used += bytes
            state.owned[owner] = mine + bytes
            state.holders[state.lastID] = Holder(owner: owner, bytes: bytes, since: .now, spill: spill)
            return (Reservation(id: state.lastID), false)
        }
        if mustWatch { Task { await watch() } }
        return reservation
    }

    /// `wake` is called when any memory has come back.
    func wait(_ wake: @escaping @Sendable () async -> Bool) {
        state.withLock { $0.waiting.append(Waiter(owner: nil, wake: wake)) }
    }

    /// The part is whole, or is being put elsewhere.
    func leaves(_ reservation: Reservation) {
        state.withLock { $0.holders[reservation.id]?.isLeaving = true }
    }

    func give(_ reservation: Reservation) {
        let waiting = state.withLock { state -> [Waiter] in
            guard let holder = state.holders.removeValue(forKey: reservation.id) else { return [] }
            state.used -= holder.bytes
            let mine = (state.owned[holder.owner] ?? 0) - holder.bytes
            state.owned[holder.owner] = mine > 0 ? mine : nil
            defer { state.waiting = [] }
            return state.waiting.filter(state.hasBegun) + state.waiting.filter { !state.hasBegun($0) }
        }
        guard !waiting.isEmpty else { return }
        // Who finds nothing waits again. They are few: one for each connection.
        Task { for waiter in waiting { _ = await waiter.wake() } }
    }

    /// While somebody waits, and nothing is on its way out, the part that has been held longest goes.
    private func watch() async {
        while true {
            try? await Task.sleep(for: Self.patience)
            let (isOver, spills) = state.withLock { state -> (Bool, [@Sendable () -> Void]) in
                guard !state.waiting.isEmpty else {
                    state.isWatched = false
                    return (true, [])
                }
                let due = state.holders.filter {
                    !$0.value.isLeaving && ContinuousClock.now - $0.value.since >= Self.patience
                }
                // A file that has used up its own share can be helped by its own parts only.
                let full = Set(state.owned.filter { $0.value * 2 > share }.keys)
                let ofFull = due.filter { full.contains($0.value.owner) }
                let oldest = (ofFull.isEmpty ? due : ofFull).min { $0.value.since < $1.value.since }
                guard let oldest else { return (false, []) }
                state.holders[oldest.key]?.isLeaving = true
                return (false, [oldest.value.spill])
            }
            for spill in spills { spill() }
            if isOver { return }
        }
    }
}
