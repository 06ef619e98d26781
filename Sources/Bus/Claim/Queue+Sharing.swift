import HaulContract
package import HaulRedis

/// A worker's request for a rate lease, its part of a rate limit.
package struct RateLeaseRequest: Sendable {
    package enum Wants: Sendable, Equatable {
        /// As much as there is.
        case all
        /// So many bytes per second.
        case some(Int64)
        /// Nothing, which returns the lease.
        case none
    }

    /// The name of the queue's own limit.
    package static let ofQueue = "*"

    /// The host that has the limit, perhaps with a port, or `ofQueue`.
    package var name: String
    /// The rate that the worker uses at most now, in bytes per second.
    package var keeps: Int64
    /// The rate that the worker could use.
    package var wants: Wants

    package init(_ name: String = RateLeaseRequest.ofQueue, keeps: Int64, wants: Wants) {
        (self.name, self.keeps, self.wants) = (name, keeps, wants)
    }
}

/// What a worker may use of a rate limit until its lease ends.
package struct RateLease: Sendable, Equatable {
    package let bytesPerSecond: Int64
    /// The leased rate is less than the worker uses now. Other workers get the rest once this worker reports that it
    /// uses no more than its lease.
    package let isSmaller: Bool
}

extension Queue {
    /// Requests leases of rate limits.
    ///
    /// - Parameter number: Grows with each call of this process. Redis ignores a request with an older number.
    /// - Returns: The leases by the names of the limits. A limit that does not exist, or a request that was ignored,
    ///   has none.
    package func leaseRates(
        _ worker: WorkerIdentity, number: Int, _ requests: [RateLeaseRequest]
    ) async throws(RedisError) -> [String: RateLease] {
        var arguments: [any RedisArgument] = [
            Token.make(), worker.name, worker.instance, number, policy.lease.milliseconds,
        ]
        for request in requests {
            arguments += [request.name, String(request.keeps)]
            switch request.wants {
            case .all: arguments.append("all")
            case .some(let wants): arguments.append(String(wants))
            case .none: arguments.append("none")
            }
        }
        let reply = try await redis.run(functions.leaseRates, keys: keys.given(to: worker.name), arguments: arguments)
        let texts = (reply.array ?? []).map { $0.string ?? "" }
        var leases: [String: RateLease] = [:]
        for index in stride(from: 0, to: texts.count - 2, by: 3) {
            guard let rate = Int64(texts[index + 1]) else { continue }
            leases[texts[index]] = RateLease(bytesPerSecond: rate, isSmaller: texts[index + 2] == "1")
        }
        return leases
    }
}
