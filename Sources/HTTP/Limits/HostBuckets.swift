import HaulContract
import Synchronization

/// The token buckets of hosts: of those that have a rate limit, and of those that may get one during a transfer.
package final class HostBuckets: Sendable {
    private struct Weak {
        weak var bucket: TokenBucket?
    }

    private struct State {
        /// The names that have a limit: hosts, or hosts with a port.
        var limited: Set<String> = []
        var buckets: [String: Weak] = [:]
        /// At this number of entries, those that are not in use are removed.
        var maxBuckets = 64
    }

    private let state = Mutex(State())

    package init() {}

    /// The bucket for transfers from and to this URL's host. A limit of the host with its port takes precedence over a
    /// limit of the host.
    package func bucket(for url: WebURL) -> TokenBucket { bucket(host: url.host, port: url.hostAndPort) }

    /// The bucket of something else that has a rate limit, such as a group of jobs.
    package func bucket(named name: String) -> TokenBucket { bucket(host: name, port: name) }

    func bucket(host: String, port: String) -> TokenBucket {
        state.withLock { state in
            let name = state.limited.contains(port) ? port : host
            if let bucket = state.buckets[name]?.bucket { return bucket }
            if state.buckets.count >= state.maxBuckets {
                state.buckets = state.buckets.filter { $0.value.bucket != nil }
                state.maxBuckets = max(64, 2 * state.buckets.count)
            }
            let bucket = TokenBucket()
            if state.limited.contains(name) { bucket.close() }
            state.buckets[name] = Weak(bucket: bucket)
            return bucket
        }
    }

    /// Sets the hosts that have a limit from now on. Newly limited buckets are closed until a rate lease is granted.
    /// All other buckets are open.
    package func limit(_ hosts: Set<String>) {
        state.withLock { state in
            for name in hosts.subtracting(state.limited) { state.buckets[name]?.bucket?.close() }
            // This includes a bucket for which a late reply has granted a rate lease.
            for (name, entry) in state.buckets where !hosts.contains(name) && entry.bucket?.isUnlimited == false {
                entry.bucket?.removeLimit()
            }
            state.limited = hosts
        }
    }

    /// The buckets of limited hosts that are in use by a transfer or held by another owner.
    package var limited: [(host: String, bucket: TokenBucket)] {
        state.withLock { state in
            state.limited.compactMap { name in state.buckets[name]?.bucket.map { (name, $0) } }
        }
    }
}
