package import HaulRedis

/// A field of `haul:{NAME}:settings`, which all workers of the queue follow from their next call on.
package enum QueueSetting: Sendable, Hashable {
    /// No job begins.
    case paused
    /// The most jobs that run at once in the fleet.
    case maxRunning
    /// Bytes per second, received and sent, of the whole fleet.
    case rate
    /// How many jobs of the fleet begin in a second.
    case starts
    /// The most jobs of the fleet that are at work on one host.
    case hostConnections
    /// The most bytes of responses that are kept in the jobs' hashes; the oldest are dropped.
    case maxResponsesBytes
    /// For how many seconds ended jobs are kept; `QueuePolicy` says it where the setting is missing.
    case keepCompleted, keepFailed, keepCancelled
    /// The worker of this name takes no more jobs.
    case quiet(worker: String)

    /// A reply may have to be told again for a minute (Lua/overdue.lua); ten years are enough.
    package static let kept = 60...315_360_000

    /// What `max_responses_bytes` is where it is not set.
    package static let usualResponsesBytes = 256 << 20

    /// Those that there are once.
    package static let fixed: [QueueSetting] = [
        .paused, .maxRunning, .rate, .starts, .hostConnections, .maxResponsesBytes, .keepCompleted, .keepFailed,
        .keepCancelled,
    ]

    private static let quietBeginning = "quiet:"

    /// The field's name; nil for what is no setting.
    package init?(name: String) {
        switch name {
        case "paused": self = .paused
        case "max_running": self = .maxRunning
        case "rate": self = .rate
        case "starts": self = .starts
        case "host_connections": self = .hostConnections
        case "max_responses_bytes": self = .maxResponsesBytes
        case "keep_completed": self = .keepCompleted
        case "keep_failed": self = .keepFailed
        case "keep_cancelled": self = .keepCancelled
        default:
            guard name.hasPrefix(Self.quietBeginning) else { return nil }
            self = .quiet(worker: String(name.dropFirst(Self.quietBeginning.count)))
        }
    }

    package var name: String {
        switch self {
        case .paused: "paused"
        case .maxRunning: "max_running"
        case .rate: "rate"
        case .starts: "starts"
        case .hostConnections: "host_connections"
        case .maxResponsesBytes: "max_responses_bytes"
        case .keepCompleted: "keep_completed"
        case .keepFailed: "keep_failed"
        case .keepCancelled: "keep_cancelled"
        case .quiet(let worker): Self.quietBeginning + worker
        }
    }

    /// What a value must be; other values have no effect.
    package var rule: String {
        switch self {
        case .paused, .quiet: "must be 0 or 1"
        case .rate: "must be a whole number of bytes per second, 1 or more"
        case .maxResponsesBytes: "must be a whole number of bytes, 0 or more"
        case .starts: StartLimit.rule
        case .maxRunning, .hostConnections: "must be a whole number, 0 or more"
        case .keepCompleted, .keepFailed, .keepCancelled:
            "must be a whole number of seconds from \(Self.kept.lowerBound) to \(Self.kept.upperBound)"
        }
    }

    package func accepts(_ value: String) -> Bool {
        // As Lua/prelude.lua reads numbers.
        let number = value.utf8.count <= 14 && value.utf8.allSatisfy { 48...57 ~= $0 } ? Int(value) : nil
        return switch self {
        case .paused, .quiet: ["0", "1", "true", "false"].contains(value)
        case .rate: number.map { $0 > 0 } ?? false
        case .starts: StartLimit.accepts(value)
        case .maxRunning, .hostConnections, .maxResponsesBytes: number != nil
        case .keepCompleted, .keepFailed, .keepCancelled: number.map(Self.kept.contains) ?? false
        }
    }
}

extension Queue {
    /// Sets one of the queue's live settings or, with nil, takes it out. Throws if Redis cannot be reached.
    package func set(_ setting: QueueSetting, to value: String?) async throws(RedisError) {
        try await setSetting(setting.name, to: value)
    }

    /// Tells a worker to take no more jobs of this queue and to finish those that it has, or takes that back. It holds until the
    /// worker's process ends.
    package func setQuiet(_ worker: String, _ isQuiet: Bool) async throws(RedisError) {
        try await set(.quiet(worker: worker), to: isQuiet ? "1" : nil)
    }
}
