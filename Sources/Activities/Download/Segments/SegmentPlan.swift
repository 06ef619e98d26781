import HaulContract
import HaulHTTP

/// Which connection fetches which bytes of one entity: it decides, and touches nothing. Times are in seconds.
///
/// Every missing byte belongs to one connection, or waits in `unassigned`. A connection that has nothing to do takes a part of
/// what waits, else of what another one has before it, from its end. The other one is shortened only when the server has
/// agreed to send that part, so a refusal costs nothing.
struct SegmentPlan {
    enum Action: Equatable {
        /// Ask for these bytes on a new connection, or on one that waits for a question.
        case open(id: Int, range: Range<Int64>)
        /// Let a response end here: another connection has the rest.
        case shorten(id: Int, to: Int64)
        /// End this connection. Nothing more is told of it; what it has not fetched waits already.
        case drop(id: Int)
    }

    struct Connection {
        /// The next byte that it is to bring.
        var position: Int64
        /// The byte after its last one.
        var end: Int64
        let start: Int64
        let asked: Double
        var opened: Double?
        /// It was asked for all that was missing: others take their parts from it, and where it is shortened its connection
        /// is lost.
        let isEndless: Bool
        /// What was asked for ends here: if it brings all of that, its connection is free for another question.
        let askedEnd: Int64
        var path: TransferPath?
        /// When its window was last seen to grow.
        var grown = -Double.infinity
        /// Whose bytes it is to take over once it is open.
        var victim: Int?
        var firstByte: Double?
        var lastByte: Double
        var sampled: Double
        /// Bytes per second, nil until it can be told.
        var speed: Double?

        var isOpen: Bool { opened != nil }
    }

    /// Less is not worth a request.
    static let smallestPart: Int64 = 512 << 10
    /// Nor is less than this where connections are slow because the way is far.
    static let leastPart: Int64 = 64 << 10
    /// Nor is what its owner would bring within so many seconds.
    static let shortest = 0.25
    /// Others are asked to help only where that saves several times what a request takes to be answered: so many seconds
    /// while that is not known, and at least and at most.
    static let worthwhile = (unknown: 2.0, least: 0.2, most: 2.0)
    /// From this round trip on it is slow start that decides how long a download takes, and not what connections bring
    /// once they run: others are asked to help before anything can be told of speeds.
    static let far = 0.005
    /// From this round trip on slow start takes so long that nobody waits to see what the first few bring.
    static let distant = 0.05
    /// Questions of newcomers that wait for their answers at once: a host that bears few refuses no more than these, and
    /// one that bears more no more than it bears.
    static let mostUnanswered = 3
    /// So many connections join at once where the way is far; more of them only for each so many bytes that are left.
    static let few = 4
    static let worthAConnection: Int64 = 4 << 20
    /// Round trips after which a slow start is over, and after which it shows whether a queue builds up.
    static let slowStart = 8.0
    static let showing = 5.0
    /// Newcomers on a distant way are asked for one after the other within a round trip, so many: what several send at the
    /// same moment looks like a queue to each of them, which ends its slow start too soon.
    static let asksPerRoundTrip = 8.0
    /// The same where the way loses packets, which keeps each connection slow.
    static let worthALossyConnection: Int64 = 1 << 20
    /// An extra connection that brings nothing for so long is given up while others bring something.
    static let patience = 10.0
    /// More connections join as long as they make it so much faster within `trial`.
    static let gain = 1.15
    static let trial = 2.0
    /// Where the way is far the speed is that of so many seconds at least.
    private static let memory = 0.25
    /// A speed measured over less is none.
    static let shortestSample = 0.02
    /// A part that is so many times what would come twice is worth that.
    static let worthTwice: Int64 = 8
    /// What a response has brought within so many times of an answer says little of its speed to come.
    static let youth = 6.0
    static let alignment: Int64 = 1 << 20

    private(set) var unassigned: ByteIntervals
    private(set) var connections: [Int: Connection] = [:]
    var limit: Int
    /// The most connections that the servers were seen to bear: up to as many may ask again as soon as they have ended.
    var proven = 1
    private var lastID = 0
    /// No newcomers before this.
    var closedUntil = 0.0
    /// What it takes from a question to its answer.
    var answerTime: Double?
    var path: TransferPath?
    /// What a part was brought at by those that have ended, on average: bytes per second.
    var pace: Double?
    /// Connections that wait for another question.
    var idle = 0
    /// How many may share a far way, as long as no queue builds up.
    var rung = Self.few
    /// When the last newcomer was asked for, and when the last one joined.
    var lastAsk = -Double.infinity
    var lastJoin = 0.0
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

    /// The bytes that are still to come.
    var left: Int64 {
        unassigned.count + connections.values.reduce(0) { $0 + ($1.victim == nil ? max(0, $1.end - $1.position) : 0) }
    }

    // MARK: What has happened

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
        let id = add(range, victim: nil, now: now)
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
        let victim = connection.victim.take()
        if let victim, let owner = connections[victim], comesTwice(asked, of: owner, now) {
            connections[id] = nil
            return [.drop(id: id)]
        }
        connections[id] = connection
        if let victim {
            actions.append(.shorten(id: victim, to: connection.position))
            cut(victim, for: asked)
        }
        unassigned.insert(connection.end..<asked.upperBound)
        if connections.values.count(where: \.isOpen) > proven { lastJoin = now }
        proven = max(proven, connections.values.count(where: \.isOpen))
        return actions
    }

    /// The victim's bytes from the beginning of `range` on are no longer its own: `range` is another's, and so is what those
    /// have asked for that still wait for an answer.
    private mutating func cut(_ victim: Int, for range: Range<Int64>) {
        let end = connections[victim]!.end
        connections[victim]!.end = range.lowerBound
        unassigned.insert(range.lowerBound..<max(range.lowerBound, end))
        take(range)
        for (thief, other) in connections where other.victim == victim && other.position >= range.lowerBound {
            connections[thief]!.victim = nil
            take(other.position..<other.end)
        }
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
        let memory = isFar ? min(1, max(Self.memory, 4 * path!.roundTrip)) : 1
        if let firstByte = connection.firstByte, elapsed >= Self.shortestSample {
            let recent = Double(position - connection.position) / elapsed
            // The average at first, then of about the last second, or of some round trips.
            let weight = max(elapsed / max(now - firstByte, elapsed), min(elapsed / memory, 1))
            connection.speed = connection.speed.map { $0 + (recent - $0) * weight } ?? recent
            connection.sampled = now
            connection.position = max(connection.position, position)
        }
        connections[id] = connection
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
        for (thief, other) in connections where other.victim == id {
            if position >= other.end {
                // It has brought what the other was to take over.
                connections[thief] = nil
                actions.append(.drop(id: thief))
            } else {
                // What it asked for is its own now.
                connections[thief]!.victim = nil
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
        if delay > 0 { proven = max(1, min(proven, connections.values.count(where: \.isOpen))) }
        guard let connection, connection.victim == nil else { return }
        unassigned.insert(connection.position..<connection.end)
    }

    // MARK: What to do

    /// What to do now; to be asked after every change, and a few times a second. `mayOpen` is asked before each extra
    /// connection.
    mutating func actions(now: Double, mayOpen: () -> Bool = { true }) -> [Action] {
        var actions = givingUp(now)
        judgeTrial(now)
        climb(now)
        while connections.count < limit {
            // The first one is always opened.
            let isExtra = !connections.isEmpty
            let isNew = connections.count >= proven
            if isExtra, isNew, !mayJoin(now) { break }
            guard let (range, victim) = nextPart(now) else { break }
            if isExtra, !mayOpen() { break }
            if victim == nil { take(range) }
            if isNew {
                if trialBegun == nil { trialBegun = (now, speed, connections.count) }
                lastAsk = now
            }
            idle = max(0, idle - 1)
            let id = add(range, victim: victim, now: now)
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
            if connection.victim != nil {
                connections[id] = nil
            } else {
                actions += ended(id, at: connection.position, now: now)
            }
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

    private mutating func add(_ range: Range<Int64>, victim: Int?, now: Double) -> Int {
        lastID += 1
        connections[lastID] = Connection(
            position: range.lowerBound, end: range.upperBound, start: range.lowerBound, asked: now,
            isEndless: connections.isEmpty, askedEnd: range.upperBound, victim: victim, lastByte: now, sampled: now)
        return lastID
    }

    private mutating func take(_ range: Range<Int64>) {
        guard !range.isEmpty else { return }
        var rest = ByteIntervals()
        for interval in unassigned.intervals {
            rest.insert(interval.lowerBound..<max(interval.lowerBound, min(interval.upperBound, range.lowerBound)))
            rest.insert(min(interval.upperBound, max(interval.lowerBound, range.upperBound))..<interval.upperBound)
        }
        unassigned = rest
    }
}
