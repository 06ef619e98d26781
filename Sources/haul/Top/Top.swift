import ArgumentParser
import Glibc
import HaulBus
import HaulContract
import HaulRedis
import HaulTerminal

struct Top: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "top", abstract: "Show a queue live, on the whole screen.",
        discussion: """
            Press ? for the keys. Without a terminal, or with --once, it prints one screen and ends. NO_COLOR is obeyed. \
            Each refresh asks Redis for some hundreds of jobs at most, however many run.
            """)

    // The options of CommonOptions without --json, which only has a message of its own.
    @Option(name: .long, help: CommonOptions.redisHelp) var redis: String?
    @Option(name: .long, help: CommonOptions.queueHelp, completion: Completer.queues) var queue: String?
    @Flag(name: .long, help: .hidden) var json = false
    @Flag(help: "Print one screen and exit.") var once = false
    @Option(help: "Seconds between refreshes, 0.5 or more.") var interval = 1.0

    func validate() throws {
        guard interval >= 0.5, interval <= 3600 else {
            throw ValidationError("--interval must be from 0.5 to 3600, not \(interval)")
        }
        guard !json else { throw ValidationError("haul top has no --json: use haul stats --json") }
    }

    func run() async throws {
        var common = CommonOptions()
        (common.redis, common.queue, common.json) = (redis, queue, false)
        let queue = try await common.connect()
        let isTerminal = Terminal.isInteractive && isatty(STDIN_FILENO) == 1
        guard !once, isTerminal else { return try await printOnce(queue) }
        let session = TopSession(queue, interval: .seconds(interval))
        try await session.run()
    }

    private func printOnce(_ queue: Queue) async throws {
        var model = TopModel(queue: queue.name.text)
        let reader = TopReader(queue)
        let data = try await reader.read(TopReader.Focus())
        model.apply(data)
        await reader.close()
        // Without keys nothing can be selected.
        model.selected = nil
        let (width, height) = Terminal.size
        let rows = TopLayout(model: model, width: width, height: height, isUnicode: Columns.showsUnicode).rows
        // The last row lists keys, which are of no use here.
        for row in rows.dropLast() {
            let text = row.text
            Terminal.line(String(text.prefix(text.count - text.reversed().prefix { $0 == " " }.count)))
        }
    }
}
