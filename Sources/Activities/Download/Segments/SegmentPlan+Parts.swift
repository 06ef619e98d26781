import Glibc
import HaulContract
import HaulHTTP

// Which bytes an idle connection fetches, and which connection it takes them over from.
extension SegmentPlan {
    /// The range that the next connection fetches, and the connection that it takes this range over from. `owner` is
    /// nil if the range is unassigned.
    func nextPart(_ now: Double) -> (range: Range<Int64>, owner: Int?)? {
        if let waiting = unassigned.intervals.max(by: { $0.count < $1.count }) { return (part(of: waiting), nil) }
        if let silent = silentPart(now) { return silent }
        guard let (id, keptFraction) = owner(now), let owner = connections[id] else { return nil }
        let end = endAfterHandovers(of: id)
        let missing = end - owner.position
        var split = owner.position + Int64(Double(missing) * keptFraction)
        if isWideArea {
            if owner.requestsAllBytes {
                let share = hasStableSpeed(owner, now) ? fairShare : missingCount / Int64(4 * plannedCount)
                split = max(split, end - max(share, Self.minPartBytes))
            }
            // Bytes that the owner receives before the new connection's first byte would arrive twice.
            let meanwhile = (owner.speed ?? 0) * (responseTime ?? 2 * path!.roundTrip)
            split = max(split, owner.position + Int64(meanwhile))
        }
        if isWideArea {
            let sent = sentOffset(whenShortenedByResponse: owner, now)
            if split < sent, end - split < Self.minPartPerDuplicateByte * (sent - split) { split = sent }
        }
        if missing > 4 * alignment { split = (split + alignment - 1) / alignment * alignment }
        guard end - split >= minPart(from: owner) else { return nil }
        return (split..<end, id)
    }

    /// All that a silent connection is missing, however little that is: at the end of a file the others would have to
    /// wait until it counts as stalled.
    private func silentPart(_ now: Double) -> (range: Range<Int64>, owner: Int?)? {
        // Each time takes twice as long, since more requests do not help a server that hangs.
        let patience = pow(2, Double(silentTakeovers))
        for (id, connection) in connections.sorted(by: { $0.key < $1.key })
        where isSilent(connection, now, patience: patience) {
            let range = connection.position..<max(connection.position, endAfterHandovers(of: id))
            if !range.isEmpty { return (range, id) }
        }
        return nil
    }

    /// Whether a response that had begun has stopped, while other connections went on or when all others had ended.
    func isSilent(_ connection: Connection, _ now: Double, patience: Double = 1) -> Bool {
        let time = max(Self.minSilence, Self.silentRoundTrips * (path?.roundTrip ?? 0))
        guard connection.firstByte != nil, now - connection.lastByte >= patience * time else { return false }
        return lastByte > connection.lastByte || acceptedCount > 1 && connections.values.count(where: \.isOpen) == 1
    }

    /// Whether too much of `part` would arrive twice if it were taken from its owner now.
    func duplicatesTooMuch(_ part: Range<Int64>, of owner: Connection, _ now: Double) -> Bool {
        let twice = min(part.upperBound, sentOffset(whenShortenedNow: owner, now)) - part.lowerBound
        return twice > 0 && Int64(part.count) < Self.minPartPerDuplicateByte * twice
    }

    /// The offset up to which the server will have sent when it notices that we shorten the owner's response now.
    private func sentOffset(whenShortenedNow owner: Connection, _ now: Double) -> Int64 {
        guard let path = owner.path, let speed = owner.speed else { return owner.position }
        return owner.position
            + (isGrowing(owner, now) ? path.window / 2 : min(path.window, Int64(speed * path.delay)))
    }

    /// The same if the owner's response is shortened only when the response to the new connection's request arrives.
    private func sentOffset(whenShortenedByResponse owner: Connection, _ now: Double) -> Int64 {
        guard let path = owner.path, let speed = owner.speed else { return owner.position }
        let responseTime = responseTime ?? 2 * path.roundTrip
        // During slow start the window doubles with each round trip. After it, the window may be larger than the bytes
        // in flight, so these are estimated as the bytes of two round trips. One would be too few, because the speed
        // may have grown since it was measured.
        let inFlight =
            isGrowing(owner, now)
            ? Double(path.window) * pow(2, min(Self.slowStartRoundTrips, responseTime / path.roundTrip))
            : min(Double(path.window), 2 * speed * path.delay)
        return owner.position + Int64(speed * responseTime + inFlight)
    }

    /// Whether the connection is still in slow start. The kernel announces a window of twice the bytes that arrived in
    /// the last round trip, so a window that stays the same means that slow start has ended.
    private func isGrowing(_ connection: Connection, _ now: Double) -> Bool {
        connection.path.map { now < connection.windowGrewAt + 2 * $0.roundTrip } ?? false
    }

    /// The smallest part that is worth a request: its owner would need longer for it than the request takes.
    func minPart(from owner: Connection) -> Int64 {
        guard isWideArea, let speed = owner.speed else { return Self.minPartBytes }
        let short = min(Self.minPartBytes, Int64(Self.minPartTime * speed))
        return max(Self.minWideAreaPartBytes, short, Int64(2 * speed * path!.roundTrip))
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
    func owner(_ now: Double) -> (id: Int, keptFraction: Double)? {
        let speeds = connections.values.compactMap(\.speed).sorted()
        let median = speeds.isEmpty ? nil : speeds[speeds.count / 2]
        // On a wide-area path the first response is ahead of the others in slow start, so its speed is not typical. The
        // speed of the others is known only once parts have ended.
        let typical = isWideArea ? [endedPartSpeed, median].compactMap(\.self).min() : median
        var best: (id: Int, keptFraction: Double, seconds: Double)?
        for (id, connection) in connections.sorted(by: { $0.key < $1.key }) where connection.isOpen {
            let missing = endAfterHandovers(of: id) - connection.position
            let isSpeedUnstable = isWideArea && !hasStableSpeed(connection, now)
            if isSpeedUnstable, !connection.requestsAllBytes, let seconds = slowStartSeconds(of: connection, missing),
                seconds > best?.seconds ?? 0
            {
                best = (id, 0, seconds)
            }
            // A response that has just begun and has many bytes left is split at once, because its speed is not known
            // yet.
            if isSpeedUnstable, connection.requestsAllBytes {
                return missing >= 2 * Self.minPartBytes ? (id, 0.5) : nil
            }
            guard !isSpeedUnstable, let speed = connection.speed, let typical else { continue }
            let seconds = Double(missing) / max(speed, 1)
            // Taking from a connection that requested only a part costs a TCP connection that could be used again.
            guard seconds > max(minSavedSeconds * (isWideArea && connection.requestsAllBytes ? 0.5 : 1), connectDelay)
            else {
                continue
            }
            if seconds > best?.seconds ?? 0 { best = (id, speed / max(speed + typical, 1), seconds) }
        }
        return best.map { ($0.id, $0.keptFraction) }
    }

    /// How many more seconds a response in slow start takes if its speed doubles with each round trip. nil if its bytes
    /// should not be taken over: no connection is idle, too little time would be saved, or another connection has more
    /// bytes to give.
    func slowStartSeconds(of connection: Connection, _ missing: Int64) -> Double? {
        guard idleCount > 0, let speed = connection.speed, let roundTrip = path?.roundTrip,
            !connections.values.contains(where: { $0.requestsAllBytes && $0.end - $0.position > 4 * Self.minPartBytes })
        else { return nil }
        let seconds = roundTrip * log2(1 + Double(missing) / max(1, speed * roundTrip))
        return seconds > minSavedSeconds ? seconds : nil
    }

    /// Seconds until a new connection is through its handshake and slow start; 0 if an idle connection can be used.
    var connectDelay: Double {
        guard isWideArea, idleCount == 0, let path else { return 0 }
        return (2 + (path.isLossy ? Self.slowStartRoundTrips / 2 : Self.slowStartRoundTrips)) * path.roundTrip
    }

    /// The offset at which the connection will end if the servers agree to send all ranges that other connections have
    /// requested from it.
    func endAfterHandovers(of id: Int) -> Int64 {
        connections.values.reduce(connections[id]!.end) { $1.owner == id ? min($0, $1.position) : $0 }
    }

    /// Whether its speed so far says something about its later speed.
    func hasStableSpeed(_ connection: Connection, _ now: Double) -> Bool {
        guard let openedAt = connection.openedAt, connection.speed != nil else { return false }
        return now - openedAt >= Self.stableSpeedRoundTrips * (path?.roundTrip ?? 0)
    }

    /// Taking bytes over is worth a request only if it saves at least this many seconds.
    var minSavedSeconds: Double {
        guard let responseTime else { return isWideArea ? 4 * path!.roundTrip : Self.minSavedSeconds.unknown }
        return min(Self.minSavedSeconds.max, max(isWideArea ? 0 : Self.minSavedSeconds.min, 4 * responseTime))
    }
}
