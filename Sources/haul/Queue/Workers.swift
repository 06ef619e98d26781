import ArgumentParser
import HaulBus
import HaulContract
import HaulTerminal
import HaulWeb

struct Workers: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "workers", abstract: "List the workers.",
        discussion: "A worker whose last heartbeat is older than its lease is lost: its jobs run elsewhere.")

    /// Fields that are numbers in JSON. `slots` may also be "unlimited", which becomes a string.
    private static let numbers: Set<String> = ["lease", "pid", "running", "seen", "slots"]

    @OptionGroup var common: CommonOptions

    func run() async throws {
        let queue = try await common.connect()
        let workers = try await queue.workers()
        let speeds = try await speeds(in: queue)
        let now = try await queue.time()
        let rows = workers.map { WorkerRow(name: $0.name, fields: $0.fields, now: now, speed: speeds[$0.name]) }
            .sorted(by: WorkerRow.precedes)
        if common.json {
            let fields = Dictionary(workers.map { ($0.name, $0.fields) }) { one, _ in one }
            for row in rows {
                let members = [
                    ("name", JSON.quoted(row.name)), ("lost", String(row.isLost)), ("speed", String(row.speed)),
                ]
                Terminal.line(JSON.object(members + JSON.members(fields[row.name] ?? [:], raw: Self.numbers)))
            }
        } else if rows.isEmpty {
            Terminal.printError("haul: \(Stats.unserved(queue))")
        } else {
            for line in WorkerRow.lines(rows, now: now, width: Terminal.width) { Terminal.line(line) }
        }
    }

    /// The bytes per second of each worker's running jobs, of which at most 2,000 are read.
    private func speeds(in queue: Queue) async throws -> [String: Int64] {
        let workers = try JSON(await QueueReaderCache(queue).workers())["workers"]?.array ?? []
        let pairs = workers.compactMap { worker in
            worker["name"]?.string.map { ($0, worker["speed"]?.integer ?? 0) }
        }
        return Dictionary(pairs) { one, _ in one }
    }
}

/// A worker as a list or a screen shows it.
struct WorkerRow: Sendable, Equatable {
    let name: String
    var state: WorkerState
    var running = 0
    /// The bytes per second of its running jobs.
    var speed: Int64
    /// A number, or "unlimited".
    var slots = ""
    /// Unix ms.
    var seen: Int64
    var host = ""
    var process = ""
    var version = ""
    var isLost: Bool { state == .lost }

    init(name: String, fields: [String: String], now: Int64, speed: Int64? = nil) {
        self.name = name
        self.speed = speed ?? 0
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
            .init(title: "SPEED", isNumber: true, rank: 7),
            .init(title: "SEEN", isNumber: true, rank: 9), .init(title: "HOST", minWidth: 8, rank: 5),
            .init(title: "PID", isNumber: true, rank: 4), .init(title: "VERSION", rank: 3),
        ])
        for row in rows {
            table.add([
                row.name, row.state.rawValue, String(row.running), row.slots, Units.speed(row.speed),
                Age.text(now - row.seen) + " ago",
                row.host,
                row.process, row.version,
            ])
        }
        return table.lines(width: width)
    }
}
