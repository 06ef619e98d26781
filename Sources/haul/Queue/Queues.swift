import ArgumentParser
import HaulBus
import HaulContract
import HaulRedis
import HaulTerminal

struct Queues: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "queues", abstract: "List the queues of this Redis.",
        discussion:
            "They are found by their keys, in pages (SCAN): with millions of keys this takes some seconds. Of the roles in docs/operate/redis.md the inspector may."
    )

    @OptionGroup var common: CommonOptions

    func run() async throws {
        let first = try await common.connect()
        let names: [QueueName]
        do throws(RedisError) { names = try await QueueName.all(on: first.redis) } catch {
            guard error.code == .noPermission else { throw ExitStatus.printing(error) }
            throw ExitStatus.printing(
                .redisUnreachable,
                "this user may not list the queues of a Redis (SCAN); the role inspector may. haul stats --queue NAME shows one"
            )
        }
        guard !names.isEmpty || common.json else { return Terminal.printError("haul: this Redis has no queue") }
        var table = Table(
            [.init(title: "QUEUE", minWidth: 8, rank: 10)]
                + Self.shown.map { .init(title: $0.rawValue.uppercased(), isNumber: true) }
                + [.init(title: "WORKERS", isNumber: true), .init(title: "", rank: 8)])
        var refused: [String] = []
        defer {
            for name in refused { Terminal.printError("haul: this user may not read the queue \(name)".printable) }
        }
        for name in names {
            // In a cluster each queue may be on another server, so each has a client of its own.
            let queue = Queue(name, redis: Redis(try common.url(), name: "haul-cli", patience: .once))
            let stats: QueueStats
            do throws(RedisError) { stats = try await queue.stats() } catch {
                await queue.close()
                guard error.code == .noPermission, names.count > refused.count + 1 else {
                    throw ExitStatus.printing(error)
                }
                refused.append(name.text)
                continue
            }
            await queue.close()
            let counts = Self.shown.map { stats.counts[$0] ?? 0 }
            if common.json {
                let states = zip(Self.shown, counts).map { ($0.rawValue, String($1)) }
                Terminal.line(
                    JSON.object(
                        [("queue", JSON.quoted(name.text))] + states
                            + [("workers", String(stats.workers)), ("queue_paused", String(stats.isPaused))]))
            } else {
                let note =
                    stats.isPaused ? "paused\(stats.scopeOfPause)" : stats.maxRunning.map { "at most \($0)" } ?? ""
                table.add([name.text] + counts.map(String.init) + [String(stats.workers), note])
            }
        }
        for line in common.json ? [] : table.lines(width: Terminal.width) { Terminal.line(line) }
    }

    private static let shown: [JobState] = [.queued, .scheduled, .running, .paused, .failed, .completed]
}
