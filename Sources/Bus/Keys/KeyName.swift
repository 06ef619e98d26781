/// The names of a queue's keys, without the prefix. `Keys`, `Inspection` and the functions (`KEY` in Lua) use this
/// list.
enum KeyName: String, CaseIterable {
    case jobs, want, tick, leases, scheduled, paused, completed, failed, cancelled, deadlines, rejected, workers
    case settings, permits, unannounced, epoch, totals, defaults, limits, hosts, starts, responses, batches,
        removed, recheck, pacer, changes, schedules, log, groups
    case scheduleDue = "schedule_due"
    case schedulePaused = "schedule_paused"
    case urls
    case responseBytes = "response_bytes"
    case replyBytes = "reply_bytes"
    case undeliveredReplies = "undelivered_replies"
    case owedSteps = "owed_steps"
    case deferredHosts = "deferred_hosts"
    case deferredKinds = "deferred_kinds"
    case deferredGroups = "deferred_groups"
    case rateLeases = "rate_leases"
    case backoff
    // One key for each job, worker, machine, name, store, hour or kind, which follows the colon.
    case job = "job:"
    case spec = "spec:"
    case offsets = "offsets:"
    case held = "held:"
    case worker = "worker:"
    case host = "host:"
    case reply = "reply:"
    case deletions = "deletions:"
    case deleting = "deleting:"
    case history = "history:"
    case deferredKind = "deferred_kind:"
    // One key for each URL that several jobs have.
    case url = "url:"
    // One key for each batch.
    case batch = "batch:"
    case members = "members:"
    // One key for each host.
    case busy = "busy:"
    case deferredHost = "deferred_host:"
    case hostRateLeases = "rate_leases:"
    case hostBackoff = "backoff:"
    // One key for each group.
    case busyGroup = "busy_group:"
    case deferredGroup = "deferred_group:"
    // One key for each schedule.
    case schedule = "schedule:"

    /// The type of the key, as TYPE returns it.
    var type: String {
        switch self {
        case .jobs, .rejected, .changes, .permits, .held, .reply, .undeliveredReplies, .deletions, .deferredKind,
            .deferredHost, .deferredGroup:
            "list"
        case .want, .settings, .totals, .job, .spec, .offsets, .worker, .host, .history, .deferredKinds, .defaults,
            .limits,
            .hosts, .rateLeases, .starts, .hostRateLeases, .responseBytes, .replyBytes, .batch, .members, .deleting,
            .recheck, .urls, .url, .owedSteps, .schedules, .schedule, .schedulePaused:
            "hash"
        case .busy, .busyGroup: "set"
        case .log: "stream"
        case .tick, .epoch, .backoff, .pacer, .hostBackoff, .groups: "string"
        case .leases, .scheduled, .paused, .completed, .failed, .cancelled, .deadlines, .workers, .unannounced,
            .responses, .batches, .removed, .deferredHosts, .deferredGroups, .scheduleDue:
            "zset"
        }
    }

    /// Whether a queue has many keys of this name.
    var isPrefix: Bool { rawValue.hasSuffix(":") }

    /// Reads the part of a key behind the prefix: its name, and what follows the colon. nil if the contract has no such
    /// key.
    static func read(_ rest: Substring) -> (name: KeyName, subject: String)? {
        if let name = KeyName(rawValue: String(rest)), !name.isPrefix { return (name, "") }
        guard let colon = rest.utf8.firstIndex(of: UInt8(ascii: ":")) else { return nil }
        return KeyName(rawValue: String(rest[...colon])).map { ($0, String(rest[rest.index(after: colon)...])) }
    }
}

extension KeyName {
    /// Names of keys that only version 0.1 used. A queue that still has one was not drained before the upgrade.
    private static let version01: Set<Substring> = [
        "untold", "places", "kinds", "shares", "waiting_hosts", "shut", "kind:", "aside:", "lent:", "drops:",
        "dropping:",
    ]

    /// Whether version 0.1 wrote this key. `rest` is the part behind the prefix.
    static func isVersion01Key(_ rest: Substring) -> Bool {
        version01.contains(rest.firstIndex(of: ":").map { rest[...$0] } ?? rest)
    }
}

/// The names of a queue's channels, without the prefix.
enum ChannelName: String, CaseIterable {
    case control
    case alive = "alive:"
    case events = "events:"
}
