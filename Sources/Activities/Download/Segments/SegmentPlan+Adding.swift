import HaulHTTP

// When another connection is opened.
extension SegmentPlan {
    /// Whether a connection may be opened beyond the number that the servers are known to accept.
    func mayAddConnection(_ now: Double) -> Bool {
        let count = connections.count
        let open = connections.values.count(where: \.isOpen)
        let maxUnanswered = isDistant ? Self.maxUnansweredOnDistantPath : Self.maxUnanswered
        guard now >= noAddedConnectionBefore, count - open < max(maxUnanswered, open) else { return false }
        if isFar {
            let isTooSoon = isDistant && now < lastAddedRequest + path!.roundTrip / Self.openingsPerRoundTrip
            return count < plannedCount && !isTooSoon && (!isFull || count < Self.defaultFarConnections)
        }
        // At most twice as many as have received bytes, so that their number doubles.
        return count < 2 * connections.values.count { $0.firstByte != nil }
    }

    var isFar: Bool { path.map { $0.roundTrip >= Self.farRoundTrip } ?? false }

    var isDistant: Bool { path.map { $0.roundTrip >= Self.distantRoundTrip } ?? false }

    /// The bytes in flight already fill the link.
    var isFull: Bool { connections.values.contains { $0.path?.isQueueing ?? false } }

    /// When to ask the plan again, because a connection may then be opened without another event. nil if none may be.
    var nextDecision: Double? {
        guard isDistant, connections.count < plannedCount, !isFull else { return nil }
        return lastAddedRequest + path!.roundTrip / Self.openingsPerRoundTrip
    }

    /// On a far path more connections join once the present ones are through slow start and have not filled the link.
    mutating func raiseFarLimit(_ now: Double) {
        guard isFar, !isFull, farLimit < limit, connections.count >= farLimit else { return }
        guard connections.values.allSatisfy({ $0.isOpen }),
            now >= lastAddedResponse + Self.queueingRoundTrips * path!.roundTrip
        else {
            return
        }
        farLimit *= 2
    }

    /// How many connections should share the missing bytes on a far path.
    var plannedCount: Int {
        let maxCount = Int(missingCount / Self.bytesPerLossyConnection)
        let worth = Int(missingCount / Self.bytesPerConnection)
        let wanted =
            path?.isLossy ?? false
            ? maxCount
            : isDistant ? max(Self.defaultFarConnections, worth) : min(farLimit, max(Self.defaultFarConnections, worth))
        return max(acceptedCount, min(limit, wanted, max(2, maxCount)))
    }
}
