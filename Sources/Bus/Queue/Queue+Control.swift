import HaulContract
package import HaulRedis

/// What an operator wants to happen to a job.
package enum ControlOperation: String, Sendable {
    case paused, cancelled
    /// Resume a paused job, or retry a failed one.
    case running
    /// Cancel a job that has not ended, and forget it. `deleted` also deletes the finished file.
    case removed, deleted
}

extension Queue {
    /// Writes operations for jobs in any state, and notifies the workers. The next tick of a worker applies them,
    /// within a second.
    ///
    /// - Parameter timestamp: The operations stop pushes that are not newer, unix ms; nil: now, by Redis' clock.
    /// - Returns: That timestamp.
    @discardableResult package func request(
        _ request: ControlOperation, of ids: [String], at timestamp: Int64? = nil
    ) async throws(RedisError) -> Int64 {
        let timestamp = if let timestamp { timestamp } else { try await self.timestamp() }
        for batch in stride(from: 0, to: ids.count, by: 500) {
            let ids = ids[batch..<min(batch + 500, ids.count)]
            let pairs = ids.flatMap { [$0, "\(request.rawValue) \(timestamp)"] }
            // In a call of its own. A pipeline follows a slot to another node only if all its commands are redirected,
            // and any node accepts PUBLISH.
            try await redis.send(Command(arguments: ["HSET", keys.want] + pairs))
            let hints = ids.map { Call.command(Command("PUBLISH", keys.control, $0)) }
            for reply in try await redis.pipeline(hints) { _ = try reply.get() }
        }
        return timestamp
    }

    /// Sets a field of the queue's settings; nil deletes it. The value is not checked.
    package func setSetting(_ name: String, to value: String?) async throws(RedisError) {
        if let value {
            try await redis.send(Command("HSET", keys.settings, name, value))
        } else {
            try await redis.send(Command("HDEL", keys.settings, name))
        }
    }
}
