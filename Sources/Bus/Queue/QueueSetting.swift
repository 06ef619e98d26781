import HaulContract
package import HaulRedis

/// A field of `haul:{NAME}:settings`. All workers of the queue obey it from their next call on.
package enum QueueSetting: Sendable, Hashable {
    /// No job starts.
    case paused
    /// How many jobs of the fleet run at once, at most.
    case maxRunning
    /// How many bytes per second the fleet receives and sends, at most. The rate may depend on the time of day.
    case rate
    /// How many jobs of the fleet start in a second, a minute or an hour, at most.
    case starts
    /// How many jobs of the fleet are at work on one host at once, at most.
    case hostConnections
    /// How many seconds one run of a job takes, at most.
    case maxSeconds
    /// How many bytes per second a download receives, at least.
    case minSpeed
    /// How many bytes a file has, at most.
    case maxBytes
    /// How many bytes of responses the jobs' hashes keep, at most. The oldest responses are dropped.
    case maxResponsesBytes
    /// How many bytes of events with responses wait in reply lists, at most. Further events have no response.
    case maxRepliesBytes
    /// How many events the queue's stream keeps, about. Without the setting there is no stream.
    case eventStream
    /// For how many seconds ended jobs are kept. Without the setting, `QueuePolicy` decides.
    case keepCompleted, keepFailed, keepCancelled
    /// The worker of this name claims no more jobs.
    case quiet(worker: String)

    /// The seconds for which ended jobs may be kept. At least a minute, because a completed job may wait that long for
    /// replicas (Lua/settle/announcements.lua), and must be known until then.
    package static let retention = 60...315_360_000

    /// The value of `max_responses_bytes` if it is not set.
    package static let defaultResponsesBytes = 256 << 20
    /// The value of `max_replies_bytes` if it is not set.
    package static let defaultRepliesBytes = 256 << 20

    /// The maximum number of events that a stream keeps.
    package static let maxEvents = 1_000_000

    /// All settings but those of single workers.
    package static let fixed: [QueueSetting] = [
        .paused, .maxRunning, .rate, .starts, .hostConnections, .maxSeconds, .minSpeed, .maxBytes, .maxResponsesBytes,
        .maxRepliesBytes, .eventStream,
        .keepCompleted, .keepFailed, .keepCancelled,
    ]

    private static let quietPrefix = "quiet:"

    /// nil if no setting has this name.
    package init?(name: String) {
        switch name {
        case "paused": self = .paused
        case "max_running": self = .maxRunning
        case "rate": self = .rate
        case "starts": self = .starts
        case "host_connections": self = .hostConnections
        case "max_seconds": self = .maxSeconds
        case "min_speed": self = .minSpeed
        case "max_bytes": self = .maxBytes
        case "max_responses_bytes": self = .maxResponsesBytes
        case "max_replies_bytes": self = .maxRepliesBytes
        case "event_stream": self = .eventStream
        case "keep_completed": self = .keepCompleted
        case "keep_failed": self = .keepFailed
        case "keep_cancelled": self = .keepCancelled
        default:
            guard name.hasPrefix(Self.quietPrefix) else { return nil }
            self = .quiet(worker: String(name.dropFirst(Self.quietPrefix.count)))
        }
    }

    package var name: String {
        switch self {
        case .paused: "paused"
        case .maxRunning: "max_running"
        case .rate: "rate"
        case .starts: "starts"
        case .hostConnections: "host_connections"
        case .maxSeconds: "max_seconds"
        case .minSpeed: "min_speed"
        case .maxBytes: "max_bytes"
        case .maxResponsesBytes: "max_responses_bytes"
        case .maxRepliesBytes: "max_replies_bytes"
        case .eventStream: "event_stream"
        case .keepCompleted: "keep_completed"
        case .keepFailed: "keep_failed"
        case .keepCancelled: "keep_cancelled"
        case .quiet(let worker): Self.quietPrefix + worker
        }
    }

    /// What a value must be, as the end of a sentence. Other values have no effect.
    package var rule: String {
        switch self {
        case .paused, .quiet: "must be 0 or 1"
        case .rate: "\(RateSchedule.rule); times are UTC unless a zone is named"
        case .minSpeed: "must be a whole number of bytes per second, 1 or more"
        case .maxSeconds: "must be a whole number of seconds, 1 or more"
        case .maxBytes: "must be a whole number of bytes, 1 or more"
        case .maxResponsesBytes, .maxRepliesBytes: "must be a whole number of bytes, 0 or more"
        case .eventStream: "must be a whole number of events from 0 to \(Self.maxEvents)"
        case .starts: StartLimit.rule
        case .maxRunning, .hostConnections: "must be a whole number, 0 or more"
        case .keepCompleted, .keepFailed, .keepCancelled:
            "must be a whole number of seconds from \(Self.retention.lowerBound) to \(Self.retention.upperBound)"
        }
    }

    package func accepts(_ value: String) -> Bool {
        // Values.number() of Lua/core/values.lua accepts the same texts.
        let number = value.utf8.count <= 14 && value.utf8.allSatisfy { 48...57 ~= $0 } ? Int(value) : nil
        return switch self {
        case .paused, .quiet: ["0", "1", "true", "false"].contains(value)
        case .rate: RateSchedule(value) != nil
        case .maxSeconds, .minSpeed, .maxBytes: number.map { $0 > 0 } ?? false
        case .starts: StartLimit.accepts(value)
        case .maxRunning, .hostConnections, .maxResponsesBytes, .maxRepliesBytes: number != nil
        case .eventStream: number.map { $0 <= Self.maxEvents } ?? false
        case .keepCompleted, .keepFailed, .keepCancelled: number.map(Self.retention.contains) ?? false
        }
    }
}

extension Queue {
    /// Sets one of the queue's settings; nil deletes it. The value is not checked.
    package func set(_ setting: QueueSetting, to value: String?) async throws(RedisError) {
        try await setSetting(setting.name, to: value)
    }

    /// Lets a worker finish its jobs of this queue and claim no more, or ends that. It holds until the worker's process
    /// ends.
    package func setQuiet(_ worker: String, _ isQuiet: Bool) async throws(RedisError) {
        try await set(.quiet(worker: worker), to: isQuiet ? "1" : nil)
    }
}
