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
        fileprivate(set) var position: Int64
        /// The byte after its last one.
        fileprivate(set) var end: Int64
        fileprivate let start: Int64
        fileprivate let asked: Double
        fileprivate var opened: Double?
        /// It was asked for all that was missing: others take their parts from it, and where it is shortened its connection
        /// is lost.
        fileprivate let isEndless: Bool
        /// Whose bytes it is to take over once it is open.
        fileprivate var victim: Int?
        fileprivate var firstByte: Double?
        fileprivate var lastByte: Double
        fileprivate var sampled: Double
        /// Bytes per second, nil until it can be told.
        fileprivate(set) var speed: Double?

        fileprivate var isOpen: Bool { opened != nil }
    }

    /// Less is not worth a request.
    static let smallestPart: Int64 = 512 << 10
    /// Others are asked to help only where that saves several times what a request takes to be answered: so many seconds
    /// while that is not known, and at least and at most.
    static let worthwhile = (unknown: 2.0, least: 0.2, most: 2.0)
    /// From this round trip on it is slow start that decides how long a download takes, and not what connections bring
    /// once they run: others are asked to help before anything can be told of speeds.
    static let far = 0.005
    /// Questions of newcomers that wait for their answers at once: a host that bears no more refuses no more than these.
    static let mostUnanswered = 3
    /// So many connections join at once where the way is far; more of them only for each so many bytes that are left.
    static let few = 4
    private static let worthAConnection: Int64 = 4 << 20
    /// The same where the way loses packets, which keeps each connection slow.
    private static let worthALossyConnection: Int64 = 1 << 20
    /// An extra connection that brings nothing for so long is given up while others bring something.
    static let patience = 10.0
    /// More connections join as long as they make it so much faster within `trial`.
    static let gain = 1.15
    static let trial = 2.0
    /// A speed measured over less is none.
    static let shortestSample = 0.02
    /// What a response has brought within so many times of an answer says little of its speed to come.
    private static let youth = 6.0
    private static let alignment: Int64 = 1 << 20

    private(set) var unassigned: ByteIntervals
    private(set) var connections: [Int: Connection] = [:]
    /// Parts that were taken over from running responses.
    private(set) var steals = 0
    private var limit: Int
    /// The most connections that the servers were seen to bear: up to as many may ask again as soon as they have ended.
    private var proven = 1
    private var lastID = 0
    /// No newcomers before this.
    private var closedUntil = 0.0
    /// What it takes from a question to its answer.
    private var answerTime: Double?
    private var path: TransferPath?
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
    private var left: Int64 {
        unassigned.count + connections.values.reduce(0) { $0 + ($1.victim == nil ? max(0, $1.end - $1.position) : 0) }
    }

    // MARK: What has happened

    /// What is known of the way to the servers by now.
    mutating func learned(_ path: TransferPath) {
        let isLossy = path.isLossy || self.path?.isLossy ?? false
        self.path = TransferPath(roundTrip: min(path.roundTrip, self.path?.roundTrip ?? .infinity), isLossy: isLossy)
    }

    /// A response that is there already and brings all of `range`, which is taken from what waits.
    mutating func adopt(_ range: Range<Int64>, now: Double) -> Int {
        take(range)
        let id = add(range, victim: nil, now: now)
        connections[id]!.opened = now
        return id
    }

    /// The server agreed to send `length` bytes, at most what was asked for.
    mutating func opened(_ id: Int, length: Int64, now: Double) -> [Action] {
        guard var connection = connections[id] else { return [.drop(id: id)] }
        var actions: [Action] = []
        let asked = connection.position..<connection.end
        connection.end = connection.position + length
        connection.opened = now
        connection.lastByte = now
        answerTime = answerTime.map { ($0 + now - connection.asked) / 2 } ?? now - connection.asked
        let victim = connection.victim.take()
        connections[id] = connection
        if let victim {
            steals += 1
            actions.append(.shorten(id: victim, to: connection.position))
            cut(victim, for: asked)
        }
        unassigned.insert(connection.end..<asked.upperBound)
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
        var actions: [Action] = []
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
        while connections.count < limit {
            // The first one is always opened.
            let isExtra = !connections.isEmpty
            let isNew = connections.count >= proven
            if isExtra, isNew, !mayJoin(now) { break }
            guard let (range, victim) = nextPart(now) else { break }
            if isExtra, !mayOpen() { break }
            if victim == nil { take(range) }
            if isNew, trialBegun == nil { trialBegun = (now, speed, connections.count) }
            let id = add(range, victim: victim, now: now)
            actions.append(.open(id: id, range: range))
        }
        return actions
    }

    /// Whether one more connection than were ever open may be asked for.
    private func mayJoin(_ now: Double) -> Bool {
        let count = connections.count
        guard now >= closedUntil, connections.values.count(where: { !$0.isOpen }) < Self.mostUnanswered else {
            return false
        }
        if isFar { return count < planned }
        // As many as bring bytes, which doubles them.
        return count < 2 * connections.values.count { $0.firstByte != nil }
    }

    private var isFar: Bool { path.map { $0.roundTrip >= Self.far } ?? false }

    /// How many connections are to share what is left, where the way is far.
    private var planned: Int {
        let isLossy = path?.isLossy ?? false
        let most = Int(left / Self.worthALossyConnection)
        let wanted = isLossy ? most : max(Self.few, Int(left / Self.worthAConnection))
        return max(proven, min(limit, wanted, max(2, most)))
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

    // MARK: Parts

    /// What the next connection is to fetch, and whose that is.
    private func nextPart(_ now: Double) -> (range: Range<Int64>, victim: Int?)? {
        if let waiting = unassigned.intervals.max(by: { $0.count < $1.count }) { return (part(of: waiting), nil) }
        guard let (id, own) = victim(now), let victim = connections[id] else { return nil }
        let end = reach(of: id)
        let left = end - victim.position
        var split = victim.position + Int64(Double(left) * own)
        if isFar {
            if victim.isEndless {
                let share = isMature(victim, now) ? fairShare : self.left / Int64(4 * planned)
                split = max(split, end - max(share, Self.smallestPart))
            }
            // What it brings before the other's first byte would come twice.
            let meanwhile = (victim.speed ?? 0) * (answerTime ?? 2 * path!.roundTrip)
            split = max(split, victim.position + Int64(meanwhile))
        }
        if left > 4 * Self.alignment { split = (split + Self.alignment - 1) / Self.alignment * Self.alignment }
        guard end - split >= Self.smallestPart else { return nil }
        return (split..<end, id)
    }

    /// An equal share of what is left: so they end together, and none has to take from another that has asked for too much.
    private var fairShare: Int64 { left / Int64(max(proven, connections.count + 1)) }

    /// What waits is given out in shares; the first connection asks for all of it.
    private func part(of waiting: Range<Int64>) -> Range<Int64> {
        let share = max(fairShare, Self.smallestPart)
        guard !connections.isEmpty, Int64(waiting.count) - share >= Self.smallestPart else { return waiting }
        return waiting.lowerBound..<waiting.lowerBound + share
    }

    /// Whom to take from, and which part of what it has before it, it keeps.
    private func victim(_ now: Double) -> (id: Int, own: Double)? {
        let speeds = connections.values.compactMap(\.speed).sorted()
        let usual = speeds.isEmpty ? nil : speeds[speeds.count / 2]
        var best: (id: Int, own: Double, seconds: Double)?
        for (id, connection) in connections.sorted(by: { $0.key < $1.key }) where connection.isOpen {
            let left = reach(of: id) - connection.position
            let isYoung = isFar && !isMature(connection, now)
            // One that has just begun and has bytes for long is asked at once: what it brings by itself nobody knows yet.
            if isYoung, connection.isEndless {
                return left >= 2 * Self.smallestPart ? (id, 0.5) : nil
            }
            guard !isYoung, let speed = connection.speed, let usual else { continue }
            let seconds = Double(left) / max(speed, 1)
            // To take from one that asked for no more than its own bytes costs its connection.
            guard seconds > worthwhile * (isFar && connection.isEndless ? 0.5 : 1) else { continue }
            if seconds > best?.seconds ?? 0 { best = (id, speed / max(speed + usual, 1), seconds) }
        }
        return best.map { ($0.id, $0.own) }
    }

    /// How far it will come when all that others ask of it is granted.
    private func reach(of id: Int) -> Int64 {
        connections.values.reduce(connections[id]!.end) { $1.victim == id ? min($0, $1.position) : $0 }
    }

    private func isMature(_ connection: Connection, _ now: Double) -> Bool {
        guard let opened = connection.opened, connection.speed != nil else { return false }
        return now - opened >= Self.youth * (path?.roundTrip ?? 0)
    }

    private var worthwhile: Double {
        guard let answerTime else { return isFar ? 4 * path!.roundTrip : Self.worthwhile.unknown }
        return min(Self.worthwhile.most, max(isFar ? 0 : Self.worthwhile.least, 4 * answerTime))
    }

    private mutating func add(_ range: Range<Int64>, victim: Int?, now: Double) -> Int {
        lastID += 1
        connections[lastID] = Connection(
            position: range.lowerBound, end: range.upperBound, start: range.lowerBound, asked: now,
            isEndless: connections.isEmpty, victim: victim, lastByte: now, sampled: now)
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
