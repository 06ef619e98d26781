import HaulContract
package import HaulRedis

/// A field of `haul:{NAME}:defaults`: a value for jobs that do not give one themselves.
package struct QueueDefault: Sendable, Hashable {
    /// The name of a field of a job, or `base`.
    package let name: String

    /// The URL against which a job's relative `url` is resolved.
    package static let base = QueueDefault(unchecked: "base")

    private init(unchecked name: String) { self.name = name }

    /// nil if no default has this name.
    package init?(name: String) {
        guard name == "base" || JobField.byName[name]?.mayHaveDefault == true else { return nil }
        self.name = name
    }

    /// All defaults, in the order of the contract's table.
    package static let all = [base] + JobField.all.filter(\.mayHaveDefault).map { QueueDefault(unchecked: $0.name) }

    /// What a value must be, as the end of a sentence. Other values have no effect.
    package var rule: String {
        self == .base ? "must be a JSON text: an absolute http or https URL" : JobField.byName[name]!.rule
    }

    /// Whether a value, which is JSON, is valid for some kind of job.
    package func accepts(_ text: String) -> Bool {
        guard self == .base else { return JobField.byName[name]!.defaultValue(text) != nil }
        guard text.utf8.count <= JobField.maxDefaultBytes, let url = (try? JSON(text))?.string else { return false }
        return URLRule.accepts(url)
    }
}

extension Queue {
    /// Sets a default to a value, which is JSON; nil deletes it. It is used for jobs that are claimed from now on. The
    /// value is not checked.
    package func set(_ name: QueueDefault, to value: String?) async throws(RedisError) {
        guard partitions.isEmpty else {
            return try await changeAll { queue throws(RedisError) in try await queue.set(name, to: value) }
        }
        if let value {
            try await redis.send(Command("HSET", keys.defaults, name.name, value))
        } else {
            try await redis.send(Command("HDEL", keys.defaults, name.name))
        }
    }

    /// The hash of the queue's settings.
    package func settings() async throws(RedisError) -> [String: String] {
        guard partitions.isEmpty else {
            return try await each { queue throws(RedisError) in try await queue.settings() }
                .reduce(into: [:]) { $0.merge($1) { first, _ in first } }
        }
        return try await redis.send(Command("HGETALL", keys.settings)).dictionary
    }

    /// The hashes of the queue's settings, defaults and limits of hosts. If partitions differ, a field has the value of the
    /// first one that has it.
    package func configuration() async throws(RedisError) -> (
        settings: [String: String], defaults: [String: String], limits: [String: String]
    ) {
        guard partitions.isEmpty else {
            var joined: ([String: String], [String: String], [String: String]) = ([:], [:], [:])
            for one in try await each({ queue throws(RedisError) in try await queue.configuration() }) {
                joined.0.merge(one.settings) { first, _ in first }
                joined.1.merge(one.defaults) { first, _ in first }
                joined.2.merge(one.limits) { first, _ in first }
            }
            return joined
        }
        let replies = try await redis.pipeline([
            .command(Command("HGETALL", keys.settings)), .command(Command("HGETALL", keys.defaults)),
            .command(Command("HGETALL", keys.limits)),
        ])
        return (try replies[0].get().dictionary, try replies[1].get().dictionary, try replies[2].get().dictionary)
    }

    /// The settings, defaults and limits that are not the same in all partitions, sorted: a command was interrupted or
    /// could not reach all, or another client has written one partition by hand.
    package func differences() async throws(RedisError) -> [SettingDifference] {
        guard !partitions.isEmpty else { return [] }
        let all = try await each { part throws(RedisError) in
            let (settings, defaults, limits) = try await part.configuration()
            return ["settings": settings, "defaults": defaults, "limits": limits]
        }
        return ["settings", "defaults", "limits"].flatMap { hash in
            let fields = all.map { $0[hash] ?? [:] }
            return Set(fields.flatMap(\.keys)).sorted().compactMap { name in
                let values = fields.map { $0[name] }
                return Set(values).count > 1 ? SettingDifference(hash: hash, name: name, values: values) : nil
            }
        }
    }
}

/// A field that partitions of a queue do not agree about.
package struct SettingDifference: Sendable, Equatable {
    /// `settings`, `defaults` or `limits`.
    package let hash: String
    package let name: String
    /// The value in each partition; nil where it is not set.
    package let values: [String?]

    /// The name as the API has it.
    package var label: String { hash == "settings" || name == QueueDefault.base.name ? name : "\(hash).\(name)" }
}
