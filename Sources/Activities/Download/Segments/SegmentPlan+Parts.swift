import Glibc
import HaulContract
import HaulHTTP

// What an idle connection fetches, and from whom it takes those bytes.
extension SegmentPlan {
    /// What the next connection fetches, and from which connection it takes the bytes; nil: they are unassigned.
    func nextPart(_ now: Double) -> (range: Range<Int64>, owner: Int?)? {
        if let waiting = unassigned.intervals.max(by: { $0.count < $1.count }) { return (part(of: waiting), nil) }
        guard let (id, own) = owner(now), let owner = connections[id] else { return nil }
        let end = endIfGranted(of: id)
        let missing = end - owner.position
        var split = owner.position + Int64(Double(missing) * own)
        if isFar {
            if owner.requestsAllBytes {
                let share = isMature(owner, now) ? fairShare : missingCount / Int64(4 * plannedCount)
                split = max(split, end - max(share, Self.minPartBytes))
            }
            // What the owner receives before the other's first byte would arrive twice.
            let meanwhile = (owner.speed ?? 0) * (responseTime ?? 2 * path!.roundTrip)
            split = max(split, owner.position + Int64(meanwhile))
        }
        if isFar {
            let sent = sentByResponse(owner, now)
            if split < sent, end - split < Self.minPartPerDuplicateByte * (sent - split) { split = sent }
        }
        if missing > 4 * alignment { split = (split + alignment - 1) / alignment * alignment }
        guard end - split >= minPart(from: owner) else { return nil }
        return (split..<end, id)
    }

    /// Whether too much of `part` would arrive twice if it were taken from its owner now.
    func duplicatesTooMuch(_ part: Range<Int64>, of owner: Connection, _ now: Double) -> Bool {
        let twice = min(part.upperBound, sentBefore(cutting: owner, now)) - part.lowerBound
        return twice > 0 && Int64(part.count) < Self.minPartPerDuplicateByte * twice
    }

    /// The offset up to which the server has sent by the time a cut that is made now reaches it.
    private func sentBefore(cutting owner: Connection, _ now: Double) -> Int64 {
        guard let path = owner.path, let speed = owner.speed else { return owner.position }
        return owner.position
            + (isGrowing(owner, now) ? path.window / 2 : min(path.window, Int64(speed * path.delay)))
    }

    /// The same for a cut that is made once another server has responded.
    private func sentByResponse(_ owner: Connection, _ now: Double) -> Int64 {
        guard let path = owner.path, let speed = owner.speed else { return owner.position }
        let responseTime = responseTime ?? 2 * path.roundTrip
        // During slow start the window doubles with each round trip. Later it may be wider than what is in flight: that
        // is what arrives within two round trips. (Two, because the speed was measured a while ago.)
        let underWay =
            isGrowing(owner, now)
            ? Double(path.window) * pow(2, min(Self.slowStartRoundTrips, responseTime / path.roundTrip))
            : min(Double(path.window), 2 * speed * path.delay)
        return owner.position + Int64(speed * responseTime + underWay)
    }

    /// Whether slow start goes on. The kernel keeps the window at twice what arrives in a round trip.
    private func isGrowing(_ connection: Connection, _ now: Double) -> Bool {
        connection.path.map { now < connection.windowGrewAt + 2 * $0.roundTrip } ?? false
    }

    /// The smallest part that is worth a request: its owner would need longer for it than the request takes.
    func minPart(from owner: Connection) -> Int64 {
        guard isFar, let speed = owner.speed else { return Self.minPartBytes }
        let short = min(Self.minPartBytes, Int64(Self.minPartTime * speed))
        return max(Self.minFarPartBytes, short, Int64(2 * speed * path!.roundTrip))
    }

    /// An equal share of the missing bytes. So all connections end together, and none has requested too many.
    var fairShare: Int64 { missingCount / Int64(max(acceptedCount, connections.count + 1)) }

    /// Unassigned bytes are divided equally. The first connection requests all of them.
    func part(of waiting: Range<Int64>) -> Range<Int64> {
        let share = max(fairShare, Self.minPartBytes)
        guard !connections.isEmpty, Int64(waiting.count) - share >= Self.minPartBytes else { return waiting }
        return waiting.lowerBound..<waiting.lowerBound + share
    }

    /// The connection to take bytes from, and the fraction of its missing bytes that it keeps.
    func owner(_ now: Double) -> (id: Int, own: Double)? {
        let speeds = connections.values.compactMap(\.speed).sorted()
        let median = speeds.isEmpty ? nil : speeds[speeds.count / 2]
        // On a far path the first response is ahead of all. The speed of others is known only from ended parts.
        let typical = isFar ? [endedPartSpeed, median].compactMap(\.self).min() : median
        var best: (id: Int, own: Double, seconds: Double)?
        for (id, connection) in connections.sorted(by: { $0.key < $1.key }) where connection.isOpen {
            let missing = endIfGranted(of: id) - connection.position
            let isYoung = isFar && !isMature(connection, now)
            if isYoung, !connection.requestsAllBytes, let seconds = slowStartSeconds(of: connection, missing),
                seconds > best?.seconds ?? 0
            {
                best = (id, 0, seconds)
            }
            // A response that has just begun and has many bytes left is split at once, because its speed is not known
            // yet.
            if isYoung, connection.requestsAllBytes {
                return missing >= 2 * Self.minPartBytes ? (id, 0.5) : nil
            }
            guard !isYoung, let speed = connection.speed, let typical else { continue }
            let seconds = Double(missing) / max(speed, 1)
            // Taking from a connection that requested only a part costs a TCP connection that could be used again.
            guard seconds > max(worthwhile * (isFar && connection.requestsAllBytes ? 0.5 : 1), connectDelay) else {
                continue
            }
            if seconds > best?.seconds ?? 0 { best = (id, speed / max(speed + typical, 1), seconds) }
        }
        return best.map { ($0.id, $0.own) }
    }

    /// How many seconds a response that has just begun still takes if its speed doubles with each round trip. nil if it
    /// stays as it is: no connection is idle, too little would be saved, or there are bytes elsewhere to take.
    func slowStartSeconds(of connection: Connection, _ missing: Int64) -> Double? {
        guard idleCount > 0, let speed = connection.speed, let roundTrip = path?.roundTrip,
            !connections.values.contains(where: { $0.requestsAllBytes && $0.end - $0.position > 4 * Self.minPartBytes })
        else { return nil }
        let seconds = roundTrip * log2(1 + Double(missing) / max(1, speed * roundTrip))
        return seconds > worthwhile ? seconds : nil
    }

    /// Seconds until a connection that must be made first delivers as much as others; 0 if an idle one can be used.
    var connectDelay: Double {
        guard isFar, idleCount == 0, let path else { return 0 }
        return (2 + (path.isLossy ? Self.slowStartRoundTrips / 2 : Self.slowStartRoundTrips)) * path.roundTrip
    }

    /// Where the connection ends if all ranges that others have requested from it are granted.
    func endIfGranted(of id: Int) -> Int64 {
        connections.values.reduce(connections[id]!.end) { $1.owner == id ? min($0, $1.position) : $0 }
    }

    func isMature(_ connection: Connection, _ now: Double) -> Bool {
        guard let openedAt = connection.openedAt, connection.speed != nil else { return false }
        return now - openedAt >= Self.maturityRoundTrips * (path?.roundTrip ?? 0)
    }

    /// Seconds: help that saves less is not worth a request.
    var worthwhile: Double {
        guard let responseTime else { return isFar ? 4 * path!.roundTrip : Self.worthwhile.unknown }
        return min(Self.worthwhile.max, max(isFar ? 0 : Self.worthwhile.min, 4 * responseTime))
    }
}
