import HaulBus
import HaulContract
import HaulTerminal
import HaulWeb

/// `haul stats --hosts`, `--failures`, `--bottlenecks` and `--ages`: what the page shows of a queue, read in the same way.
/// So the cost of a call in Redis does not depend on the number of jobs.
enum StatsFacts {
    static func printHosts(_ queue: Queue, json: Bool) async throws {
        let answer = try JSON(await QueueReaderCache(queue).hosts())
        let now = answer["now"]?.integer ?? 0
        let hosts = answer["hosts"]?.array ?? []
        if json {
            for host in hosts { Terminal.line(host.text) }
            return
        }
        guard !hosts.isEmpty else {
            return Terminal.printError("haul: no host has jobs, limits or recent failures in the queue \(queue.name)")
        }
        var table = Table([
            .init(title: "HOST", minWidth: 12, rank: 10), .init(title: "RUNNING", isNumber: true, rank: 9),
            .init(title: "WAITING", isNumber: true, rank: 8), .init(title: "SPEED", isNumber: true, rank: 7),
            .init(title: "FAILED", isNumber: true, rank: 9), .init(title: "BACK-OFF", rank: 6),
            .init(title: "LIMITS", minWidth: 8, rank: 5),
        ])
        for host in hosts {
            func number(_ name: String) -> Int64 { host[name]?.integer ?? 0 }
            // Only of a sample of the queue is it known for which host its elements are.
            let waiting = "\(number("queued") > 0 ? "~" : "")\(number("queued") + number("deferred"))"
            let failed = (host["hour"]?.array ?? []).reduce(0) { $0 + ($1.integer ?? 0) }
            table.add([
                host["host"]?.string ?? "", String(number("running")), waiting, Units.speed(number("speed")),
                String(failed), host["backoff_until"]?.integer.map { "for \(Age.text($0 - now))" } ?? "",
                limits(host["limits"]),
            ])
        }
        for line in table.lines(width: Terminal.width) { Terminal.line(line) }
        let rest = (answer["total"]?.integer ?? 0) - Int64(hosts.count)
        if rest > 0 { Terminal.printError("haul: \(rest) more hosts have jobs, limits or recent failures") }
        let (counted, all) = (answer["failures"]?.integer ?? 0, Int64(try await queue.count(in: .failed)))
        if all > counted { Terminal.printError("haul: FAILED counts the newest \(counted) of \(all) failed jobs") }
    }

    /// `connections 4, starts 10/s`, as a queued job names the limit for which it waits.
    static func limits(_ json: JSON?) -> String {
        (json?.members ?? []).map { limit in
            let value = limit.value
            let text =
                switch limit.name {
                case "rate": value.integer.map(Units.speed)
                case "min_speed": value.integer.map(Units.speed)
                case "max_bytes": value.integer.map(Units.bytes)
                case "max_seconds": value.integer.map { Units.duration($0) }
                default: nil as String?
                }
            return "\(limit.name) \(text ?? value.string ?? value.text)"
        }.joined(separator: ", ")
    }

    static func printAges(_ queue: Queue, json: Bool) async throws {
        let answer = try JSON(await QueueReaderCache(queue).overview())
        let states = [("running", answer["running_ages"]), ("queued", answer["waiting_ages"])]
        if json {
            return Terminal.line(JSON.object(states.compactMap { name, ages in ages.map { (name, $0.text) } }))
        }
        var table = Table([
            .init(title: "STATE"), .init(title: "HALF UNDER", isNumber: true),
            .init(title: "95 OF 100 UNDER", isNumber: true), .init(title: "OLDEST", isNumber: true),
            .init(title: "OF JOBS", isNumber: true),
        ])
        for (name, ages) in states {
            let times = ["median", "p95", "oldest"].map { ages?[$0]?.integer.map { Age.text($0) } ?? "-" }
            table.add([name] + times + [String(ages?["of"]?.integer ?? 0)])
        }
        for line in table.lines(width: Terminal.width) { Terminal.line(line) }
    }

    static func printFailures(_ queue: Queue, json: Bool) async throws {
        let (groups, count, now) = try await QueueReaderCache(queue).failureGroups()
        if json {
            for group in groups { Terminal.line(group.json) }
            return
        }
        guard !groups.isEmpty else {
            return Terminal.printError("haul: no job of the queue \(queue.name) is failed")
        }
        var table = Table([
            .init(title: "FAILED", isNumber: true, rank: 10), .init(title: "20 MIN", isNumber: true, rank: 7),
            .init(title: "LAST", isNumber: true, rank: 6), .init(title: "ERROR", rank: 10),
            .init(title: "HOST", minWidth: 12, rank: 10), .init(title: "RETRY", rank: 8),
            .init(title: "FOR EXAMPLE", minWidth: 8, rank: 5),
        ])
        for group in groups {
            table.add([
                String(group.count), String(group.recentCount), Age.text(now - group.newest), group.error, group.host,
                group.isRetryable ? "may help" : "fails again", group.example,
            ])
        }
        for line in table.lines(width: Terminal.width) { Terminal.line(line) }
        let all = try await queue.count(in: .failed)
        if all > count { Terminal.printError("haul: these are the newest \(count) of \(all) failed jobs") }
    }

    static func printBottlenecks(_ queue: Queue, json: Bool) async throws {
        let (found, now) = try await QueueReaderCache(queue).bottlenecks()
        if json {
            for bottleneck in found { Terminal.line(bottleneck.json) }
            return
        }
        guard !found.isEmpty else {
            return Terminal.printError("haul: no limit and no pause slows jobs of the queue \(queue.name)")
        }
        var table = Table([
            .init(title: "QUEUED", isNumber: true, rank: 10), .init(title: "RUNNING", isNumber: true, rank: 10),
            .init(title: "SCHEDULED", isNumber: true, rank: 9),
            .init(title: "SLOWED BY", minWidth: 12, rank: 10),
        ])
        for bottleneck in found {
            let counts = [bottleneck.queued, bottleneck.running, bottleneck.scheduled].map { String($0) }
            table.add(counts + [bottleneck.text(at: now)])
        }
        for line in table.lines(width: Terminal.width) { Terminal.line(line) }
    }
}
