import HaulBus
import HaulHTTP
import Synchronization

/// A worker's rate leases for a queue's rate limits: the queue's own, and those of hosts. One call requests all of them.
final class SharedRates: Sendable {
    private struct State {
        /// Grows with each call.
        var number = 0
        /// Shares of hosts with recent demand.
        var hosts: [String: SharedRate] = [:]
    }

    let queue = SharedRate()
    let hosts = HostBuckets()
    private let state = Mutex(State())

    /// The number of the next call. It grows each time that it is read.
    var number: Int {
        state.withLock { state in
            state.number += 1
            return state.number
        }
    }

    /// Notes which hosts have a limit.
    func limit(_ names: Set<String>) { hosts.limit(names) }

    /// The requests for rate leases. Empty while there is no limit.
    func ask() -> [RateLeaseRequest] {
        state.withLock { state in
            let limited = hosts.limited
            let names = Set(limited.map(\.host))
            state.hosts = state.hosts.filter { names.contains($0.key) }
            for (host, bucket) in limited where state.hosts[host] == nil {
                // A transfer waits for this bucket.
                if bucket.use().wasShort { state.hosts[host] = SharedRate(of: host, bucket) }
            }
            return [queue.ask()].compactMap(\.self)
                + state.hosts.sorted { $0.key < $1.key }.compactMap { $0.value.ask() }
        }
    }

    /// Applies the replies. True if a rate lease has shrunk, which is to be reported at once.
    func take(
        _ rateLeases: [String: RateLease], of requests: [RateLeaseRequest], sent: ContinuousClock.Instant,
        lease: Duration
    ) -> Bool {
        state.withLock { state in
            var hasShrunk = false
            for request in requests {
                let rate = request.name == queue.name ? queue : state.hosts[request.name]
                if request.wants == .none {
                    // The bucket was shut before this request.
                    if rateLeases[request.name] != nil { state.hosts[request.name] = nil }
                } else if rate?.take(rateLeases[request.name], sent: sent, lease: lease) == true {
                    hasShrunk = true
                }
            }
            return hasShrunk
        }
    }
}
