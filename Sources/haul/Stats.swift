import ArgumentParser
import HaulBus
import HaulContract
import HaulRedis

struct Stats: AsyncParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Count the jobs by state.")

    @OptionGroup var common: CommonOptions

    /// What is said where nobody takes the queue's jobs.
    static func unserved(_ queue: Queue) -> String {
        "no worker serves the queue \(queue.name) now: haul worker --queue \(queue.name) starts one"
    }

    func run() async throws {
        let queue = try await common.connect()
        let stats = try await reaching { () throws(RedisError) in try await queue.stats() }
        let workers = try await reaching { () throws(RedisError) in try await queue.workerCount() }
        let counts = JobState.allCases.map { ($0.rawValue, stats.counts[$0] ?? 0) } + [("rejected", stats.rejected)]
        if common.json {
            let limit = stats.maxRunning.map { [("max_running", String($0))] } ?? []
            let state = [
                ("queue", JSON.quoted(queue.name.text)), ("workers", String(workers)),
                ("queue_paused", String(stats.isPaused)),
            ]
            Terminal.line(JSON.object(state + counts.map { ($0, String($1)) } + limit))
        } else {
            for (name, count) in counts { Terminal.line(name.padded(to: 12) + String(count)) }
            if stats.counts.values.allSatisfy({ $0 == 0 }), stats.rejected == 0, workers == 0 {
                Terminal.complain("haul: the queue \(queue.name) is unknown here: it has no job and no worker")
            } else if workers == 0 {
                Terminal.complain("haul: \(Self.unserved(queue))")
            }
            if stats.isPaused { Terminal.line("the queue is paused: haul queue resume --queue \(queue.name)") }
            if let limit = stats.maxRunning { Terminal.line("at most \(limit) run at once") }
        }
    }
}

struct Workers: AsyncParsableCommand {
    static let configuration = CommandConfiguration(abstract: "List the workers.")

    /// "unlimited" slots are none.
    private static let numbers: Set<String> = ["pid", "running", "seen", "slots"]

    @OptionGroup var common: CommonOptions

    func run() async throws {
        let queue = try await common.connect()
        for (name, fields) in try await reaching({ () throws(RedisError) in try await queue.workers() }) {
            if common.json {
                let members = [("name", JSON.quoted(name))] + JSON.members(fields, raw: Self.numbers)
                Terminal.line(JSON.object(members))
            } else {
                let seen =
                    (fields["seen"].flatMap { Int64($0) }).map {
                        "seen \(Units.duration(max(0, UnixTime.milliseconds / 1000 - $0 / 1000))) ago"
                    } ?? ""
                Terminal.line(
                    "\(name)  \(fields["running"] ?? "0") of \(fields["slots"] ?? "?") slots  \(seen)  \(fields["host"] ?? "")"
                )
            }
        }
    }
}
