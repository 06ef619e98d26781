import HaulContract
package import HaulRedis

/// A worker's request for a rate lease, which is its part of a rate limit.
package struct RateLeaseRequest: Sendable {
    package enum Demand: Sendable, Equatable {
        /// As much as is available.
        case unlimited
        /// At most this rate.
        case bytesPerSecond(Int64)
        /// No lease. One that the worker has is returned.
        case nothing
    }

    /// The name that stands for the limit of the queue itself.
    package static let queueLimit = "*"

    /// The host whose limit it is, with a port if the limit has one, or `queueLimit`.
    package var name: String
    /// The limit now, in bytes per second. Redis uses it if the limit depends on the time of day.
    package var limit: Int64?
    /// The rate to which the worker limits itself now, in bytes per second.
    package var inUse: Int64
    /// The rate that the worker could use if there were no limit.
    package var demand: Demand

    package init(
        _ name: String = RateLeaseRequest.queueLimit, limit: Int64? = nil, inUse: Int64, demand: Demand
    ) {
        (self.name, self.limit, self.inUse, self.demand) = (name, limit, inUse, demand)
    }
}

/// The part of a rate limit that a worker may use until its lease ends.
package struct RateLease: Sendable, Equatable {
    package let bytesPerSecond: Int64
    /// The rate is lower than the worker's `inUse`. Other workers get the difference once this worker has reported that
    /// it uses no more than its lease.
    package let isBelowUse: Bool
}

extension Queue {
    /// Requests leases of rate limits.
    ///
    /// - Parameter number: Increases with each call of this process. Redis ignores a call with an older number.
    /// - Returns: The leases by the names of their limits. There is none for a limit that does not exist, and none at
    ///   all if the call was ignored.
    package func leaseRates(
        _ worker: WorkerIdentity, number: Int, _ requests: [RateLeaseRequest]
    ) async throws(RedisError) -> [String: RateLease] {
        var leases: [String: RateLease] = [:]
        // For each limit Redis reads what all workers use, and serves no other client meanwhile.
        for part in requests.chunks(ofCount: 32) {
            leases.merge(try await leaseSomeRates(worker, number: number, part)) { $1 }
        }
        return leases
    }

    private func leaseSomeRates(
        _ worker: WorkerIdentity, number: Int, _ requests: some Collection<RateLeaseRequest>
    ) async throws(RedisError) -> [String: RateLease] {
        var arguments: [any RedisArgument] = [
            Token.make(), worker.name, worker.instance, number, policy.lease.milliseconds,
        ]
        for request in requests {
            arguments += [request.name, request.limit.map(String.init) ?? "", String(request.inUse)]
            switch request.demand {
            case .unlimited: arguments.append("all")
            case .bytesPerSecond(let rate): arguments.append(String(rate))
            case .nothing: arguments.append("none")
            }
        }
        let reply = try await redis.run(
            functions.leaseRates, keys: keys.functionKeys(for: worker.name), arguments: arguments)
        let texts = (reply.array ?? []).map { $0.string ?? "" }
        var leases: [String: RateLease] = [:]
        for index in stride(from: 0, to: texts.count - 2, by: 3) {
            guard let rate = Int64(texts[index + 1]) else { continue }
            leases[texts[index]] = RateLease(bytesPerSecond: rate, isBelowUse: texts[index + 2] == "1")
        }
        return leases
    }
}
