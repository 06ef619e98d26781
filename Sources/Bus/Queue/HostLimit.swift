package import HaulContract
package import HaulRedis

/// A field of `haul:{NAME}:limits`: the limits that the whole fleet obeys for one host or one group.
package enum HostLimit {
    static let maxCount = 1_000_000

    /// Whether a text is a host in lower case, as in URLs, perhaps with a port.
    package static func isHost(_ text: String) -> Bool {
        text == text.lowercased() && URLRule.accepts("http://\(text)") && !text.contains("@") && !text.contains("/")
            && !text.contains("?") && !text.contains("#")
    }

    /// Whether the hash may have a field of this name: a host, or a group as `group:acme`.
    package static func isName(_ text: String) -> Bool { group(text) != nil || isHost(text) }

    package static let nameRule =
        "a host name in lower case, optionally with a port, or group: and the name of a group"

    /// The name of the group whose limits a field has: `group:acme`. nil for a host.
    package static func group(_ name: String) -> String? {
        guard name.hasPrefix("group:") else { return nil }
        let group = String(name.dropFirst(6))
        return JobField.isID(group) ? group : nil
    }

    /// The name of the field with the limits of a group.
    package static func name(ofGroup group: String) -> String { "group:" + group }

    /// The rule for the value of a field of this name.
    package static func rule(of name: String) -> String {
        let jobs = group(name) == nil ? "connections" : "running"
        return "must be a JSON object like {\"\(jobs)\":4,\"starts\":\"10/s\"}; "
            + "\(jobs) is a whole number from 0 to \(maxCount), starts "
            + "\(StartLimit.rule); max_seconds, min_speed and max_bytes are whole numbers, 1 or more; rate \(QueueSetting.rate.rule)"
    }

    package static func accepts(_ value: String, of name: String = "h") -> Bool { faults(of: name, value).isEmpty }

    /// What is wrong with a field of the hash and its value, as ends of sentences; empty if nothing is.
    package static func faults(of host: String, _ value: String) -> [String] {
        var faults: [String] = []
        let isGroup = group(host) != nil
        if !isGroup, !isHost(host) {
            faults.append("must be \(nameRule)")
        }
        guard let members = (try? JSON(value))?.members else {
            return faults + [
                "must be a JSON object like {\"\(isGroup ? "running" : "connections")\":4}, not \(value.prefix(100))"
            ]
        }
        return faults + members.compactMap { fault(of: $0, isGroup: isGroup) }
    }

    private static func positive(_ value: JSON) -> Int64? {
        value.integer.flatMap { 1...99_999_999_999_999 ~= $0 ? $0 : nil }
    }

    /// The limit of rate in a value of the hash; nil if there is none.
    package static func rate(_ value: String) -> RateSchedule? { (try? JSON(value))?["rate"].flatMap(rate) }

    private static func rate(_ value: JSON) -> RateSchedule? {
        (value.string ?? value.integer.map(String.init)).flatMap(RateSchedule.init)
    }

    /// What is wrong with one limit; nil if nothing is.
    private static func fault(of member: JSON.Member, isGroup: Bool) -> String? {
        let jobs = isGroup ? "running" : "connections"
        let isFine: Bool, rule: String
        switch member.name {
        case jobs:
            isFine = member.value.integer.map { 0...Int64(maxCount) ~= $0 } ?? false
            rule = "must be a whole number from 0 to \(maxCount)"
        case "rate":
            isFine = rate(member.value) != nil
            rule = QueueSetting.rate.rule
        case QueueSetting.maxSeconds.name, QueueSetting.minSpeed.name, QueueSetting.maxBytes.name:
            isFine = positive(member.value) != nil
            rule = QueueSetting(name: member.name)?.rule ?? ""
        case "starts":
            isFine = (member.value.string ?? member.value.integer.map(String.init)).map(StartLimit.accepts) ?? false
            rule = StartLimit.rule
        default:
            return
                "\(member.name) is not a limit of a \(isGroup ? "group" : "host"): the limits are \(jobs), starts, rate, max_seconds, min_speed and max_bytes"
        }
        return isFine ? nil : "\(member.name) \(rule), not \(member.raw.prefix(100))"
    }
}

/// The limits of hosts and groups, as far as workers apply them.
package struct HostRates: Sendable {
    /// The limits of rate of hosts, and of groups as `group:acme`.
    package let rates: [String: RateSchedule]
    /// Sentences about limits that are invalid.
    package let faults: [String]
    /// The number of all limits.
    package let count: Int
}

extension Queue {
    package func hostRates() async throws(RedisError) -> HostRates {
        let limits = try await redis.pipeline([.command(Command("HGETALL", keys.limits))])[0].dictionary
        let faults = limits.sorted { $0.key < $1.key }.flatMap { host, value in
            HostLimit.faults(of: host, value).map { "\(host): \($0)" }
        }
        return HostRates(rates: limits.compactMapValues(HostLimit.rate), faults: faults, count: limits.count)
    }

    /// Until when workers start nothing at each of `hosts`, unix ms. Most hosts have no such time.
    package func backoffs(of hosts: [String]) async throws(RedisError) -> [String: Int64] {
        guard partitions.isEmpty else {
            let times = try await each { queue throws(RedisError) in try await queue.backoffs(of: hosts) }
            return times.reduce(into: [:]) { $0.merge($1, uniquingKeysWith: max) }
        }
        let replies = try await redis.pipeline(hosts.map { .command(Command("GET", keys[.hostBackoff] + $0)) })
        let times = zip(hosts, replies).compactMap { host, reply in
            reply.string.flatMap { Int64($0) }.map { (host, $0) }
        }
        return Dictionary(times) { $1 }
    }

    /// Sets the limits of a host or a group, JSON as in `haul:{NAME}:limits`; nil removes them. The value is not checked.
    package func setLimit(of host: String, to value: String?) async throws(RedisError) {
        guard partitions.isEmpty else {
            return try await changeAll { queue throws(RedisError) in try await queue.setLimit(of: host, to: value) }
        }
        if let value {
            try await redis.send(Command("HSET", keys.limits, host, value))
        } else {
            try await redis.send(Command("HDEL", keys.limits, host))
        }
    }
}

/// A limit of how many jobs start in a time. Lua/limits/starts.lua reads it by the same rules.
enum StartLimit {
    static let rule =
        "must be jobs per second, minute or hour like 10, \"10/s\", \"30/min\" or \"5/h\", from 1 to 1000000"

    /// Whether a text, which is not JSON, is a valid limit.
    static func accepts(_ text: String) -> Bool {
        let parts = text.split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count == 1 || parts.count == 2 && ["s", "min", "h"].contains(parts[1]) else { return false }
        guard parts[0].utf8.count <= 14, parts[0].utf8.allSatisfy({ 48...57 ~= $0 }) else { return false }
        return Int(parts[0]).map { 1...1_000_000 ~= $0 } ?? false
    }
}
