import HaulContract
package import HaulRedis

/// A field of `haul:{NAME}:defaults`: what the queue's jobs have where they do not say it themselves.
package struct QueueDefault: Sendable, Hashable {
    /// The field of `haul:{NAME}:defaults`: that of a job, or `base`.
    package let name: String

    /// Against it a job's relative `url` is resolved.
    package static let base = QueueDefault(unchecked: "base")

    private init(unchecked name: String) { self.name = name }

    /// nil for what can have no default.
    package init?(name: String) {
        guard name == "base" || JobField.byName[name]?.mayHaveDefault == true else { return nil }
        self.name = name
    }

    /// All of them, in the order of the contract's table.
    package static let all = [base] + JobField.all.filter(\.mayHaveDefault).map { QueueDefault(unchecked: $0.name) }

    /// What a value must be; others have no effect.
    package var rule: String {
        self == .base ? "must be a JSON text: an absolute http or https URL" : JobField.byName[name]!.rule
    }

    /// Whether jobs of some kind may have this value, which is JSON.
    package func accepts(_ text: String) -> Bool {
        guard self == .base else { return JobField.byName[name]!.defaultValue(text) != nil }
        guard text.utf8.count <= JobField.largestDefault, let url = (try? JSON(text))?.string else { return false }
        return URLRule.accepts(url)
    }
}

extension Queue {
    /// Sets a default to a value, which is JSON, or, with nil, takes it out. It is for jobs that are claimed from now on.
    package func set(_ name: QueueDefault, to value: String?) async throws(RedisError) {
        if let value {
            try await redis.send(Command("HSET", keys.defaults, name.name, value))
        } else {
            try await redis.send(Command("HDEL", keys.defaults, name.name))
        }
    }

    /// What the queue's hash of settings holds.
    package func settings() async throws(RedisError) -> [String: String] {
        try await redis.send(Command("HGETALL", keys.settings)).dictionary
    }

    /// What the queue's hashes of settings, defaults and limits hold.
    package func configuration() async throws(RedisError) -> (
        settings: [String: String], defaults: [String: String], limits: [String: String]
    ) {
        let replies = try await redis.pipeline([
            .command(Command("HGETALL", keys.settings)), .command(Command("HGETALL", keys.defaults)),
            .command(Command("HGETALL", keys.limits)),
        ])
        return (try replies[0].get().dictionary, try replies[1].get().dictionary, try replies[2].get().dictionary)
    }
}
