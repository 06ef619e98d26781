import HaulContract
import HaulHTTP

/// Decides which connection fetches which bytes of one entity. It does no I/O. Times are in seconds.
///
/// Every missing byte belongs to one connection, or is in `unassigned`. An idle connection takes a part of the
/// unassigned bytes, or else a part of the missing bytes of another connection (the owner), from their end. The owner
/// is shortened only once the server has agreed to send that part, so a refusal costs nothing.
///
/// `Connection` has what is known about one connection, and `SegmentPlan+Rules.swift` has the constants of the rules.
struct SegmentPlan {
    enum Action: Equatable {
        /// Request these bytes on a new connection, or on an idle one.
        case open(id: Int, range: Range<Int64>)
        /// End a response at this offset: another connection has the rest.
        case shorten(id: Int, to: Int64)
        /// End this connection. The plan has forgotten it; the bytes that it has not fetched are reassigned already.
        case drop(id: Int)
    }

    var unassigned: ByteIntervals
    var connections: [Int: Connection] = [:]
    var limit: Int
    /// Parts are cut at multiples of it, if enough bytes are left.
    let alignment: Int64
    /// How many connections the servers are known to accept. When one of these has ended, another is opened at once.
    var acceptedCount = 1
    var lastID = 0
    /// No further connections are opened before this time.
    var closedUntil = 0.0
    /// The time from a request to its response, on average.
    var responseTime: Double?
    var path: TransferPath?
    /// The average speed of connections that have ended and had requested only a part: bytes per second.
    var pace: Double?
    /// TCP connections that are free for another request.
    var idle = 0
    /// How many connections may share a far path as long as no queue builds up.
    var farLimit = Self.few
    /// When the last further connection was opened, and when the last one joined.
    var lastOpening = -Double.infinity
    var lastJoin = 0.0
    /// When the last connections began to join, and the total speed and number of connections at that time.
    private var trialBegun: (time: Double, speed: Double, count: Int)?

    /// - Parameters:
    ///   - missing: The bytes to be fetched.
    ///   - limit: The maximum number of connections at once.
    ///   - alignment: Parts are cut at multiples of it.
    init(missing: [Range<Int64>], limit: Int, alignment: Int64 = 1 << 20) {
        unassigned = ByteIntervals(missing)
        self.alignment = alignment
        self.limit = max(1, limit)
    }

    var isDone: Bool { unassigned.isEmpty && connections.isEmpty }

    var speed: Double { connections.values.reduce(0) { $0 + ($1.speed ?? 0) } }

    /// The bytes that are still missing.
    var left: Int64 {
        unassigned.count + connections.values.reduce(0) { $0 + ($1.owner == nil ? max(0, $1.end - $1.position) : 0) }
    }

    // MARK: What to do

    /// What to do now. Must be called after every change, and a few times a second.
    ///
    /// - Parameter mayOpen: Called before each extra connection; false forbids it.
    mutating func actions(now: Double, mayOpen: () -> Bool = { true }) -> [Action] {
        var actions = givingUp(now)
        endTrial(now)
        raiseFarLimit(now)
        while connections.count < limit {
            // The first one is always opened.
            let isExtra = !connections.isEmpty
            let isNew = connections.count >= acceptedCount
            if isExtra, isNew, !mayJoin(now) { break }
            guard let (range, owner) = nextPart(now) else { break }
            if isExtra, !mayOpen() { break }
            if owner == nil { take(range) }
            if isNew {
                if trialBegun == nil { trialBegun = (now, speed, connections.count) }
                lastOpening = now
            }
            idle = max(0, idle - 1)
            let id = add(range, owner: owner, now: now)
            actions.append(.open(id: id, range: range))
        }
        return actions
    }

    /// Drops connections that receive nothing while others do.
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

    /// If the last connections have added no speed, no more are opened.
    private mutating func endTrial(_ now: Double) {
        guard let begun = trialBegun, now - begun.time >= Self.trial else { return }
        if connections.count > begun.count, speed < begun.speed * Self.gain { limit = connections.count }
        trialBegun = nil
    }
}
