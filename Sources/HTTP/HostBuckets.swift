import HaulContract
import Synchronization

/// The buckets of hosts that have a limit of rate, and of those that may get one while something is transferred.
package final class HostBuckets: Sendable {
    private struct Weak {
        weak var bucket: TokenBucket?
    }

    private struct State {
        /// Hosts, perhaps with a port.
        var limited: Set<String> = []
        var buckets: [String: Weak] = [:]
        /// As many entries as are looked through for those that nobody uses.
        var mostBuckets = 64
    }

    private let state = Mutex(State())

    package init() {}

    /// What is transferred from and to this URL's host obeys it. A limit of the host and port comes before one of the host.
    package func bucket(for url: WebURL) -> TokenBucket { bucket(host: url.host, port: url.hostAndPort) }

    func bucket(host: String, port: String) -> TokenBucket {
        state.withLock { state in
            let name = state.limited.contains(port) ? port : host
            if let bucket = state.buckets[name]?.bucket { return bucket }
            if state.buckets.count >= state.mostBuckets {
                state.buckets = state.buckets.filter { $0.value.bucket != nil }
                state.mostBuckets = max(64, 2 * state.buckets.count)
            }
            let bucket = TokenBucket()
            if state.limited.contains(name) { bucket.shut() }
            state.buckets[name] = Weak(bucket: bucket)
            return bucket
        }
    }

    /// From now on these hosts have a limit: their buckets are shut until a share is lent. Those of all others are open.
    package func limit(_ hosts: Set<String>) {
        state.withLock { state in
            for name in hosts.subtracting(state.limited) { state.buckets[name]?.bucket?.shut() }
            // Also one to which a late answer has lent something.
            for (name, entry) in state.buckets where !hosts.contains(name) && entry.bucket?.isUnlimited == false {
                entry.bucket?.lift()
            }
            state.limited = hosts
        }
    }

    /// The buckets of limited hosts that something is transferred with, or that are kept.
    package var limited: [(host: String, bucket: TokenBucket)] {
        state.withLock { state in
            state.limited.compactMap { name in state.buckets[name]?.bucket.map { (name, $0) } }
        }
    }
}
