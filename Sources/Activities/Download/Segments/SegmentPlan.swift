import HaulContract
import HaulHTTP

/// Which connection fetches which bytes of one entity: it decides, and touches nothing. Times are in seconds.
///
/// Every missing byte belongs to one connection, or waits in `unassigned`. A connection that has nothing to do takes a part of
/// what waits, else of what another one has before it, from its end. The other one is shortened only when the server has
/// agreed to send that part, so a refusal costs nothing.
///
/// It has many properties because all of them are one decision's facts. What is known of a connection is in `Connection`, and
/// the rules' numbers are in `SegmentPlan+Rules.swift`.
struct SegmentPlan {
    enum Action: Equatable {
        /// Ask for these bytes on a new connection, or on one that waits for a question.
        case open(id: Int, range: Range<Int64>)
        /// Let a response end here: another connection has the rest.
        case shorten(id: Int, to: Int64)
        /// End this connection. Nothing more is told of it; what it has not fetched waits already.
        case drop(id: Int)
    }

    var unassigned: ByteIntervals
    var connections: [Int: Connection] = [:]
    var limit: Int
    /// Parts are cut at multiples of it, where there is enough left.
    let alignment: Int64
    /// The most connections that the servers were seen to bear: up to as many may ask again as soon as they have ended.
    var borne = 1
    var lastID = 0
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
    var farLimit = Self.few
    /// When the last newcomer was asked for, and when the last one joined.
    var lastAsk = -Double.infinity
    var lastJoin = 0.0
    /// The speed of all before the last connections joined, and when that was.
    private var trialBegun: (time: Double, speed: Double, count: Int)?

    /// - Parameters:
    ///   - missing: The bytes to be fetched.
    ///   - limit: The most connections at once.
    ///   - alignment: Parts are cut at multiples of it.
    init(missing: [Range<Int64>], limit: Int, alignment: Int64 = 1 << 20) {
        unassigned = ByteIntervals(missing)
        self.alignment = alignment
        self.limit = max(1, limit)
    }

    var isDone: Bool { unassigned.isEmpty && connections.isEmpty }

    var speed: Double { connections.values.reduce(0) { $0 + ($1.speed ?? 0) } }

    /// The bytes that are still to come.
    var left: Int64 {
        unassigned.count + connections.values.reduce(0) { $0 + ($1.owner == nil ? max(0, $1.end - $1.position) : 0) }
    }

    // MARK: What to do

    /// What to do now; to be asked after every change, and a few times a second. `mayOpen` is asked before each extra
    /// connection.
    mutating func actions(now: Double, mayOpen: () -> Bool = { true }) -> [Action] {
        var actions = givingUp(now)
        endTrial(now)
        raiseFarLimit(now)
        while connections.count < limit {
            // The first one is always opened.
            let isExtra = !connections.isEmpty
            let isNew = connections.count >= borne
            if isExtra, isNew, !mayJoin(now) { break }
            guard let (range, owner) = nextPart(now) else { break }
            if isExtra, !mayOpen() { break }
            if owner == nil { take(range) }
            if isNew {
                if trialBegun == nil { trialBegun = (now, speed, connections.count) }
                lastAsk = now
            }
            idle = max(0, idle - 1)
            let id = add(range, owner: owner, now: now)
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
            if connection.owner != nil {
                connections[id] = nil
            } else {
                actions += ended(id, at: connection.position, now: now)
            }
            actions.append(.drop(id: id))
        }
        return actions
    }

    /// Connections that add no speed have no successors: what is there is enough.
    private mutating func endTrial(_ now: Double) {
        guard let begun = trialBegun, now - begun.time >= Self.trial else { return }
        if connections.count > begun.count, speed < begun.speed * Self.gain { limit = connections.count }
        trialBegun = nil
    }
}
