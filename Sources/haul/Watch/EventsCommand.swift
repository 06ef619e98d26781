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
        if let id = ids.first(where: { !JobField.isID($0.hasPrefix("batch/") ? String($0.dropFirst(6)) : $0) }) {
            throw ExitStatus.printing(.usage, "\"\(id.printable)\" is neither a job's id nor batch/NAME")
        }
        let queue = try await common.connect()
        let (limit, now) = (try await queue.eventStream(), try await queue.time())
        if let age, let oldest = try await queue.oldestLoggedEvent(), oldest > now - age {
            Terminal.printError("haul: the queue \(queue.name) keeps no event from before \(Age.date(oldest))")
        }
        var reader = EventLogReader(queue, from: age.map { "\(max(0, now - $0))" } ?? "-")
        while case let events = try await reader.next(), !events.isEmpty { events.forEach(show) }
        if reader.hasGap { Self.warnOfGap() }
        if limit == nil, follow || reader.ends.allSatisfy({ $0.last == nil }) {
            throw ExitStatus.printing(
                .usage,
                "the queue \(queue.name) keeps no events: haul queue set event_stream 100000 --queue \(queue.name) keeps the last 100000"
            )
        }
        guard follow else { return }
        // Whatever came after the reading above is later than its last entry, or than its beginning.
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (queue, last) in reader.ends { group.addTask { try await follow(queue, after: last ?? "\(now)") } }
            try await group.waitForAll()
        }
    }

    /// Prints the events of a queue, or of one of its partitions, without end. While Redis is away it tries again,
    /// because the stream has kept what was published meanwhile.
    private func follow(_ queue: Queue, after entry: String) async throws {
        let waiter = Redis(queue.redis.url, name: "haul-events")
        var (follower, isInterrupted) = (EventLogFollower(queue, after: entry), false)
        while true {
            do throws(RedisError) {
                let page = try await follower.next(within: .seconds(5), on: waiter)
                isInterrupted = false
                if page.hasGap { Self.warnOfGap() }
                page.events.forEach(show)
            } catch {
                guard error.isTransient else { throw error }
                if !isInterrupted { Terminal.printError("haul: \(error.message); trying again") }
                isInterrupted = true
                try await Task.sleep(for: .seconds(1))
            }
        }
    }

    private static func warnOfGap() {
        Terminal.printError("haul: events may be missing here: the queue no longer has them")
    }

    private func show(_ logged: LoggedEvent) {
        guard ids.isEmpty || ids.contains(logged.id) else { return }
        if common.json { return Terminal.line(logged.text) }
        guard let event = Event(logged.text.utf8) else { return }
        Terminal.line("\(Age.date(event.at))  \(EventLine.text(event))")
    }
}
