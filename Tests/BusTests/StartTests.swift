import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulBus

/// How many jobs begin in a time, under a clock that the test controls.
@Suite("Limits of starts that the fleet shares")
struct StartTests {
    private final class Bench {
        let server: RedisServer
        let redis: Redis
        let queue: Queue
        let workers = ["w1", "w2"].map { WorkerIdentity(name: $0, store: "s") }
        var now: Int64 = 1_800_000_000_000
        /// When jobs began, by host.
        var starts: [String: [Int64]] = [:]
        /// When the pacer has to ask again.
        private var due: Int64?
        /// How often the pacer has asked.
        var paced = 0

        init() async throws {
            server = try await RedisServer()
            redis = Redis(try RedisURL(server.url), name: "starts")
            queue = Queue(
                .default, redis: redis, policy: QueuePolicy(),
                functions: Functions(
                    clock: "return redis.call('GET', 'test:now')", server: "return redis.call('GET', 'test:run')"))
            try await redis.send(Command("SET", "test:run", Token.make()))
            try await pass(0)
            for worker in workers { _ = try await queue.register(worker, fields: [], known: []) }
        }

        func pass(_ milliseconds: Int64) async throws {
            now += milliseconds
            try await redis.send(Command("SET", "test:now", Int(now)))
        }

        func limit(_ host: String, _ text: String) async throws {
            try await queue.setLimit(of: host, to: text)
        }

        func push(_ count: Int, host: String, from first: Int = 0, more: String = "") async throws {
            let elements = (first..<first + count).map {
                #"{"url":"http://\#(host)/\#($0)","id":"\#(host)\#($0)"\#(more)}"#
            }
            try await redis.send(Command(arguments: ["LPUSH", queue.keys.jobs] + elements))
        }

        /// Claims and settles all jobs that may begin now, with both workers in turn. Returns their ids.
        @discardableResult
        func work() async throws -> [String] {
            var (ids, idle, turn): ([String], Int, Int) = ([], 0, 0)
            while idle < 2 {
                let worker = workers[turn % 2]
                turn += 1
                let reply = try await queue.claim(worker, token: Token.make())
                switch reply {
                case .job(let claim):
                    idle = 0
                    ids.append(claim.run.id)
                    starts[claim.run.id.filter { !$0.isNumber }, default: []].append(now)
                    try await queue.settle(claim.run, as: QueueFixture.done, worker: worker)
                case .more: break
                default: idle += 1
                }
            }
            return ids
        }

        /// Lets time pass, with the calls of idle workers: ticks each second, and the pacer's calls. Returns the
        /// ids of the jobs that began.
        @discardableResult
        func live(_ milliseconds: Int64, ticks: Bool = true) async throws -> [String] {
            var ids = try await work()
            let end = now + milliseconds
            while now < end {
                try await pass(10)
                if ticks, now % 1000 == 0 {
                    for worker in workers {
                        if let wait = try await queue.tick(worker, runs: []).pace {
                            due = now + Int64(wait.milliseconds)
                        }
                    }
                }
                if let at = due, now >= at {
                    paced += 1
                    due = try await queue.pace(workers[0]).map { now + Int64($0.milliseconds) }
                }
                if now % 50 == 0 { ids += try await work() }
            }
            return ids
        }

        /// The maximum number of jobs of a host that began in any period of so many seconds.
        func most(_ host: String, in seconds: Int64) -> Int {
            let times = starts[host] ?? []
            return times.indices.map { first in times[first...].count { $0 < times[first] + seconds * 1000 } }.max()
                ?? 0
        }
    }

    @Test(
        "a limit that is raised holds soon",
        arguments: ["*", "a", "group:a"])
    func raised(name: String) async throws {
        let bench = try await Bench()
        func limit(_ text: String) async throws {
            if name == "*" {
                try await bench.queue.set(.starts, to: text)
            } else {
                try await bench.limit(name, #"{"starts":"\#(text)"}"#)
            }
        }
        try await limit("1/h")
        try await bench.push(160, host: "a", more: #","group":"a""#)
        #expect(try await bench.live(5000).count == 1)
        try await limit("10/s")
        let count = try await bench.live(15_000).count
        #expect((20...152).contains(count), "\(count)")
    }

    @Test(
        "as many jobs of the queue or of a group begin in a second as the limit allows, and no more",
        arguments: [
            ("*", "10/s", 10, ""), ("*", "40", 40, ""), ("*", "10/s", 10, #","group":"g""#),
            ("group:g", "10/s", 10, #","group":"g""#),
        ])
    func ofQueue(_ name: String, _ value: String, _ perSecond: Int, _ more: String) async throws {
        let bench = try await Bench()
        func limit(_ text: String?) async throws {
            if name == "*" {
                try await bench.queue.set(.starts, to: text)
            } else {
                try await bench.queue.setLimit(of: name, to: text.map { #"{"starts":"\#($0)"}"# })
            }
        }
        try await limit(value)
        try await bench.push(perSecond * 40, host: "a", more: more)
        let ids = try await bench.live(30_000)
        // A second may pass before the first tick.
        #expect(ids.count >= perSecond * 28, "\(ids.count)")
        #expect(bench.most("a", in: 10) <= perSecond * 10 + perSecond / 5 + 1)
        #expect(ids == (0..<ids.count).map { "a\($0)" })
        try await limit(nil)
        #expect(try await bench.live(6000).count == perSecond * 40 - ids.count)
    }

    @Test("jobs of a limited host begin in order, as often as allowed, and other jobs begin at once")
    func ofHost() async throws {
        let bench = try await Bench()
        try await bench.limit("slow", #"{"starts":"10/s"}"#)
        try await bench.limit("late", #"{"starts":"30/min"}"#)
        try await bench.push(300, host: "slow")
        try await bench.push(50, host: "late")
        try await bench.push(20, host: "fast")
        let first = try await bench.work()
        #expect(first.filter { $0.hasPrefix("fast") }.count == 20)
        #expect(first.filter { $0.hasPrefix("slow") } == ["slow0", "slow1", "slow2"])
        #expect(first.filter { $0.hasPrefix("late") } == ["late0"])
        #expect(try await bench.queue.stats().counts[.queued] == 346)
        // New jobs do not come before waiting ones.
        var began = first
        for round in 0..<20 {
            try await bench.push(3, host: "slow", from: 300 + 3 * round)
            began += try await bench.live(1000)
        }
        let slow = began.filter { $0.hasPrefix("slow") }
        #expect(slow == (0..<slow.count).map { "slow\($0)" })
        #expect(slow.count >= 190, "\(slow.count)")
        #expect(bench.most("slow", in: 10) <= 103 && bench.most("late", in: 10) <= 6)
        #expect((9...11).contains(bench.starts["late"]?.count ?? 0))
        // More than two calls for each start of `slow` would be too many.
        #expect(bench.paced <= 20 * 20)
    }

    @Test("both limits of a host are kept: a free connection alone lets no job begin") func both() async throws {
        let bench = try await Bench()
        try await bench.limit("slow", #"{"starts":"30/min","connections":1}"#)
        try await bench.push(3, host: "slow")
        let worker = bench.workers[0]
        guard case .job(let claim) = try await bench.queue.claim(worker, token: Token.make()) else {
            Issue.record("nothing was claimed")
            return
        }
        #expect(try claim.job().connections == 1)
        let reply = try await bench.queue.settle(claim.run, as: QueueFixture.done, worker: worker, next: Token.make())
        guard case .empty? = reply.next else {
            Issue.record("\(reply)")
            return
        }
        #expect(try await bench.live(5000) == ["slow1", "slow2"])
    }

    @Test("after a failover that lost the last starts no more jobs begin than allowed") func failover() async throws {
        let bench = try await Bench()
        try await bench.queue.set(.starts, to: "10/s")
        try await bench.push(400, host: "a")
        try await bench.live(5000)
        let key = bench.queue.keys[.starts]
        try await bench.redis.send(Command("COPY", key, "test:replica"))
        try await bench.live(1000)
        try await bench.redis.send(Command("COPY", "test:replica", key, "REPLACE"))
        try await bench.redis.send(Command("SET", "test:run", Token.make()))
        try await bench.live(10_000)
        #expect(bench.most("a", in: 10) <= 103)
        #expect((bench.starts["a"]?.count ?? 0) >= 145)
    }

    @Test("a job that is due between two ticks is promoted on time by one worker, and the others make no call for it")
    func due() async throws {
        let bench = try await Bench()
        let (first, second) = (bench.workers[0], bench.workers[1])
        func push(_ id: String, delay: String) async throws -> Duration? {
            let element = #"{"url":"http://a/","id":"\#(id)","delay":\#(delay)}"#
            try await bench.redis.send(Command("LPUSH", bench.queue.keys.jobs, element))
            guard case .empty(let dueIn) = try await bench.queue.claim(first, token: Token.make()) else { return nil }
            return dueIn
        }
        #expect(try await push("far", delay: "1.5") == nil)
        #expect(try await bench.queue.tick(first, runs: []).pace == nil)
        // The claim itself says what is due before any tick may know of it.
        #expect(try await push("near", delay: "0.3") == .milliseconds(300))
        #expect(try await bench.queue.tick(first, runs: []).pace == .milliseconds(300))
        #expect(try await bench.queue.tick(second, runs: []).pace == nil)
        try await bench.pass(300)
        #expect(try await bench.queue.pace(first) == nil)
        #expect(try await bench.work() == ["near"])
        try await bench.pass(700)
        #expect(try await bench.queue.tick(second, runs: []).pace == .milliseconds(500))
        // An earlier job takes the appointment away from a worker that would call too late.
        #expect(try await push("soon", delay: "0.2") == .milliseconds(200))
        #expect(try await bench.queue.tick(first, runs: []).pace == .milliseconds(200))
        try await bench.pass(200)
        #expect(try await bench.queue.pace(first) == .milliseconds(300))
        #expect(try await bench.work() == ["soon"])
        // Its worker does not call, but a tick does.
        try await bench.pass(600)
        #expect(try await bench.queue.tick(second, runs: []).pace == nil)
        #expect(try await bench.work() == ["far"])
        // The appointment goes by itself, and leaves nothing behind.
        #expect(try await bench.redis.send(Command("EXISTS", bench.queue.keys[.starts])).int == 0)
        try await eventually("the appointment to expire") {
            try await bench.redis.send(Command("EXISTS", bench.queue.keys[.pacer])).int == 0
        }
    }

    @Test("many jobs that are due at once are promoted in small calls") func manyDue() async throws {
        let bench = try await Bench()
        let elements = (0..<100).map { #"{"url":"http://a/","id":"\#($0)","delay":0.5}"# }
        try await bench.redis.send(Command(arguments: ["LPUSH", bench.queue.keys.jobs] + elements))
        try await bench.work()
        try await bench.pass(500)
        var calls = 0
        while try await bench.queue.pace(bench.workers[0]) != nil { calls += 1 }
        #expect((5...25).contains(calls))
        #expect(try await bench.work().count == 100)
    }

    @Test("if the pacer is gone, another worker becomes the pacer with its next tick") func pacer() async throws {
        let bench = try await Bench()
        try await bench.queue.set(.starts, to: "1/s")
        try await bench.push(9, host: "a")
        try await bench.work()
        #expect(try await bench.queue.tick(bench.workers[0], runs: []).pace != nil)
        #expect(try await bench.queue.tick(bench.workers[1], runs: []).pace == nil)
        #expect(try await bench.queue.pace(bench.workers[1]) == nil)
        #expect(try await bench.queue.pace(bench.workers[0]) != nil)
        try await bench.pass(1300)
        #expect(try await bench.queue.tick(bench.workers[1], runs: []).pace != nil)
        #expect(try await bench.queue.pace(bench.workers[0]) == nil)
    }

    @Test(
        "an invalid number of starts limits nothing", arguments: ["0", "-1", "10/d", "1.5", "x", "10/", ""])
    func invalid(_ value: String) async throws {
        #expect(!QueueSetting.starts.accepts(value))
        let bench = try await Bench()
        try await bench.redis.send(Command("HSET", bench.queue.keys.settings, "starts", value))
        try await bench.limit("a", "{\"starts\":\(JSON.quoted(value))}")
        try await bench.push(30, host: "a")
        #expect(try await bench.work().count == 30)
        let findings = try await Inspection(bench.queue).run()
        #expect(findings.count == 2 && findings.allSatisfy { $0.problem.contains("starts must be jobs per second") })
    }

    @Test("a `starts` key of another type is replaced") func strange() async throws {
        let bench = try await Bench()
        try await bench.redis.send(Command("SET", bench.queue.keys[.starts], "x"))
        try await bench.queue.set(.starts, to: "1/s")
        try await bench.push(3, host: "a")
        #expect(try await bench.work().count == 1)
    }

    @Test("a limit costs few commands of Redis for each job") func cost() async throws {
        let limits = [nil, "starts", "host_starts", "host_connections"]
        var times = [Double](repeating: .infinity, count: limits.count)
        // Alternately, and the least time counts: on a busy machine other processes take time from Redis.
        for _ in 0..<3 {
            for (index, limit) in limits.enumerated() {
                let (calls, time) = try await cost(of: limit)
                #expect(calls < (limit == nil ? 25 : 36), "\(limit ?? "no limit")")
                times[index] = min(times[index], time)
            }
        }
        for (limit, time) in zip(limits, times) { print("\(limit ?? "no limit"): \(time) µs of Redis for each job") }
    }

    /// Commands of Redis, and its time in functions in µs, for each job. A job is settled, and the same call claims the
    /// next one.
    private func cost(of limit: String?) async throws -> (calls: Double, time: Double) {
        let f = try await QueueFixture()
        switch limit {
        case "starts": try await f.queue.set(.starts, to: "1000000")
        case "host_starts": try await f.queue.setLimit(of: "h", to: #"{"starts":1000000}"#)
        case "host_connections": try await f.queue.set(.hostConnections, to: "1000")
        default: break
        }
        let jobs = 1000
        for index in 0..<jobs { try await f.push(#"{"url":"http://h/\#(index)"}"#) }
        var next: Claim? = try await f.claim()
        try await f.redis.send(Command("CONFIG", "RESETSTAT"))
        while let claim = next {
            let reply = try await f.queue.settle(
                claim.run, as: QueueFixture.done, worker: f.worker, next: Token.make())
            next = if case .job(let claim)? = reply.next { claim } else { nil }
        }
        let text = try await f.redis.send(Command("INFO", "commandstats")).string ?? ""
        func sum(_ name: String, of line: Substring) -> Double {
            line.split(separator: ",").first { $0.contains("\(name)=") }?.split(separator: "=").last.flatMap {
                Double($0)
            } ?? 0
        }
        let lines = text.split(separator: "\r\n").filter { $0.hasPrefix("cmdstat_") }
        let calls = lines.reduce(0) { $0 + sum("calls", of: $1) } / Double(jobs)
        let time = lines.filter { $0.hasPrefix("cmdstat_fcall:") }.reduce(0) { $0 + sum("usec", of: $1) } / Double(jobs)
        return (calls, time)
    }
}
