import ArgumentParser
import HaulBus
import HaulContract
import HaulTerminal

struct ScheduleCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "schedule", abstract: "Push a job at certain times.",
        subcommands: [
            Add.self, ListSchedules.self, PauseSchedule.self, ResumeSchedule.self, RunSchedule.self,
            RemoveSchedule.self,
        ])

    struct Add: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "add", abstract: "Add a schedule, or replace the one of this name.",
            discussion:
                "All runs are runs of one job, whose id is the name. So a file that has not changed is not downloaded again. "
                + "docs/guides/schedules.md has examples.")
        @OptionGroup var common: CommonOptions
        @Argument(help: "The name of the schedule.") var name: String
        @Argument(help: "A URL, or a job as a JSON object.") var job: String
        @Option(help: "The time between two runs, like 90s, 15m, 6h or 1d.") var every: String?
        @Option(help: "Minute, hour, day of month, month and day of week, like \"30 3 * * mon-fri\".") var cron: String?
        @Option(help: "The time zone of --cron, like Europe/Berlin. [UTC]") var zone: String?
        @Option(
            name: [.customShort("o", allowingJoined: true), .customLong("path")],
            help: "Path beneath the workers' root; ends in / for a directory.")
        var path: String?
        @Option(help: "Runs that were due while no worker served the queue: one of them takes place, or none.")
        var catchUp = Schedule.CatchUp.one
        @Option(help: "A run that is due while the last one has not ended: skip or allow; allow requires --unique.")
        var overlap = Schedule.Overlap.skip
        @Flag(help: "Make each run a job of its own, with the id NAME:TIME.") var unique = false

        func run() async throws {
            let schedule = try schedule()
            let queue = try await common.connect()
            if let fault = queue.fault(of: schedule, as: name) {
                throw ExitStatus.printing(.usage, fault + ". Nothing was added.")
            }
            let (count, before) = (try await queue.scheduleCount(), try await queue.scheduleDefinition(name))
            guard before != nil || count < Schedule.maxCount else {
                throw ExitStatus.printing(
                    .usage,
                    "the queue \(queue.name) has \(count) schedules, and no more than \(Schedule.maxCount) are allowed")
            }
            let current = try await queue.add(schedule, as: name)
            await queue.record(ChangeRecord(byUser: "add", ofSchedule: name))
            let next = try current.next(after: try await queue.time())
            if common.json {
                var object = JSONObject()
                object.set("schedule", name)
                object.set("next", next)
                return Terminal.line(object.text)
            }
            Terminal.line(
                current.isPaused
                    ? "\(name)  paused: haul schedule resume \(name)"
                    : "\(name)  next run \(next.map(Age.date) ?? "never")")
        }

        private func schedule() throws -> Schedule {
            try ScheduleCommand.check(name)
            var seconds: Int64?
            if let every {
                guard let milliseconds = Age.milliseconds(every) else {
                    throw ExitStatus.printing(
                        .usage, "--every must be a time like 90s, 15m, 6h or 1d, not \"\(every)\"")
                }
                seconds = milliseconds / 1000
            }
            var members: [(String, String)] = []
            if job.hasPrefix("{") {
                do { members = try JSON(job).members?.map { ($0.name, $0.raw) } ?? [] } catch {
                    throw ExitStatus.printing(.usage, "the job is not valid JSON: \(error)")
                }
            } else {
                members = [("url", JSON.quoted(job))]
            }
            if let path { members = members.filter { $0.0 != "path" } + [("path", JSON.quoted(path))] }
            do {
                let json = try JSON(JSON.object(members))
                let schedule = try Schedule(
                    every: seconds, cron: cron, zone: zone, catchUp: catchUp, overlap: overlap, isUnique: unique,
                    job: json)
                // The machine of the command stands for those of the workers.
                _ = try schedule.rules()
                if let unknown = schedule.unknownField {
                    throw ExitStatus.printing(
                        .usage, "\(unknown): no such field (docs/reference/fields.md lists them). Nothing was added.")
                }
                return schedule
            } catch let error as ExitStatus { throw error } catch {
                throw ExitStatus.printing(.usage, "\(error). Nothing was added.")
            }
        }
    }

    struct ListSchedules: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "list", abstract: "List schedules with their next and last runs.")
        @OptionGroup var common: CommonOptions

        func run() async throws {
            let queue = try await common.connect()
            let (records, now) = (try await queue.schedules(), try await queue.time())
            if common.json { return records.forEach { Terminal.line($0.json) } }
            if records.isEmpty { return Terminal.printError("haul: the queue \(queue.name) has no schedule") }
            var table = Table([
                .init(title: "SCHEDULE", minWidth: 8, rank: 10), .init(title: "WHEN", minWidth: 12, rank: 8),
                .init(title: "NEXT"), .init(title: "LAST"), .init(title: "STATE"),
                .init(title: "PUSHED", isNumber: true, rank: 4), .init(title: "SKIPPED", isNumber: true, rank: 5),
                .init(title: "MISSED", isNumber: true, rank: 6), .init(title: "URL", minWidth: 12, rank: 3),
                .init(title: "ERROR", minWidth: 12, rank: 7),
            ])
            for record in records {
                let last = record.fields["last_at"].flatMap { Int64($0) }
                var row: [String] = [record.name, Self.timing(of: record), Self.next(of: record, now)]
                row.append(last.map { "\(Age.text(now - $0)) ago" } ?? "")
                row.append(record.lastState?.rawValue ?? (last == nil ? "" : "forgotten"))
                for name in ["pushed", "skipped", "missed"] { row.append("\(record.count(name))") }
                row.append(record.maskedURL ?? "")
                row.append(record.error ?? "")
                table.add(row)
            }
            for line in table.lines(width: Terminal.width) { Terminal.line(line) }
            let omitted = table.omitted(width: Terminal.width).joined(separator: ", ")
            if !omitted.isEmpty {
                Terminal.printError("haul: the terminal is too narrow for \(omitted): --json has everything")
            }
        }

        private static func timing(of record: ScheduleRecord) -> String {
            switch record.schedule?.timing {
            case .every(let seconds): "every \(Units.duration(seconds))"
            case .cron(let expression): "\(expression.text) \(record.schedule?.zone ?? "UTC")"
            case nil: ""
            }
        }

        private static func next(of record: ScheduleRecord, _ now: Int64) -> String {
            if record.schedule?.isPaused == true { return "paused" }
            guard let next = record.next else { return record.error == nil ? "" : "never" }
            return next < now ? "due" : "in \(Age.text(next - now))"
        }
    }

    struct PauseSchedule: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "pause", abstract: "Push nothing until the schedule is resumed; a job that runs goes on.")
        @OptionGroup var common: CommonOptions
        @Argument(help: "The name of the schedule.") var name: String
        func run() async throws { try await ScheduleCommand.set(name, isPaused: true, common) }
    }

    struct ResumeSchedule: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "resume", abstract: "Push again from the next due time on.")
        @OptionGroup var common: CommonOptions
        @Argument(help: "The name of the schedule.") var name: String
        func run() async throws { try await ScheduleCommand.set(name, isPaused: false, common) }
    }

    struct RunSchedule: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "run", abstract: "Push the job now, besides the runs that are due, and print its id.")
        @OptionGroup var common: CommonOptions
        @Argument(help: "The name of the schedule.") var name: String

        func run() async throws {
            let queue = try await common.connect()
            let schedule = try await ScheduleCommand.schedule(name, in: queue)
            let time = try await queue.runSchedule(name)
            await queue.record(ChangeRecord(byUser: "run", ofSchedule: name))
            let id = schedule.id(ofRun: time, of: name)
            Terminal.line(common.json ? "{\"id\":\(JSON.quoted(id))}" : id)
        }
    }

    struct RemoveSchedule: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "remove", abstract: "Delete a schedule; the jobs that it has pushed stay.")
        @OptionGroup var common: CommonOptions
        @Argument(help: "The name of the schedule.") var name: String

        func run() async throws {
            // Another program may have written any name, and only this removes it.
            let queue = try await common.connect()
            let isRemoved = try await queue.removeSchedule(name)
            guard isRemoved else { throw ScheduleCommand.unknown(name, in: queue) }
            await queue.record(ChangeRecord(byUser: "remove", ofSchedule: name))
            Terminal.line(
                common.json ? "{\"schedule\":\(JSON.quoted(name)),\"removed\":true}" : "\(name)  removed")
        }
    }

    private static func check(_ name: String) throws {
        guard Schedule.isName(name) else {
            throw ExitStatus.printing(.usage, "the name of a schedule \(Schedule.nameRule), not \"\(name)\"")
        }
    }

    private static func unknown(_ name: String, in queue: Queue) -> ExitStatus {
        .printing(.jobFailed, "the queue \(queue.name) has no schedule \(name): haul schedule list shows all of them")
    }

    private static func schedule(_ name: String, in queue: Queue) async throws -> Schedule {
        try check(name)
        let text = try await queue.scheduleDefinition(name)
        guard let text else { throw unknown(name, in: queue) }
        do { return try Schedule(text) } catch {
            throw ExitStatus.printing(.usage, "the schedule \(name) is not valid: \(error)")
        }
    }

    private static func set(_ name: String, isPaused: Bool, _ common: CommonOptions) async throws {
        try check(name)
        let queue = try await common.connect()
        guard try await queue.scheduleDefinition(name) != nil else { throw unknown(name, in: queue) }
        try await queue.setPaused(isPaused, schedule: name)
        await queue.record(ChangeRecord(byUser: isPaused ? "pause" : "resume", ofSchedule: name))
        Terminal.line(
            common.json
                ? "{\"schedule\":\(JSON.quoted(name)),\"paused\":\(isPaused)}"
                : "\(name)  \(isPaused ? "paused" : "resumed")")
    }
}

extension Schedule.CatchUp: ExpressibleByArgument {}
extension Schedule.Overlap: ExpressibleByArgument {}
