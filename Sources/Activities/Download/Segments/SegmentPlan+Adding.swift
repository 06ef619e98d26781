import HaulHTTP

// When another connection is opened.
extension SegmentPlan {
    /// Whether a connection may be opened beyond the number that the servers are known to accept.
    func mayAddConnection(_ now: Double) -> Bool {
        let count = connections.count
        let open = connections.values.count(where: \.isOpen)
        let maxUnanswered = isLongHaul ? Self.maxUnansweredOnLongHaul : Self.maxUnanswered
        guard now >= noAddedConnectionBefore, count - open < max(maxUnanswered, open) else { return false }
        if isWideArea {
            let isTooSoon = isLongHaul && now < lastAddedRequest + path!.roundTrip / Self.openingsPerRoundTrip
            return count < plannedCount && !isTooSoon && (!isFull || count < Self.defaultWideAreaConnections)
        }
        // At most twice as many as have received bytes, so that their number doubles.
        return count < 2 * connections.values.count { $0.firstByte != nil }
    }

    /// Slow start decides how long a download takes, not the speed of the running connections.
    var isWideArea: Bool { path.map { $0.roundTrip >= Self.wideAreaRoundTrip } ?? false }

    /// Slow start takes so long that connections are opened before any speed is known. Implies `isWideArea`.
    var isLongHaul: Bool { path.map { $0.roundTrip >= Self.longHaulRoundTrip } ?? false }

    /// The bytes in flight already fill the link.
    var isFull: Bool { connections.values.contains { $0.path?.isQueueing ?? false } }

    /// When to ask the plan again, because a connection may then be opened without another event. nil if none may be.
    var nextDecision: Double? {
        guard isLongHaul, connections.count < plannedCount, !isFull else { return nil }
        return lastAddedRequest + path!.roundTrip / Self.openingsPerRoundTrip
    }

    /// On a wide-area path more connections join once the present ones are through slow start and have not filled the
    /// link.
    mutating func raiseWideAreaLimit(_ now: Double) {
        guard isWideArea, !isFull, wideAreaLimit < limit, connections.count >= wideAreaLimit else { return }
        guard connections.values.allSatisfy({ $0.isOpen }),
            now >= lastAddedResponse + Self.queueingRoundTrips * path!.roundTrip
        else {
            return
        }
        wideAreaLimit *= 2
    }

    /// How many connections should share the missing bytes on a wide-area path.
    var plannedCount: Int {
        let maxCount = Int(missingCount / Self.bytesPerLossyConnection)
        let worth = Int(missingCount / Self.bytesPerConnection)
        let wanted =
            path?.isLossy ?? false
            ? maxCount
            : isLongHaul
                ? max(Self.defaultWideAreaConnections, worth)
                : min(wideAreaLimit, max(Self.defaultWideAreaConnections, worth))
        return max(acceptedCount, min(limit, wanted, max(2, maxCount)))
    }
}
