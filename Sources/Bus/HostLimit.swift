import HaulContract
package import HaulRedis

/// A field of `haul:{NAME}:limits`: what the whole fleet keeps to with one host.
package enum HostLimit {
    static let most = 1_000_000

    /// A host, as it is in URLs, perhaps with a port.
    package static func isHost(_ text: String) -> Bool {
        text == text.lowercased() && URLRule.accepts("http://\(text)") && !text.contains("@") && !text.contains("/")
            && !text.contains("?") && !text.contains("#")
    }

    package static let rule = "must be a JSON object like {\"connections\":4}, of a whole number from 0 to \(most)"

    package static func accepts(_ value: String) -> Bool { faults(of: "h", value).isEmpty }

    /// What is wrong with a field and its value, in sentences.
    static func faults(of host: String, _ value: String) -> [String] {
        var faults: [String] = []
        if !isHost(host) { faults.append("must be a host in lower case, perhaps with a port") }
        guard let members = (try? JSON(value))?.members else {
            return faults + ["must be a JSON object like {\"connections\":4}, not \(value.prefix(100))"]
        }
        for member in members {
            guard member.name == "connections" else {
                faults.append("\(member.name) is no limit")
                continue
            }
            if !(member.value.integer.map { 0...Int64(most) ~= $0 } ?? false) {
                faults.append("connections must be a whole number from 0 to \(most), not \(member.raw.prefix(100))")
            }
        }
        return faults
    }
}

extension Queue {
    /// Sets what the fleet keeps to with a host, JSON as in `haul:{NAME}:limits`, or, with nil, takes it back.
    package func setLimit(of host: String, to value: String?) async throws(RedisError) {
        if let value {
            try await redis.send(Command("HSET", keys.limits, host, value))
        } else {
            try await redis.send(Command("HDEL", keys.limits, host))
        }
    }
}
