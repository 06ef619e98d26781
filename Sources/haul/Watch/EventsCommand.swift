import ArgumentParser
import HaulBus
import HaulContract
import HaulRedis
import HaulTerminal

struct EventsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "events", abstract: "Print the events that the queue has kept, oldest first.",
        discussion:
            "The queue keeps events while its setting event_stream is set: haul queue set event_stream 100000. "
            + "progress is never kept. With --json each line is the event as it was published.")
    @OptionGroup var common: CommonOptions
    @Argument(help: "Only the events of these jobs, or of batch/NAME.") var ids: [String] = []
    @Option(help: "Only events that are not older, like 90s, 10m, 2h or 7d.") var since: String?
    @Flag(help: "Also print the events that come, until interrupted.") var follow = false

    func run() async throws {
        var age: Int64?
        if let since {
            guard let milliseconds = Age.milliseconds(since) else {
                throw ExitStatus.printing(.usage, "--since must be a time like 90s, 10m, 2h or 7d, not \"\(since)\"")
            }
            age = milliseconds
        }
        let queue = try await common.connect()
        let (limit, now) = (try await queue.eventStream(), try await queue.time())
        var start = age.map { "\(max(0, now - $0))" } ?? "-"
        var last: String?
        while true {
            let events = try await queue.loggedEvents(from: start)
            events.forEach(show)
            guard let entry = events.last?.entry else { break }
            (last, start) = (entry, "(" + entry)
        }
        if limit == nil, last == nil || follow {
            throw ExitStatus.printing(
                .usage,
                "the queue \(queue.name) keeps no events: haul queue set event_stream 100000 keeps the last 100000")
        }
        guard follow else { return }
        let waiter = Redis(queue.redis.url, name: "haul-events")
        // Whatever came after the reading above is later than its last entry, or than its beginning.
        var next = last ?? "\(now)-0"
        while true {
            let events = try await queue.nextLoggedEvents(after: next, block: .seconds(5), on: waiter)
            events.forEach(show)
            next = events.last?.entry ?? next
        }
    }

    private func show(_ logged: LoggedEvent) {
        guard ids.isEmpty || ids.contains(logged.id) else { return }
        if common.json { return Terminal.line(logged.text) }
        guard let event = Event(logged.text.utf8) else { return }
        Terminal.line("\(Age.date(event.at))  \(EventLine.text(event))")
    }
}
