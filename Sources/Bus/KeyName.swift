/// The name of every key of a queue, behind its prefix: `Keys`, `Inspection` and the functions (`KEY` in Lua) take it from here.
enum KeyName: String, CaseIterable {
    case jobs, want, tick, leases, scheduled, paused, completed, failed, cancelled, deadlines, rejected, workers
    case settings, places, untold, epoch, totals, kinds, defaults, limits, hosts, shares, starts, responses, batches,
        removed
    case responseBytes = "response_bytes"
    // One for each job, worker, machine, name, store, hour or kind, which follows the colon.
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
    // One for each batch.
    case batch = "batch:"
    case members = "members:"
    // One for each host.
    case busy = "busy:"
    case aside = "aside:"
    case lent = "lent:"

    /// What Redis' TYPE says of it.
    var type: String {
        switch self {
        case .jobs, .rejected, .places, .held, .reply, .drops, .kind, .aside: "list"
        case .want, .settings, .totals, .job, .spec, .offsets, .worker, .host, .history, .kinds, .defaults, .limits,
            .hosts, .shares, .starts, .lent, .responseBytes, .batch, .members, .dropping:
            "hash"
        case .busy: "set"
        case .tick, .epoch: "string"
        case .leases, .scheduled, .paused, .completed, .failed, .cancelled, .deadlines, .workers, .untold,
            .responses, .batches, .removed:
            "zset"
        }
    }

    /// A queue has many of it.
    var isOfMany: Bool { rawValue.hasSuffix(":") }

    /// The key that `rest` names, which is what follows the prefix, and what follows its colon.
    static func read(_ rest: Substring) -> (name: KeyName, of: String)? {
        if let name = KeyName(rawValue: String(rest)), !name.isOfMany { return (name, "") }
        guard let colon = rest.utf8.firstIndex(of: UInt8(ascii: ":")) else { return nil }
        return KeyName(rawValue: String(rest[...colon])).map { ($0, String(rest[rest.index(after: colon)...])) }
    }
}

/// The name of every channel of a queue, behind its prefix.
enum ChannelName: String, CaseIterable {
    case control
    case events = "events:"
}
