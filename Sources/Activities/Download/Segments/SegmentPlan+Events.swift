import HaulContract
import HaulHTTP

// The events of connections.
extension SegmentPlan {
    /// Servers of HTTP/2 expect few connections, and more of them have only made downloads slower.
    mutating func limitForHTTP2() { limit = min(limit, Self.defaultWideAreaConnections) }

    /// Records what TCP has measured on the path to a server.
    mutating func recordPath(_ path: TransferPath, by id: Int? = nil, now: Double = 0) {
        let isLossy = path.isLossy || self.path?.isLossy ?? false
        self.path = TransferPath(roundTrip: min(path.roundTrip, self.path?.roundTrip ?? .infinity), isLossy: isLossy)
        guard let id, let known = connections[id] else { return }
        if path.window > (known.path?.window ?? 0) { connections[id]!.windowGrewAt = now }
        connections[id]!.path = path
    }

    /// Adds a response that exists already and delivers all of `range`, which is no longer unassigned. Returns its id.
    mutating func adopt(_ range: Range<Int64>, now: Double) -> Int {
        removeFromUnassigned(range)
        let id = add(range, owner: nil, now: now)
        connections[id]!.openedAt = now
        return id
    }

    /// The server agreed to send `length` bytes, at most those that were requested.
    ///
    /// The response is dropped if the owner was faster than expected, and too many bytes would arrive twice.
    mutating func opened(_ id: Int, length: Int64, now: Double) -> [Action] {
        guard var connection = connections[id] else { return [.drop(id: id)] }
        var actions: [Action] = []
        let requested = connection.position..<connection.end
        connection.end = connection.position + length
        connection.openedAt = now
        connection.lastByte = now
        responseTime = responseTime.map { ($0 + now - connection.requestedAt) / 2 } ?? now - connection.requestedAt
        var owner = connection.owner.take()
        if let silent = owner, let other = connections[silent], isSilent(other, now),
            other.position == requested.lowerBound
        {
            // It has nothing left to receive, and would end only when it counts as stalled.
            shorten(silent, for: requested)
            connections[silent] = nil
            actions.append(.drop(id: silent))
            owner = nil
        }
        if let owner, let owner = connections[owner], duplicatesTooMuch(requested, of: owner, now) {
            connections[id] = nil
            return [.drop(id: id)]
        }
        connections[id] = connection
        if let owner {
            actions.append(.shorten(id: owner, to: connection.position))
            shorten(owner, for: requested)
        }
        unassigned.insert(connection.end..<requested.upperBound)
        if connections.values.count(where: \.isOpen) > acceptedCount { lastAddedResponse = now }
        acceptedCount = max(acceptedCount, connections.values.count(where: \.isOpen))
        return actions
    }

    /// Ends the owner's bytes where `range` begins, because `range` now belongs to another connection. So do the ranges
    /// behind it that connections have requested from this owner and that have no response yet.
    private mutating func shorten(_ owner: Int, for range: Range<Int64>) {
        let end = connections[owner]!.end
        connections[owner]!.end = range.lowerBound
        unassigned.insert(range.lowerBound..<max(range.lowerBound, end))
        removeFromUnassigned(range)
        for (taker, other) in connections where other.owner == owner && other.position >= range.lowerBound {
            connections[taker]!.owner = nil
            removeFromUnassigned(other.position..<other.end)
        }
    }

    /// The connection has received `received` bytes so far.
    mutating func sample(_ id: Int, received: Int64, now: Double) {
        let averagingTime = isWideArea ? min(1, max(Self.averagingTime, 4 * path!.roundTrip)) : 1
        connections[id]?.sample(received, now: now, averagingTime: averagingTime)
        lastByte = max(lastByte, connections[id]?.lastByte ?? 0)
    }

    /// Its response has ended at `position`, well or not. The bytes that it has not delivered become unassigned.
    mutating func ended(_ id: Int, at position: Int64, now: Double) -> [Action] {
        guard let connection = connections.removeValue(forKey: id) else { return [] }
        var actions: [Action] = []
        if position == connection.requestedEnd { idleCount += 1 }
        if let openedAt = connection.openedAt, !connection.requestsAllBytes, position > connection.start, now > openedAt
        {
            let average = Double(position - connection.start) / (now - openedAt)
            endedPartSpeed = endedPartSpeed.map { ($0 + average) / 2 } ?? average
        }
        unassigned.insert(position..<max(position, connection.end))
        for (taker, other) in connections where other.owner == id {
            if position >= other.end {
                // It has delivered what the other connection was to take over.
                connections[taker] = nil
                actions.append(.drop(id: taker))
            } else {
                // The requested range now belongs to the other connection.
                connections[taker]!.owner = nil
                removeFromUnassigned(other.position..<other.end)
            }
        }
        return actions
    }

    /// The server refused, or could not be reached. For `delay` seconds (infinite: for ever) no connections are opened
    /// beyond those that the servers are known to accept.
    mutating func refused(_ id: Int, for delay: Double, now: Double) {
        noAddedConnectionBefore = max(noAddedConnectionBefore, now + delay)
        let connection = connections.removeValue(forKey: id)
        if delay > 0 { acceptedCount = max(1, min(acceptedCount, connections.values.count(where: \.isOpen))) }
        guard let connection, connection.owner == nil else { return }
        unassigned.insert(connection.position..<connection.end)
    }

    mutating func add(_ range: Range<Int64>, owner: Int?, now: Double) -> Int {
        lastID += 1
        connections[lastID] = Connection(
            position: range.lowerBound, end: range.upperBound, start: range.lowerBound, requestedAt: now,
            requestsAllBytes: connections.isEmpty, requestedEnd: range.upperBound, owner: owner, lastByte: now,
            sampledAt: now)
        return lastID
    }

    mutating func removeFromUnassigned(_ range: Range<Int64>) {
        guard !range.isEmpty else { return }
        var rest = ByteIntervals()
        for interval in unassigned.intervals {
            rest.insert(interval.lowerBound..<max(interval.lowerBound, min(interval.upperBound, range.lowerBound)))
            rest.insert(min(interval.upperBound, max(interval.lowerBound, range.upperBound))..<interval.upperBound)
        }
        unassigned = rest
    }
}
