import ArgumentParser
import HaulBus
import HaulContract
import HaulRedis
import HaulTerminal

struct QueueCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "queue", abstract: "Pause, resume, limit, set up or drain a whole queue.",
        subcommands: [
            PauseQueue.self, ResumeQueue.self, LimitQueue.self, SetQueue.self, UnsetQueue.self, ShowQueue.self,
            ListChanges.self, DrainQueue.self,
        ])

    struct PauseQueue: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "pause", abstract: "Start no jobs until the queue is resumed; running jobs go on.")
        @OptionGroup var common: CommonOptions
        func run() async throws {
            let queue = try await common.connect()
            try await queue.change(ChangeRecord(setting: "paused=1")) { () throws(RedisError) in
                try await queue.setSetting("paused", to: "1")
            }
            Terminal.line(common.json ? "{\"paused\":true}" : "the queue \(queue.name) is paused")
        }
    }

    struct ResumeQueue: AsyncParsableCommand {
        static let configuration = CommandConfiguration(commandName: "resume", abstract: "Start jobs again.")
        @OptionGroup var common: CommonOptions
        func run() async throws {
            let queue = try await common.connect()
            try await queue.change(ChangeRecord(setting: "paused=none")) { () throws(RedisError) in
                try await queue.setSetting("paused", to: nil)
            }
            Terminal.line(common.json ? "{\"paused\":false}" : "the queue \(queue.name) is open")
        }
    }

    struct LimitQueue: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "limit", abstract: "Limit the jobs that run at once in the whole fleet; running jobs go on.")
        @OptionGroup var common: CommonOptions
        @Argument(help: "A whole number, or none.") var limit: String
        func run() async throws {
            let count = Int(limit)
            guard limit == "none" || count.map({ $0 >= 0 }) == true else {
                throw ExitStatus.printing(
                    .usage, "the limit must be a whole number, 0 or more, or none, not \"\(limit)\"")
            }
            let queue = try await common.connect()
            try await queue.change(ChangeRecord(setting: "max_running=\(limit)")) { () throws(RedisError) in
                try await queue.setSetting("max_running", to: count.map(String.init))
            }
            if common.json { return Terminal.line("{\"max_running\":\(count.map(String.init) ?? "null")}") }
            Terminal.line(
                count.map { "at most \($0) jobs of the queue \(queue.name) run at once\(queue.scopeOfLimits)" }
                    ?? "the queue \(queue.name) has no limit")
        }
    }

    struct DrainQueue: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "drain", abstract: "Wait until nothing is queued, scheduled or running.",
            discussion:
                "Waiting jobs have to run or be cancelled. If the queue is paused, only running jobs end. Paused jobs and schedules stay, and are named on standard error."
        )
        @OptionGroup var common: CommonOptions
        func run() async throws {
            let queue = try await common.connect()
            var hasComplained = false
            // The lists of a queue are read one after another, and a job that changes its place meanwhile may be in none
            // of them. So the queue has to be found empty twice.
            var (timesEmpty, isBlind) = (0, false)
            while true {
                let stats = try await queue.stats()
                let left = [JobState.queued, .scheduled, .running].reduce(0) { $0 + (stats.counts[$1] ?? 0) }
                // The last job may have ended without its next step, its event or its reply.
                let unfinished = left == 0 ? try await queue.unfinishedEnds() : 0
                isBlind = unfinished == nil
                let owed = unfinished ?? 0
                timesEmpty = left + owed == 0 ? timesEmpty + 1 : 0
                if owed > 0, !hasComplained, stats.workers == 0 {
                    Terminal.printError(
                        "haul: no worker serves the queue \(queue.name), and \(owed) next steps, events or replies of ended jobs "
                            + "wait for one: this command ends when a worker has sent them")
                    hasComplained = true
                }
                if timesEmpty == 2 { break }
                if left > 0, !hasComplained, stats.isPaused || stats.maxRunning.map({ $0 <= 0 }) ?? false {
                    Terminal.printError(
                        "haul: the queue \(queue.name) starts no jobs (haul stats says why), so \(left) \(left == 1 ? "waits" : "wait"): "
                            + "this command ends when they have run or are cancelled")
                    hasComplained = true
                }
                try await Task.sleep(for: .milliseconds(500))
            }
            let stats = try await queue.stats()
            if isBlind {
                Terminal.printError(
                    "haul: this user of Redis may not read whether next steps, events or replies of ended jobs still wait for a "
                        + "worker. The role operator of the present users.acl may: drain again with it")
            }
            let paused = stats.counts[.paused] ?? 0
            // A user who may not read schedules drains without their number.
            let schedules = (try? await queue.scheduleCount()) ?? 0
            if common.json {
                return Terminal.line("{\"drained\":true,\"paused\":\(paused),\"schedules\":\(schedules)}")
            }
            Terminal.line("nothing of the queue \(queue.name) is queued, scheduled or running")
            if let rest = Self.rest(paused, schedules) { Terminal.printError("haul: the queue still has \(rest)") }
        }

        /// What a drained queue still has; nil if there is nothing.
        private static func rest(_ paused: Int, _ schedules: Int) -> String? {
            let jobs =
                paused == 0
                ? nil : "\(paused) paused \(paused == 1 ? "job" : "jobs"), which haul resume or haul remove ends"
            let names = schedules == 1 ? "1 schedule, which pushes" : "\(schedules) schedules, which push"
            let due = schedules == 0 ? nil : "\(names) jobs until haul schedule pause or remove"
            let rest = [jobs, due].compactMap(\.self)
            return rest.isEmpty ? nil : rest.joined(separator: "; and ")
        }
    }
}

struct LoadFunctions: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "load-functions",
        abstract: "Load this version's functions into Redis, for workers that may not do so themselves.",
        discussion: "Run it once for each version, before its first worker starts. It may be repeated.")
    @OptionGroup var common: CommonOptions

    func run() async throws {
        // A Redis that loads its data answers late.
        let queue = try await common.connect(timeout: .seconds(10))
        let count = try await load(in: queue)
        let name = queue.functionLibrary
        if common.json {
            return Terminal.line(JSON.object([("library", JSON.quoted(name)), ("servers", String(count))]))
        }
        Terminal.line(count == 1 ? "\(name) is loaded" : "\(name) is loaded on \(count) servers")
    }

    /// Tries again for a minute while Redis refuses commands for a time, or does not answer: it may have been started
    /// together with this command, and load its data.
    private func load(in queue: Queue) async throws -> Int {
        let deadline = ContinuousClock.now + .seconds(60)
        var isReported = false
        while true {
            do throws(RedisError) { return try await queue.loadFunctions() } catch {
                let isOverloaded = [.timedOut, .closed, .unreachable].contains(error.code)
                guard error.isTemporaryRefusal || isOverloaded, .now < deadline else { throw error }
                if !isReported { Terminal.printError("haul: \(error.message); trying again") }
                isReported = true
                try await Task.sleep(for: .milliseconds(500))
            }
        }
    }
}
