import HaulContract
package import HaulRedis

/// A worker's question for a share of a limit of rate.
package struct RateLeaseRequest: Sendable {
    package enum Wants: Sendable, Equatable {
        /// As much as there is.
        case all
        /// So many bytes per second.
        case some(Int64)
        /// Nothing. The share goes back.
        case none
    }

    /// The name of the queue's own limit.
    package static let ofQueue = "*"

    /// The host that has the limit, perhaps with a port, or `ofQueue`.
    package var name: String
    /// The rate that the worker keeps to now, in bytes per second.
    package var keeps: Int64
    /// The rate that the worker could use.
    package var wants: Wants

    package init(_ name: String = RateLeaseRequest.ofQueue, keeps: Int64, wants: Wants) {
        (self.name, self.keeps, self.wants) = (name, keeps, wants)
    }
}

/// What a worker may use of a limit of rate until its lease is over.
package struct RateLease: Sendable, Equatable {
    package let bytesPerSecond: Int64
    /// The share is less than the worker keeps to now. Other workers get the rest once this worker reports that it
    /// keeps to the share.
    package let isSmaller: Bool
}

extension Queue {
    /// Asks for shares of limits of rate.
    ///
    /// - Parameter number: Grows with each call of this process. Redis ignores a question with an older number.
    /// - Returns: The shares by the names of the limits. A limit that does not exist, or a question that was ignored,
    ///   has none.
    package func shares(
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
        var shares: [String: RateLease] = [:]
        for index in stride(from: 0, to: texts.count - 2, by: 3) {
            guard let share = Int64(texts[index + 1]) else { continue }
            shares[texts[index]] = RateLease(bytesPerSecond: share, isSmaller: texts[index + 2] == "1")
        }
        return shares
    }
}
