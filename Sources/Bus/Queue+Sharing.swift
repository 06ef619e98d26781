import HaulContract
package import HaulRedis

/// What a worker asks of the queue's limit of rate.
package struct ShareQuestion: Sendable {
    /// Grows with each question of a process.
    package var number: Int
    /// What it keeps to now, in bytes per second.
    package var keeps: Int64
    /// What it could use; nil: all there is.
    package var wants: Int64?

    package init(number: Int, keeps: Int64, wants: Int64?) {
        (self.number, self.keeps, self.wants) = (number, keeps, wants)
    }
}

/// What a worker may use of the queue's limit of rate until its lease is over.
package struct RateShare: Sendable, Equatable {
    package let bytesPerSecond: Int64
    /// It is less than the worker keeps to. Others may have the rest once it says that it keeps to this.
    package let isSmaller: Bool
}

extension Queue {
    /// Asks for a share; nil: there is no limit, or a later question has been here.
    package func share(_ worker: WorkerIdentity, _ question: ShareQuestion) async throws(RedisError) -> RateShare? {
        let reply = try await redis.run(
            functions.share, keys: keys.given(to: worker.name),
            arguments: [
                Token.make(), worker.name, worker.instance, question.number, policy.lease.milliseconds,
                String(question.keeps),
                question.wants.map(String.init) ?? "all",
            ])
        let members = reply.members
        guard let share = members["share"]?.string.flatMap({ Int64($0) }) else { return nil }
        return RateShare(bytesPerSecond: share, isSmaller: members["shrinks"] != nil)
    }
}
