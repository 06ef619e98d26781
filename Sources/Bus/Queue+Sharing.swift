import HaulContract
package import HaulRedis

/// What a worker asks of a limit of rate.
package struct ShareQuestion: Sendable {
    package enum Wants: Sendable, Equatable {
        /// All there is.
        case all
        /// So many bytes per second.
        case some(Int64)
        /// Nothing: the share comes back.
        case none
    }

    /// The limit that is not of a host.
    package static let ofQueue = "*"

    /// The host whose limit it is, perhaps with a port, or `ofQueue`.
    package var name: String
    /// What the worker keeps to now, in bytes per second.
    package var keeps: Int64
    /// What it could use.
    package var wants: Wants

    package init(_ name: String = ShareQuestion.ofQueue, keeps: Int64, wants: Wants) {
        (self.name, self.keeps, self.wants) = (name, keeps, wants)
    }
}

/// What a worker may use of a limit of rate until its lease is over.
package struct RateShare: Sendable, Equatable {
    package let bytesPerSecond: Int64
    /// It is less than the worker keeps to. Others may have the rest once it says that it keeps to this.
    package let isSmaller: Bool
}

extension Queue {
    /// Asks for shares. The number grows with each call of a process. What is no limit, or was asked again since, has no share.
    package func shares(
        _ worker: WorkerIdentity, number: Int, _ questions: [ShareQuestion]
    ) async throws(RedisError) -> [String: RateShare] {
        var arguments: [any RedisArgument] = [
            Token.make(), worker.name, worker.instance, number, policy.lease.milliseconds,
        ]
        for question in questions {
            arguments += [question.name, String(question.keeps)]
            switch question.wants {
            case .all: arguments.append("all")
            case .some(let wants): arguments.append(String(wants))
            case .none: arguments.append("none")
            }
        }
        let reply = try await redis.run(functions.share, keys: keys.given(to: worker.name), arguments: arguments)
        let texts = (reply.array ?? []).map { $0.string ?? "" }
        var shares: [String: RateShare] = [:]
        for index in stride(from: 0, to: texts.count - 2, by: 3) {
            guard let share = Int64(texts[index + 1]) else { continue }
            shares[texts[index]] = RateShare(bytesPerSecond: share, isSmaller: texts[index + 2] == "1")
        }
        return shares
    }
}
