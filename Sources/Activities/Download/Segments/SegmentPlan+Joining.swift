import HaulHTTP

// When one connection more is asked for.
extension SegmentPlan {
    /// Whether one more connection than were ever open may be asked for.
    func mayJoin(_ now: Double) -> Bool {
        let count = connections.count
        let open = connections.values.count(where: \.isOpen)
        let mostUnanswered = isDistant ? Self.mostUnansweredFromAfar : Self.mostUnanswered
        guard now >= closedUntil, count - open < max(mostUnanswered, open) else { return false }
        if isFar {
            let isTooSoon = isDistant && now < lastAsk + path!.roundTrip / Self.asksPerRoundTrip
            return count < planned && !isTooSoon && (!isFull || count < Self.few)
        }
        // As many as bring bytes, which doubles them.
        return count < 2 * connections.values.count { $0.firstByte != nil }
    }

    var isFar: Bool { path.map { $0.roundTrip >= Self.far } ?? false }

    var isDistant: Bool { path.map { $0.roundTrip >= Self.distant } ?? false }

    /// What is under way fills the link already.
    var isFull: Bool { connections.values.contains { $0.path?.isQueueing ?? false } }

    /// Whether a newcomer may be asked for before anything else happens: at this time somebody should look again.
    var nextAsk: Double? {
        guard isDistant, connections.count < planned, !isFull else { return nil }
        return lastAsk + path!.roundTrip / Self.asksPerRoundTrip
    }

    /// Where slow start is short, more connections join only when those that are there have been through it, and have not
    /// filled the link.
    mutating func raiseFarLimit(_ now: Double) {
        guard isFar, !isFull, farLimit < limit, connections.count >= farLimit else { return }
        guard connections.values.allSatisfy({ $0.isOpen }), now >= lastJoin + Self.queueShows * path!.roundTrip else {
            return
        }
        farLimit *= 2
    }

    /// How many connections are to share what is left, where the way is far.
    var planned: Int {
        let most = Int(left / Self.worthALossyConnection)
        let worth = Int(left / Self.worthAConnection)
        let wanted =
            path?.isLossy ?? false ? most : isDistant ? max(Self.few, worth) : min(farLimit, max(Self.few, worth))
        return max(borne, min(limit, wanted, max(2, most)))
    }
}
