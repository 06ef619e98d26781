/// The names of a queue's keys, without the prefix. `Keys`, `Inspection` and the functions (`KEY` in Lua) use this
/// list.
enum KeyName: String, CaseIterable {
    case jobs, want, tick, leases, scheduled, paused, completed, failed, cancelled, deadlines, rejected, workers
    case settings, places, untold, epoch, totals, kinds, defaults, limits, hosts, shares, starts, responses, batches,
        removed, recheck
    case responseBytes = "response_bytes"
    case replyBytes = "reply_bytes"
    case waitingHosts = "waiting_hosts"
    case shut
    // One key for each job, worker, machine, name, store, hour or kind, which follows the colon.
    case job = "job:"
    case spec = "spec:"
    case offsets = "offsets:"
    case held = "held:"
    case worker = "worker:"
    case host = "host:"
    case reply = "reply:"
    case drops = "drops:"
    case dropping = "dropping:"
    case history = "history:"
    case kind = "kind:"
    // One key for each batch.
    case batch = "batch:"
    case members = "members:"
    // One key for each host.
    case busy = "busy:"
    case aside = "aside:"
    case lent = "lent:"
    case shutHost = "shut:"

    /// The type of the key, as TYPE returns it.
    var type: String {
        switch self {
        case .jobs, .rejected, .places, .held, .reply, .drops, .kind, .aside: "list"
        case .want, .settings, .totals, .job, .spec, .offsets, .worker, .host, .history, .kinds, .defaults, .limits,
            .hosts, .shares, .starts, .lent, .responseBytes, .replyBytes, .batch, .members, .dropping,
            .recheck:
            "hash"
        case .busy: "set"
        case .tick, .epoch, .shut, .shutHost: "string"
        case .leases, .scheduled, .paused, .completed, .failed, .cancelled, .deadlines, .workers, .untold,
            .responses, .batches, .removed, .waitingHosts:
            "zset"
        }
    }

    /// Whether a queue has many keys of this name.
    var isOfMany: Bool { rawValue.hasSuffix(":") }

    /// Reads the part of a key behind the prefix: its name, and what follows the colon. nil if the contract has no such
    /// key.
    static func read(_ rest: Substring) -> (name: KeyName, of: String)? {
        if let name = KeyName(rawValue: String(rest)), !name.isOfMany { return (name, "") }
        guard let colon = rest.utf8.firstIndex(of: UInt8(ascii: ":")) else { return nil }
        return KeyName(rawValue: String(rest[...colon])).map { ($0, String(rest[rest.index(after: colon)...])) }
    }
}

/// The names of a queue's channels, without the prefix.
enum ChannelName: String, CaseIterable {
    case control
    case events = "events:"
}
