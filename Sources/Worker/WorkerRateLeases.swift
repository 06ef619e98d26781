import HaulBus
import HaulContract
import HaulHTTP
import HaulRedis
import Synchronization

/// A worker's rate leases for a queue's rate limits: the queue's own, and those of hosts. One call requests all of them.
final class WorkerRateLeases: Sendable {
    /// The bucket for the limit of the queue itself.
    let bucket = TokenBucket()
    let hosts = HostBuckets()
    /// The limits now, in bytes per second, by their names.
    var limits: [String: Int64] { state.withLock { $0 } }
    private let state = Mutex<[String: Int64]>([:])

    /// Records the limits that hold at a time, as each tick says. So limits by the time of day change within a second.
    ///
    /// - Parameter time: By Redis' clock, because all workers must change at the same time. Unix seconds.
    func limit(queue: RateSchedule?, hosts rates: [String: RateSchedule], at time: Int64) {
        var now = rates.compactMapValues { $0.rate(at: time) }
        hosts.limit(Set(now.keys))
        now[RateLeaseRequest.queueLimit] = queue?.rate(at: time)
        state.withLock { [now] in $0 = now }
    }

    /// Requests this worker's rate leases while there are rate limits, until the task is cancelled. Each request also
    /// reports the rate that the worker uses.
    func run(_ queue: Queue, as claims: Claims, _ redisErrors: RedisErrorHandler) async {
        var (rates, number): ([String: WorkerRateLease], Int) = ([:], 0)
        while !Task.isCancelled {
            let sent = ContinuousClock.now
            let requests = makeRequests(&rates)
            if requests.isEmpty {
                try? await Task.sleep(for: WorkerRateLease.interval)
                continue
            }
            number += 1
            do throws(RedisError) {
                let leases = try await queue.leaseRates(claims.identity, number: number, requests)
                // If a rate lease has shrunk, report that at once, because other workers wait for the rest.
                if Self.apply(leases, of: requests, sent: sent, lease: queue.policy.lease, &rates) { continue }
                try? await Task.sleep(for: WorkerRateLease.interval)
            } catch {
                await redisErrors.pause(after: error, while: .ticking)
            }
        }
    }

    /// The requests for rate leases. Empty while there is no limit.
    private func makeRequests(_ rates: inout [String: WorkerRateLease]) -> [RateLeaseRequest] {
        let own = RateLeaseRequest.queueLimit
        let limits = limits
        var limited = Dictionary(uniqueKeysWithValues: hosts.limited.map { ($0.host, $0.bucket) })
        if limits[own] != nil {
            limited[own] = bucket
        } else if rates[own] != nil {
            bucket.removeLimit()
        }
        rates = rates.filter { limited[$0.key] != nil }
        for (name, bucket) in limited where rates[name] == nil {
            // A host's rate lease is requested once a transfer waits for its bucket.
            if name == own || bucket.use().wasShort { rates[name] = WorkerRateLease(name, bucket) }
        }
        return rates.keys.sorted().compactMap { name in
            var request = rates[name]?.makeRequest()
            request?.limit = limits[name]
            return request
        }
    }

    /// Applies the replies. True if a rate lease has shrunk, which is to be reported at once.
    private static func apply(
        _ leases: [String: RateLease], of requests: [RateLeaseRequest], sent: ContinuousClock.Instant, lease: Duration,
        _ rates: inout [String: WorkerRateLease]
    ) -> Bool {
        var hasShrunk = false
        for request in requests {
            if request.demand == .nothing {
                // The bucket was closed before this request.
                if leases[request.name] != nil { rates[request.name] = nil }
            } else if rates[request.name]?.apply(leases[request.name], sent: sent, lease: lease) == true {
                hasShrunk = true
            }
        }
        return hasShrunk
    }
}
