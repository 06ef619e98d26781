import HaulContract
import HaulHTTP

// What has happened to connections.
extension SegmentPlan {
    /// The server speaks HTTP/2, whose servers expect few connections: a limit of theirs for each would be for a stream.
    mutating func speaksHTTP2() { limit = min(limit, Self.few) }

    /// What is known of the way to the servers by now.
    mutating func learned(_ path: TransferPath, by id: Int? = nil, now: Double = 0) {
        let isLossy = path.isLossy || self.path?.isLossy ?? false
        self.path = TransferPath(roundTrip: min(path.roundTrip, self.path?.roundTrip ?? .infinity), isLossy: isLossy)
        guard let id, let known = connections[id] else { return }
        if path.window > (known.path?.window ?? 0) { connections[id]!.grown = now }
        connections[id]!.path = path
    }

    /// A response that is there already and brings all of `range`, which is taken from what waits.
    mutating func adopt(_ range: Range<Int64>, now: Double) -> Int {
        take(range)
        let id = add(range, owner: nil, now: now)
        connections[id]!.opened = now
        return id
    }

    /// The server agreed to send `length` bytes, at most what was asked for.
    ///
    /// The response is dropped if the owner of its bytes was faster than expected when they were asked for: too many of them
    /// would come twice.
    mutating func opened(_ id: Int, length: Int64, now: Double) -> [Action] {
        guard var connection = connections[id] else { return [.drop(id: id)] }
        var actions: [Action] = []
        let asked = connection.position..<connection.end
        connection.end = connection.position + length
        connection.opened = now
        connection.lastByte = now
        answerTime = answerTime.map { ($0 + now - connection.asked) / 2 } ?? now - connection.asked
        let owner = connection.owner.take()
        if let owner, let owner = connections[owner], comesTwice(asked, of: owner, now) {
            connections[id] = nil
            return [.drop(id: id)]
        }
        connections[id] = connection
        if let owner {
            actions.append(.shorten(id: owner, to: connection.position))
            cut(owner, for: asked)
        }
        unassigned.insert(connection.end..<asked.upperBound)
        if connections.values.count(where: \.isOpen) > borne { lastJoin = now }
        borne = max(borne, connections.values.count(where: \.isOpen))
        return actions
    }

    /// The owner's bytes from the beginning of `range` on are no longer its own: `range` is another's, and so is what those
    /// have asked for that still wait for an answer.
    private mutating func cut(_ owner: Int, for range: Range<Int64>) {
        let end = connections[owner]!.end
        connections[owner]!.end = range.lowerBound
        unassigned.insert(range.lowerBound..<max(range.lowerBound, end))
        take(range)
        for (taker, other) in connections where other.owner == owner && other.position >= range.lowerBound {
            connections[taker]!.owner = nil
            take(other.position..<other.end)
        }
    }

    /// It has brought `received` bytes so far.
    mutating func sample(_ id: Int, received: Int64, now: Double) {
        let memory = isFar ? min(1, max(Self.memory, 4 * path!.roundTrip)) : 1
        connections[id]?.sample(received, now: now, memory: memory)
    }

    /// Its response has ended at `position`, well or not: what it has not brought waits.
    mutating func ended(_ id: Int, at position: Int64, now: Double) -> [Action] {
        guard let connection = connections.removeValue(forKey: id) else { return [] }
        var actions: [Action] = []
        if position == connection.askedEnd { idle += 1 }
        if let opened = connection.opened, !connection.isEndless, position > connection.start, now > opened {
            let average = Double(position - connection.start) / (now - opened)
            pace = pace.map { ($0 + average) / 2 } ?? average
        }
        unassigned.insert(position..<max(position, connection.end))
        for (taker, other) in connections where other.owner == id {
            if position >= other.end {
                // It has brought what the other was to take over.
                connections[taker] = nil
                actions.append(.drop(id: taker))
            } else {
                // What it asked for is its own now.
                connections[taker]!.owner = nil
                take(other.position..<other.end)
            }
        }
        return actions
    }

    /// The server did not agree, or could not be reached. No newcomer is asked for `delay` seconds, infinite for never; those
    /// that the servers bear go on.
    mutating func refused(_ id: Int, for delay: Double, now: Double) {
        closedUntil = max(closedUntil, now + delay)
        let connection = connections.removeValue(forKey: id)
        if delay > 0 { borne = max(1, min(borne, connections.values.count(where: \.isOpen))) }
        guard let connection, connection.owner == nil else { return }
        unassigned.insert(connection.position..<connection.end)
    }

    mutating func add(_ range: Range<Int64>, owner: Int?, now: Double) -> Int {
        lastID += 1
        connections[lastID] = Connection(
            position: range.lowerBound, end: range.upperBound, start: range.lowerBound, asked: now,
            isEndless: connections.isEmpty, askedEnd: range.upperBound, owner: owner, lastByte: now, sampled: now)
        return lastID
    }

    mutating func take(_ range: Range<Int64>) {
        guard !range.isEmpty else { return }
        var rest = ByteIntervals()
        for interval in unassigned.intervals {
            rest.insert(interval.lowerBound..<max(interval.lowerBound, min(interval.upperBound, range.lowerBound)))
            rest.insert(min(interval.upperBound, max(interval.lowerBound, range.upperBound))..<interval.upperBound)
        }
        unassigned = rest
    }
}
