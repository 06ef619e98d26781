import ArgumentParser
import HaulBus
import HaulContract
import HaulTerminal

struct Batches: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "batches", abstract: "List batches of jobs, or only the named ones.",
        discussion: "The newest comes first. A job counts as soon as a worker has seen it.")

    @OptionGroup var common: CommonOptions
    @Argument(help: "Names of batches.", completion: Completer.batches) var names: [String] = []
    @Option(help: "The maximum number of batches to list.") var limit = 100

    func validate() throws {
        if let bad = names.first(where: { !JobField.isID($0) }) {
            throw ValidationError(
                "\"\(bad)\" is not a valid batch name: use 1 to 128 of the characters A-Z a-z 0-9 . _ : -")
        }
        guard limit > 0 else { throw ValidationError("--limit must be 1 or more, not \(limit)") }
    }

    func run() async throws {
        let queue = try await common.connect()
        var records = names.isEmpty ? try await queue.batches(limit: limit) : []
        for name in names { if let record = try await queue.batch(name) { records.append(record) } }
        if common.json {
            for record in records { Terminal.line(Self.json(record)) }
        } else if !records.isEmpty {
            for line in Self.table(records).lines(width: Terminal.width) { Terminal.line(line) }
        }
        let unknown = names.filter { name in !records.contains { $0.name == name } }
        if let name = unknown.first {
            throw ExitStatus.printing(
                .jobFailed,
                "no batch \(name) is known in the queue \(queue.name): no worker has seen a job of it yet, or it was forgotten"
            )
        }
        if records.isEmpty, !common.json { Terminal.printError("haul: the queue \(queue.name) has no batch") }
    }

    private static func table(_ records: [BatchRecord]) -> Table {
        var table = Table(
            [.init(title: "BATCH", minWidth: 8, rank: 10)]
                + BatchState.allCases.map { .init(title: $0.rawValue.uppercased(), isNumber: true) }
                + [.init(title: "SIZE", isNumber: true), .init(title: "", rank: 8)])
        for record in records {
            let note = record.finished != nil ? "over" : record.wanted ?? ""
            table.add(
                [record.name] + BatchState.allCases.map { String(record.counts[$0] ?? 0) }
                    + [record.size.map { String($0) } ?? "", note])
        }
        return table
    }

    private static func json(_ record: BatchRecord) -> String {
        var object = JSONObject()
        object.set("name", record.name)
        for state in BatchState.allCases { object.set(state.rawValue, record.counts[state]) }
        object.set("size", record.size)
        object.set("round", record.round)
        object.set("created", record.created)
        object.set("finished", record.finished)
        object.set("wanted", record.wanted)
        return object.text
    }
}
