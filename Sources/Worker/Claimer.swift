import HaulBus
import HaulRedis
import Synchronization

/// Claims the next jobs of slots that have become free: one call at a time, for many slots.
///
/// Redis executes everything that it has read from a connection before it serves another client, which is up to 60
/// claims. When many runs end at once, a claim for each slot would therefore delay other clients by 20 ms for each
/// worker, although no claim takes long.
final class Claimer: Sendable {
    private struct State: Sendable {
        /// Slots that wait for a reply, in the order in which they asked.
        var waiting: [CheckedContinuation<ClaimReply?, Never>] = []
        var isCalling = false
    }

    /// The maximum number of claims in one call. Redis bounds the work of a call by itself: Lua/claim/claims.lua.
    static let maxClaims = 16

    private let state = Mutex(State())

    /// How many slots wait for a reply.
    var waitingCount: Int { state.withLock(\.waiting.count) }

    /// Returns a claim, or why there is none, which is never `more`. Returns nil after a failure.
    ///
    /// - Parameter claim: Claims this many jobs. Returns fewer replies if the last one says why, and nil after a
    ///   failure.
    func next(_ claim: @escaping @Sendable (Int) async -> [ClaimReply]?) async -> ClaimReply? {
        await withCheckedContinuation { continuation in
            let isCalling = state.withLock { state in
                state.waiting.append(continuation)
                defer { state.isCalling = true }
                return state.isCalling
            }
            if !isCalling { Task(executorPreference: Redis.executor) { await self.drain(claim) } }
        }
    }

    private func drain(_ claim: @Sendable (Int) async -> [ClaimReply]?) async {
        while true {
            let requested = state.withLock { state in
                if state.waiting.isEmpty { state.isCalling = false }
                return state.waiting.count
            }
            if requested == 0 { return }
            let replies = await claim(min(requested, Self.maxClaims))
            let served = state.withLock { state in
                // The reason why there are no more claims holds for all slots that waited before the call. It does not
                // hold for later ones, because their own settles may have changed it.
                let count = Self.servedCount(by: replies, of: requested)
                defer { state.waiting.removeFirst(count) }
                return Array(state.waiting.prefix(count))
            }
            for (n, slot) in served.enumerated() {
                slot.resume(returning: replies.flatMap { n < $0.count ? $0[n] : $0.last })
            }
        }
    }

    /// How many of the waiting slots these replies are for.
    private static func servedCount(by replies: [ClaimReply]?, of requested: Int) -> Int {
        switch replies?.last {
        case .job: replies!.count
        case .more: replies!.count - 1
        default: requested
        }
    }
}
