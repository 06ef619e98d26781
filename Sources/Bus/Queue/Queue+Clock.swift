import HaulContract
package import HaulRedis
import Synchronization

extension Queue {
    /// What this process has dated, by the server and the queue or partition.
    private static let orders = Mutex<[String: TimestampOrder]>([:])

    /// The time by Redis' clock, unix ms, as the timestamp of a push or a control operation. It is never ahead of that
    /// clock, because Redis dates nothing later than now. Calls of one job that follow each other in this process are in
    /// the order of their timestamps; a call that would not be waits for the next millisecond. So are those of several
    /// processes, if a millisecond has passed between an operation and the push that follows it.
    package func timestamp(of call: DatedCall) async throws(RedisError) -> Int64 {
        assert(partitions.isEmpty, "each partition has the clock of its own server")
        let key = "\(redis.url.redacted) \(name)"
        while true {
            let latest = Self.orders.withLock { $0[key]?.latest ?? 0 }
            let now = try await time()
            let wait = Self.orders.withLock {
                $0[key, default: TimestampOrder()].wait(of: call, at: now, after: latest)
            }
            guard wait > 0 else { return now }
            do { try await Task.sleep(for: .milliseconds(wait)) } catch {
                throw RedisError(.cancelled, "the call was cancelled")
            }
        }
    }

    /// The time by Redis' clock, unix ms.
    package func time() async throws(RedisError) -> Int64 {
        try Self.milliseconds(await redis.send(Command("TIME")))
    }

    /// Connects if there is no connection, and waits for a reply.
    package func ping() async throws(RedisError) { try await redis.send(Command("PING")) }

    /// Unix ms, from a reply to TIME.
    static func milliseconds(_ reply: RedisValue) throws(RedisError) -> Int64 {
        guard let parts = reply.array, parts.count == 2, let seconds = parts[0].int, let microseconds = parts[1].int
        else { throw RedisError(.reply, "TIME returned \(reply)") }
        return Int64(seconds) * 1000 + Int64(microseconds) / 1000
    }
}

/// What gets a timestamp.
package enum DatedCall: Sendable {
    /// A push of the jobs of these ids, or a run of the schedule of this name.
    case push([String])
    /// A control operation.
    case operation
}

/// The timestamps that a process has given out, which says whether a call may have the time at which it asks.
///
/// Of a push and an operation with the same timestamp the operation is the newer one. So any number of operations may
/// follow pushes and each other within a millisecond. A push has to wait for the next one if an operation has this one,
/// or a push of the same job. Thousands of pushes of different jobs share milliseconds.
struct TimestampOrder: Sendable {
    private struct Millisecond {
        var pushed: Set<String> = []
        /// Whether no further push may have this time.
        var isClosed = false
    }

    /// A longer push closes its millisecond, because it takes longer than that anyway. So its ids are not kept.
    private static let maxPushed = 100
    /// How many milliseconds are kept, because the replies to two calls may be read in another order.
    private static let maxKept = 50
    /// A clock that is behind by so many ms is not waited for. It is another server's.
    private static let maxBehind: Int64 = 1000

    private(set) var latest: Int64 = 0
    private var recent: [Int64: Millisecond] = [:]
    /// Until when nothing is kept.
    private var forgotten: Int64 = 0

    /// How long a call has to wait before it asks again, ms. 0 if it gets the time `now`.
    ///
    /// - Parameter earlier: The latest timestamp when the call asked for the time. What has one was dated before this call
    ///   began, or at the same time.
    mutating func wait(of call: DatedCall, at now: Int64, after earlier: Int64) -> Int64 {
        // A failover may have led to a server whose clock is behind.
        let behind = earlier - now
        if behind >= Self.maxBehind { self = TimestampOrder() } else if behind > 0 { return behind }
        var millisecond = recent[now] ?? Millisecond(isClosed: now <= forgotten)
        switch call {
        case .operation: millisecond.isClosed = true
        case .push(let ids):
            guard !millisecond.isClosed, millisecond.pushed.isDisjoint(with: ids) else { return 1 }
            if ids.count > Self.maxPushed { millisecond.isClosed = true } else { millisecond.pushed.formUnion(ids) }
        }
        latest = max(latest, now)
        if now > forgotten { recent[now] = millisecond }
        if recent.count > Self.maxKept {
            forgotten = latest - Int64(Self.maxKept / 2)
            recent = recent.filter { $0.key > forgotten }
        }
        return 0
    }
}
