import ArgumentParser
import Glibc
import HaulBus
import HaulContract
import HaulTerminal
import HaulWorker

extension ChangeRecord {
    /// A change by whoever runs this command.
    init(byUser action: String) { self.init(action, by: Self.user, via: .command) }

    /// A change of a schedule.
    init(byUser action: String, ofSchedule name: String) {
        self.init(byUser: action)
        schedule = name
    }

    /// A change of settings. Each is its name and the new value; a value that may be secret is left out.
    init(setting settings: String...) {
        self.init(byUser: "set")
        self.settings = settings.joined(separator: " ")
    }

    /// The name of the user and of the machine. With sudo it is the user who ran sudo.
    private static let user: String = {
        let user = getenv("SUDO_USER") ?? getpwuid(geteuid())?.pointee.pw_name
        return "\(user.map { String(cString: $0) } ?? "user \(geteuid())")@\(Host.name)"
    }()

    /// Who made the change, as a sentence names it.
    var author: String { via == .command ? by : "\(by) (\(via.rawValue))" }

    /// What was changed, as the table has it.
    fileprivate var subject: String {
        if let settings { return settings }
        if let batch { return "batch \(batch)" }
        if let schedule { return "schedule \(schedule)" }
        let jobs = jobs ?? ids.count
        if let filter { return "\(jobs) \(jobs == 1 ? "job" : "jobs") with \(filter)" }
        let rest = jobs - ids.count
        return ids.joined(separator: " ") + (rest > 0 ? " and \(rest) more" : "")
    }
}

extension QueueCommand {
    struct ListChanges: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "changes", abstract: "Show who changed what in the queue, the newest change first.",
            discussion:
                "The last 1000 changes by the page, by clients of aria2's RPC and by this command are kept. Changes with redis-cli or a client library are not recorded."
        )
        @OptionGroup var common: CommonOptions
        @Option(help: "The maximum number of changes to show.") var limit = 20

        func validate() throws {
            guard limit > 0 else { throw ValidationError("--limit must be 1 or more, not \(limit)") }
        }

        func run() async throws {
            let queue = try await common.connect()
            let changes = try await queue.changes(limit: limit)
            if common.json { return changes.forEach { Terminal.line($0.json) } }
            if changes.isEmpty { return Terminal.line("no change of the queue \(queue.name) is recorded") }
            let now = try await queue.time()
            var table = Table([
                .init(title: "AGE", isNumber: true), .init(title: "BY"), .init(title: "ACTION"), .init(title: "OF"),
            ])
            for change in changes {
                table.add([change.at.map { Age.text(now - $0) } ?? "", change.author, change.action, change.subject])
            }
            for line in table.lines(width: Terminal.width) { Terminal.line(line) }
        }
    }
}
