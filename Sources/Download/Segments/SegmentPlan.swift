import Contract

/// Which connection fetches which bytes of one entity: it decides, and touches nothing. Times are in seconds.
///
/// Every missing byte belongs to one connection, or waits in `unassigned`. A connection that has nothing to do takes what
/// waits, else a part of what another one has before it: so much that both end together. The other one is shortened only
/// when the server has agreed to send that part, so a refusal costs nothing.
struct SegmentPlan {
    enum Action: Equatable {
        /// Ask for these bytes on a new connection.
        case open(id: Int, range: Range<Int64>)
        /// Let a response end here: another connection has the rest.
        case shorten(id: Int, to: Int64)
        /// End this connection. Nothing more is told of it; what it has not fetched waits already.
        case drop(id: Int)
    }

    struct Connection {
        /// The next byte that it is to bring.
        fileprivate(set) var position: Int64
        /// The byte after its last one.
        fileprivate(set) var end: Int64
        fileprivate let start: Int64
        fileprivate let asked: Double
        fileprivate var isOpen: Bool
        /// Whose bytes it is to take over once it is open.
        fileprivate var victim: Int?
        fileprivate var firstByte: Double?
        fileprivate var lastByte: Double
        fileprivate var sampled: Double
        /// Bytes per second, nil until it can be told.
        fileprivate(set) var speed: Double?

        fileprivate var secondsLeft: Double? {
            speed.map { Double(end - position) / max($0, 1) }
        }
    }

    /// Less is not worth a request.
    static let smallestPart: Int64 = 512 << 10
    /// Others are asked to help only where that saves several times what a request takes to be answered: so many seconds
    /// while that is not known, and at least and at most.
    static let worthwhile = (unknown: 2.0, least: 0.2, most: 2.0)
    /// An extra connection that brings nothing for so long is given up while others bring something.
    static let patience = 10.0
    /// More connections join as long as they make it so much faster within `trial`.
    static let gain = 1.15
    static let trial = 2.0
    /// A speed measured over less is none.
    static let shortestSample = 0.02
    private static let alignment: Int64 = 1 << 20

    private(set) var unassigned: ByteIntervals
    private(set) var connections: [Int: Connection] = [:]
    /// Parts that were taken over from running responses.
    private(set) var steals = 0
    private var limit: Int
    private var lastID = 0
    private var closedUntil = 0.0
    /// What it takes from a question to its answer.
    private var answerTime: Double?
    /// The speed of all before the last connections joined, and when that was.
    private var trialBegun: (time: Double, speed: Double, count: Int)?

    /// - Parameters:
    ///   - missing: The bytes to be fetched.
    ///   - limit: The most connections at once.
    init(missing: [Range<Int64>], limit: Int) {
        unassigned = ByteIntervals(missing)
        self.limit = max(1, limit)
    }

    var isDone: Bool { unassigned.isEmpty && connections.isEmpty }

    var speed: Double { connections.values.reduce(0) { $0 + ($1.speed ?? 0) } }

    // MARK: What has happened

    /// A response that is there already and brings all of `range`, which is taken from what waits.
    mutating func adopt(_ range: Range<Int64>, now: Double) -> Int {
        take(range)
        return add(range, isOpen: true, victim: nil, now: now)
    }

    /// The server agreed to send `length` bytes, at most what was asked for.
    mutating func opened(_ id: Int, length: Int64, now: Double) -> [Action] {
        guard var connection = connections[id] else { return [.drop(id: id)] }
        var actions: [Action] = []
        let asked = connection.end
        connection.end = connection.position + length
        connection.isOpen = true
        connection.lastByte = now
        answerTime = answerTime.map { ($0 + now - connection.asked) / 2 } ?? now - connection.asked
        if let victim = connection.victim {
            connection.victim = nil
            steals += 1
            connections[victim]?.end = connection.position
            actions.append(.shorten(id: victim, to: connection.position))
        }
        connections[id] = connection
        unassigned.insert(connection.end..<asked)
        return actions
    }

    /// It has brought `received` bytes so far.
    mutating func sample(_ id: Int, received: Int64, now: Double) {
        guard var connection = connections[id], connection.isOpen else { return }
        let position = connection.start + received
        if position > connection.position {
            connection.firstByte = connection.firstByte ?? connection.lastByte
            connection.lastByte = now
        }
        let elapsed = now - connection.sampled
        if let firstByte = connection.firstByte, elapsed >= Self.shortestSample {
            let recent = Double(position - connection.position) / elapsed
            // The average at first, then of about the last second.
            let weight = max(elapsed / max(now - firstByte, elapsed), min(elapsed, 1))
            connection.speed = connection.speed.map { $0 + (recent - $0) * weight } ?? recent
            connection.sampled = now
            connection.position = max(connection.position, position)
        }
        connections[id] = connection
    }

    /// Its response has ended at `position`, well or not: what it has not brought waits.
    mutating func ended(_ id: Int, at position: Int64) -> [Action] {
        guard let connection = connections.removeValue(forKey: id) else { return [] }
        var rest = position..<max(position, connection.end)
        var actions: [Action] = []
        for (thief, other) in connections where other.victim == id {
            if position >= other.end {
                // It has brought what the other was to take over.
                connections[thief] = nil
                actions.append(.drop(id: thief))
            } else {
                // What it asked for is its own now.
                connections[thief]!.victim = nil
                rest = position..<max(position, min(rest.upperBound, other.position))
            }
        }
        unassigned.insert(rest)
        return actions
    }

    /// The server did not agree, or could not be reached. No other is asked for `delay` seconds, infinite for never.
    mutating func refused(_ id: Int, for delay: Double, now: Double) {
        closedUntil = max(closedUntil, now + delay)
        guard let connection = connections.removeValue(forKey: id), connection.victim == nil else { return }
        unassigned.insert(connection.position..<connection.end)
    }

    // MARK: What to do

    /// What to do now; to be asked after every change, and a few times a second. `mayOpen` is asked before each extra
    /// connection.
    mutating func actions(now: Double, mayOpen: () -> Bool = { true }) -> [Action] {
        var actions = givingUp(now)
        judgeTrial(now)
        while connections.count < limit {
            // The first one is always opened. Extra ones wait until as many bring bytes, which doubles them.
            let isExtra = !connections.isEmpty
            if isExtra {
                let bringing = connections.values.count { $0.firstByte != nil }
                guard now >= closedUntil, connections.count < bringing * 2 else { break }
            }
            guard let (range, victim) = nextPart() else { break }
            if isExtra, !mayOpen() { break }
            if victim == nil { take(range) }
            if trialBegun == nil { trialBegun = (now, speed, connections.count) }
            let id = add(range, isOpen: false, victim: victim, now: now)
            actions.append(.open(id: id, range: range))
        }
        return actions
    }

    /// Extra connections that bring nothing while others do.
    private mutating func givingUp(_ now: Double) -> [Action] {
        guard connections.values.contains(where: { now - $0.lastByte < Self.trial }) else { return [] }
        var actions: [Action] = []
        for (id, connection) in connections.sorted(by: { $0.key < $1.key })
        where connections.count > 1 && now - connection.lastByte > Self.patience {
            if connection.victim != nil { connections[id] = nil } else { actions += ended(id, at: connection.position) }
            actions.append(.drop(id: id))
        }
        return actions
    }

    /// Connections that add no speed have no successors: what is there is enough.
    private mutating func judgeTrial(_ now: Double) {
        guard let begun = trialBegun, now - begun.time >= Self.trial else { return }
        if connections.count > begun.count, speed < begun.speed * Self.gain { limit = connections.count }
        trialBegun = nil
    }

    private func nextPart() -> (range: Range<Int64>, victim: Int?)? {
        if let waiting = unassigned.intervals.max(by: { $0.count < $1.count }) { return (waiting, nil) }
        let worthwhile =
            answerTime.map { min(Self.worthwhile.most, max(Self.worthwhile.least, 4 * $0)) } ?? Self.worthwhile.unknown
        let taken = Set(connections.values.compactMap(\.victim))
        let candidates = connections.filter { id, connection in
            connection.isOpen && !taken.contains(id) && (connection.secondsLeft ?? 0) > worthwhile
        }
        guard let (id, victim) = candidates.max(by: { $0.value.secondsLeft! < $1.value.secondsLeft! }),
            let speed = victim.speed
        else { return nil }
        let speeds = connections.values.compactMap(\.speed).sorted()
        let expected = speeds[speeds.count / 2]
        let left = victim.end - victim.position
        let own = Int64(Double(left) * speed / max(speed + expected, 1))
        var split = victim.position + own
        if left > 4 * Self.alignment { split = (split + Self.alignment - 1) / Self.alignment * Self.alignment }
        guard victim.end - split >= Self.smallestPart else { return nil }
        return (split..<victim.end, id)
    }

    private mutating func add(_ range: Range<Int64>, isOpen: Bool, victim: Int?, now: Double) -> Int {
        lastID += 1
        connections[lastID] = Connection(
            position: range.lowerBound, end: range.upperBound, start: range.lowerBound, asked: now, isOpen: isOpen,
            victim: victim,
            lastByte: now, sampled: now)
        return lastID
    }

    private mutating func take(_ range: Range<Int64>) {
        var rest = ByteIntervals()
        for interval in unassigned.intervals {
            rest.insert(interval.lowerBound..<max(interval.lowerBound, min(interval.upperBound, range.lowerBound)))
            rest.insert(min(interval.upperBound, max(interval.lowerBound, range.upperBound))..<interval.upperBound)
        }
        unassigned = rest
    }
}
