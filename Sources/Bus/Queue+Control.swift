import HaulContract
package import HaulRedis

/// What is wanted of a job.
package enum Request: String, Sendable {
    case paused, cancelled
    /// Resume, or retry what has ended.
    case running
    /// Cancel what has not ended, and forget it; `deleted` deletes the finished file as well.
    case removed, deleted
}

extension Queue {
    /// Leaves requests for jobs in any state, and wakes the workers. They are applied within a second by the next tick, and
    /// are for pushes that are no newer than `moment`, unix ms; now by Redis' clock where none is given.
    package func request(
        _ request: Request, of ids: [String], at moment: Int64? = nil
    ) async throws(RedisError) {
        let moment = if let moment { moment } else { try await self.moment() }
        for batch in stride(from: 0, to: ids.count, by: 500) {
            let ids = ids[batch..<min(batch + 500, ids.count)]
            let pairs = ids.flatMap { [$0, "\(request.rawValue) \(moment)"] }
            // First by itself: the other node of a cluster that it may have to be sent to again would take the messages.
            try await redis.send(Command(arguments: ["HSET", keys.want] + pairs))
            let hints = ids.map { Call.command(Command("PUBLISH", keys.control, $0)) }
            for reply in try await redis.pipeline(hints) { _ = try reply.get() }
        }
    }

    /// Sets or, with nil, takes out one of the queue's live settings.
    package func setSetting(_ name: String, to value: String?) async throws(RedisError) {
        if let value {
            try await redis.send(Command("HSET", keys.settings, name, value))
        } else {
            try await redis.send(Command("HDEL", keys.settings, name))
        }
    }
}
