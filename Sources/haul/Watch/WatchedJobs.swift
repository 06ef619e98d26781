import HaulContract
import HaulTerminal

/// The running jobs by their last progress events, in the order in which they started. A job whose start is not known
/// comes behind those whose start is.
struct WatchedJobs {
    var names: [String: String] = [:]
    /// How many jobs run, if that is known: jobs that wait for their hosts send no progress.
    var count: Int?
    private var order: [String] = []
    private var last: [String: Event] = [:]
    /// When the jobs started, unix ms, as far as it is known; `.max` for a job that does not say it.
    private var starts: [String: Int64] = [:]
    /// How many jobs are looked up at a time.
    private static let maxLookedUp = 200

    var isEmpty: Bool { order.isEmpty }

    mutating func record(_ event: Event) {
        if last.updateValue(event, forKey: event.id) == nil { order.append(event.id) }
    }

    mutating func remove(_ id: String) {
        guard last.removeValue(forKey: id) != nil else { return }
        order.removeAll { $0 == id }
        starts[id] = nil
    }

    mutating func forgetRunning() { (order, last, starts) = ([], [:], [:]) }

    /// The next jobs whose name or start is not known.
    var unknown: [String] {
        Array(order.lazy.filter { starts[$0] == nil || names[$0] == nil }.prefix(Self.maxLookedUp))
    }

    /// Records what a job's hash says.
    mutating func describe(_ id: String, name: String, started: Int64?) {
        if names[id] == nil { names[id] = name }
        guard last[id] != nil, starts[id] == nil else { return }
        let start = started ?? .max
        order.removeAll { $0 == id }
        let next = order.firstIndex { starts[$0].map { $0 > start } ?? true }
        order.insert(id, at: next ?? order.endIndex)
        starts[id] = start
    }

    private var all: Int { max(order.count, count ?? 0) }

    /// The jobs that have a row: the first ones, so that a row does not move while its job runs.
    func shown(_ rows: Int) -> [Event] { order.prefix(rows).compactMap { last[$0] } }

    func left(_ rows: Int) -> Int { max(0, all - min(rows, order.count)) }

    /// The number of running jobs, and their total speed.
    var total: String {
        let speed = last.values.reduce(Int64(0)) { $0 + max(0, min($1["speed"]?.integer ?? 0, 1 << 50)) }
        return "\(all) running, \(Units.speed(speed))"
    }

    func lines(rows: Int, width: Int, isUnicode: Bool) -> [String] {
        var lines = shown(rows).map { row($0, width: width, isUnicode: isUnicode) }
        if left(rows) > 0 { lines.append("… and \(left(rows)) more (haul top shows all)".truncated(to: width)) }
        return lines
    }

    private func row(_ event: Event, width: Int, isUnicode: Bool) -> String {
        var row = ProgressRow(names[event.id] ?? event.id)
        row.received = event["received"]?.integer ?? 0
        row.total = event["total"]?.integer
        row.speed = event["speed"]?.integer ?? 0
        row.eta = event["eta"]?.integer
        return row.text(width: width, isUnicode: isUnicode)
    }
}
