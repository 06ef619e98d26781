import ArgumentParser
import HaulBus
import HaulContract
import HaulTerminal
import HaulWeb

struct Workers: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "workers", abstract: "List the workers.",
        discussion: "A worker whose last heartbeat is older than its lease is lost: its jobs run elsewhere.")

    @OptionGroup var common: CommonOptions

    func run() async throws {
        let queue = try await common.connect()
        // The same objects as those of the API.
        let reply = try JSON(await QueueReaderCache(queue).workers())
        let workers = reply["workers"]?.array ?? []
        if common.json {
            for worker in workers { Terminal.line(worker.text) }
            return
        }
        let now = reply["now"]?.integer ?? 0
        let rows = workers.map { Self.row($0, now) }.sorted(by: WorkerRow.precedes)
        if rows.isEmpty {
            Terminal.printError("haul: \(Stats.unserved(queue))")
        } else {
            for line in WorkerRow.lines(rows, now: now, width: Terminal.width) { Terminal.line(line) }
            for row in rows where row.free == 0 && !row.isLost {
                Terminal.printError(
                    "haul: \(row.name) takes no jobs, because its disk has no more than what --keep-free leaves to other programs"
                )
            }
        }
    }

    private static func row(_ worker: JSON, _ now: Int64) -> WorkerRow {
        let pairs = (worker.members ?? []).map { ($0.name, $0.value.string ?? $0.value.text) }
        return WorkerRow(name: worker["name"]?.string ?? "", fields: Dictionary(pairs) { one, _ in one }, now: now)
    }
}

/// A worker as a list or a screen shows it.
struct WorkerRow: Sendable, Equatable {
    let name: String
    var state: WorkerState
    var running = 0
    /// The bytes per second of its running jobs, which are not among the fields in Redis.
    var speed: Int64
    /// The bytes that downloads may use on its disk.
    var free: Int64?
    /// A number, or "unlimited".
    var slots = ""
    /// Unix ms.
    var seen: Int64
    var host = ""
    var process = ""
    var version = ""
    var isLost: Bool { state == .lost }

    /// - Parameter fields: Those in Redis, or the members of the API's object as texts.
    init(name: String, fields: [String: String], now: Int64) {
        self.name = name
        speed = fields["speed"].flatMap { Int64($0) } ?? 0
        free = fields["free"].flatMap { Int64($0) }
        seen = WorkerState.seen(fields)
        running = fields["running"].flatMap { Int($0) } ?? 0
        slots = fields["slots"] ?? ""
        (host, process, version) = (fields["host"] ?? "", fields["pid"] ?? "", fields["version"] ?? "")
        state = WorkerState(fields, now: now)
    }

    /// Lost workers come first: an operator looks for them.
    static func precedes(_ one: WorkerRow, _ other: WorkerRow) -> Bool {
        one.isLost == other.isLost ? one.name < other.name : one.isLost
    }

    static func lines(_ rows: [WorkerRow], now: Int64, width: Int?) -> [String] {
        var table = Table([
            .init(title: "NAME", minWidth: 8, rank: 10), .init(title: "STATE", rank: 10),
            .init(title: "RUNNING", isNumber: true, rank: 9), .init(title: "SLOTS", isNumber: true, rank: 8),
            .init(title: "SPEED", isNumber: true, rank: 7), .init(title: "FREE", isNumber: true, rank: 6),
            .init(title: "SEEN", isNumber: true, rank: 9), .init(title: "HOST", minWidth: 8, rank: 5),
            .init(title: "PID", isNumber: true, rank: 4), .init(title: "VERSION", rank: 3),
        ])
        for row in rows {
            table.add([
                row.name, row.state.rawValue, String(row.running), row.slots, Units.speed(row.speed),
                row.free.map(Units.bytes) ?? "",
                Age.text(now - row.seen) + " ago",
                row.host,
                row.process, row.version,
            ])
        }
        return table.lines(width: width)
    }
}
