import ArgumentParser
import HaulBus
import HaulContract
import HaulTerminal

/// Counts jobs by a property.
struct JobGroups {
    enum Key: String, CaseIterable, ExpressibleByArgument {
        case error, host, worker, state, kind, batch, group, waiting
    }

    struct Group {
        var count = 0
        /// The job that was the last to enter its state.
        var newest: JobRow
    }

    let key: Key
    private(set) var groups: [String: Group] = [:]

    init(by key: Key) { self.key = key }

    mutating func add(_ row: JobRow) {
        switch key {
        case .error: add(row, to: row.error)
        case .host: add(row, to: row.host)
        case .worker: add(row, to: row.worker)
        case .state: add(row, to: row.state.rawValue)
        case .kind: add(row, to: row.kind)
        case .group: add(row, to: row.group)
        case .waiting: add(row, to: row.waiting)
        // A job may be in several batches.
        case .batch:
            let names = row.batch.split(separator: " ")
            if names.isEmpty { add(row, to: "") }
            for name in names { add(row, to: String(name)) }
        }
    }

    private mutating func add(_ row: JobRow, to name: String) {
        var group = groups[name] ?? Group(newest: row)
        group.count += 1
        if row.since ?? 0 > group.newest.since ?? 0 { group.newest = row }
        groups[name] = group
    }

    /// The groups, the largest first.
    var sorted: [(name: String, group: Group)] {
        groups.map { ($0.key, $0.value) }.sorted { ($1.1.count, $0.0) < ($0.1.count, $1.0) }
            .map { (name: $0.0, group: $0.1) }
    }

    func lines(now: Int64, width: Int?) -> [String] {
        var table = Table([
            .init(title: "JOBS", isNumber: true, rank: 10),
            .init(title: key.rawValue.uppercased(), minWidth: 8, rank: 10),
            .init(title: "LAST", isNumber: true, rank: 8),
            .init(title: "FOR EXAMPLE", minWidth: 10, rank: 7),
            .init(title: "FILE OR URL", minWidth: 12, keepsEnd: true, rank: 5),
            .init(title: key == .error ? "MESSAGE" : "WHY", minWidth: 12, rank: 6),
        ])
        for (name, group) in sorted {
            let row = group.newest
            table.add([
                String(group.count), name.isEmpty ? "-" : name, row.age(at: now), row.id, row.name,
                key == .error ? row.message : row.reason,
            ])
        }
        return table.lines(width: width)
    }

    var json: [String] {
        sorted.map { name, group in
            var object = JSONObject()
            object.set(key.rawValue, name)
            object.set("count", group.count)
            object.set("newest", group.newest.since)
            object.set("example", group.newest.id)
            object.set("url", group.newest.url)
            if key == .error { object.set("message", group.newest.message) }
            return object.text
        }
    }
}
