import HaulContract
import HaulHTTP

/// Decides which connection fetches which bytes of one entity. It does no I/O. Times are in seconds.
///
/// Every missing byte belongs to one connection, or is in `unassigned`. An idle connection takes over a part of the
/// unassigned bytes. If there are none, it takes over the end of another connection's missing bytes. That connection,
/// the owner, is shortened only once the server has agreed to send the part, so a refusal costs nothing.
///
/// `Connection` is the state of one connection, and `SegmentPlan+Rules.swift` has the constants of the rules.
struct SegmentPlan {
    enum Action: Equatable {
        /// Request these bytes on a new connection, or on an idle one.
        case open(id: Int, range: Range<Int64>)
        /// End a response at this offset, because another connection fetches the rest.
        case shorten(id: Int, to: Int64)
        /// End this connection. It is no longer in the plan, and the bytes that it has not fetched are reassigned.
        case drop(id: Int)
    }

    var unassigned: ByteIntervals
    var connections: [Int: Connection] = [:]
    /// The maximum number of connections at once. It is lowered for HTTP/2, and when added connections did not help.
    var limit: Int
    /// An owner's bytes are split at a multiple of this, if more than four times as many bytes are missing.
    let alignment: Int64
    /// How many connections the servers are known to accept at once. Up to this number, `mayAddConnection` is not asked
    /// before a connection is opened.
    var acceptedCount = 1
    var lastID = 0
    /// Before this time, no connections are opened beyond `acceptedCount`, because a server has refused one.
    var noAddedConnectionBefore = 0.0
    /// The average time from a request to its response.
    var responseTime: Double?
    /// The shortest round trip that TCP has measured, and whether a connection has lost packets.
    var path: TransferPath?
    /// The average speed, in bytes per second, of connections that have ended. The first connection does not count,
    /// because it requests all bytes that are missing and not only a part.
    var endedPartSpeed: Double?
    /// The number of TCP connections that can be used for another request.
    var idleCount = 0
    /// When a byte was last seen to arrive on any connection.
    var lastByte = 0.0
    /// How often the bytes of a silent connection were requested again.
    var silentTakeovers = 0
    /// How many connections may share a wide-area path. It is doubled as long as they do not fill the link.
    var wideAreaLimit = Self.defaultWideAreaConnections
    /// When a connection beyond `acceptedCount` was last requested.
    var lastAddedRequest = -Double.infinity
    /// When a server last accepted such a connection.
    var lastAddedResponse = 0.0
    /// The trial that shows whether more connections help: when it began, and the total speed and number of connections
    /// before it.
    private var trialStart: (time: Double, speed: Double, count: Int)?

    /// - Parameters:
    ///   - missing: The bytes to be fetched.
    ///   - limit: The maximum number of connections at once.
    ///   - alignment: An owner's bytes are split at a multiple of this.
    init(missing: [Range<Int64>], limit: Int, alignment: Int64 = 1 << 20) {
        unassigned = ByteIntervals(missing)
        self.alignment = alignment
        self.limit = max(1, limit)
    }

    var isDone: Bool { unassigned.isEmpty && connections.isEmpty }

    var speed: Double { connections.values.reduce(0) { $0 + ($1.speed ?? 0) } }

    /// The bytes that are still missing.
    var missingCount: Int64 {
        unassigned.count + connections.values.reduce(0) { $0 + ($1.owner == nil ? max(0, $1.end - $1.position) : 0) }
    }

    // MARK: Actions

    /// The actions that are due. Must be called after every event, and a few times a second for the rules about time.
    ///
    /// - Parameter mayOpen: Called before each connection except the first. If it returns false, none is opened.
    mutating func actions(now: Double, mayOpen: () -> Bool = { true }) -> [Action] {
        var actions = dropSilent(now)
        endTrial(now)
        raiseWideAreaLimit(now)
        while connections.count < limit {
            // The first connection needs no permission: without it the download would not go on.
            let isExtra = !connections.isEmpty
            let isNew = connections.count >= acceptedCount
            if isExtra, isNew, !mayAddConnection(now) { break }
            guard let (range, owner) = nextPart(now) else { break }
            if isExtra, !mayOpen() { break }
            if owner == nil { removeFromUnassigned(range) }
            if let owner, isSilent(connections[owner]!, now) { silentTakeovers += 1 }
            if isNew {
                if trialStart == nil { trialStart = (now, speed, connections.count) }
                lastAddedRequest = now
            }
            idleCount = max(0, idleCount - 1)
            let id = add(range, owner: owner, now: now)
            actions.append(.open(id: id, range: range))
        }
        return actions
    }

    /// Drops connections that receive nothing while others do.
    private mutating func dropSilent(_ now: Double) -> [Action] {
        guard connections.values.contains(where: { now - $0.lastByte < Self.trialTime }) else { return [] }
        var actions: [Action] = []
        for (id, connection) in connections.sorted(by: { $0.key < $1.key })
        where connections.count > 1 && now - connection.lastByte > Self.maxSilence {
            if connection.owner != nil {
                connections[id] = nil
            } else {
                actions += ended(id, at: connection.position, now: now)
            }
            actions.append(.drop(id: id))
        }
        return actions
    }

    /// Ends a trial after `trialTime` seconds. Unless the added connections have increased the speed by the factor
    /// `minSpeedup`, no more are opened.
    private mutating func endTrial(_ now: Double) {
        guard let begun = trialStart, now - begun.time >= Self.trialTime else { return }
        if connections.count > begun.count, speed < begun.speed * Self.minSpeedup { limit = connections.count }
        trialStart = nil
    }
}
