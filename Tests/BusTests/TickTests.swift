import Glibc
import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulBus

/// The calls of a tick, and how little each of them does.
@Suite struct TickTests {
    private static let worker = WorkerIdentity(name: "w", store: "s")

    // MARK: Which calls a tick makes

    private static func runs(_ count: Int) -> [(Run, RunReport)] {
        (0..<count).map { (Run(id: "j\($0)", token: "t\($0)"), RunReport()) }
    }

    private static func reply(_ members: (String, RedisValue)...) -> RedisValue {
        .array(members.flatMap { [.bulk(Array($0.0.utf8)), $0.1] })
    }

    private static let yes = RedisValue.bulk([UInt8(ascii: "1")])

    @Test("many runs are reported once each, a few with each call, and the last call does all tasks")
    func pieces() throws {
        let runs = Self.runs(3000)
        var tick = Tick(Self.worker, runs: runs)
        var reported: [String] = []
        var kinds: [Tick.Step.Kind] = []
        while let step = tick.next() {
            #expect(step.runs.count <= Tick.maxRuns)
            #expect(tick.reported == reported.count)
            reported += step.runs.map(\.0.token)
            kinds.append(step.kind)
            try tick.add(Self.reply(), to: step)
        }
        #expect(reported == runs.map(\.0.token) && tick.reported == runs.count)
        #expect(kinds.first == .tick(isLast: false) && kinds.last == .tick(isLast: true))
        #expect(kinds.dropFirst().dropLast().allSatisfy { $0 == .report })
    }

    @Test("what there is to report of a run is asked right before its call, and is kept if the call fails")
    func asked() throws {
        let asked = Shared<[Int]>([])
        var tick = Tick(Self.worker, .runs, runs: Self.runs(70).map(\.0)) { index in
            asked.change { $0.append(index) }
            return RunReport()
        }
        let first = tick.next()
        #expect(asked.value == Array(0..<32) && tick.unsent.map(\.index) == Array(0..<32))
        try tick.add(Self.reply(), to: #require(first))
        #expect(tick.unsent.isEmpty)
        // The call fails, and is made again.
        for _ in 0..<2 { _ = tick.next() }
        #expect(asked.value == Array(0..<64) && tick.unsent.map(\.index) == Array(32..<64))
    }

    @Test("few runs, or none, cost one call", arguments: [0, 1, Tick.maxRuns]) func one(_ count: Int) throws {
        var tick = Tick(Self.worker, runs: Self.runs(count))
        let next = tick.next()
        let step = try #require(next)
        #expect(step.kind == .tick(isLast: true) && step.runs.count == count)
        try tick.add(Self.reply(), to: step)
        let last = tick.next()
        #expect(last == nil)
    }

    @Test("a run with a large report is the last one of its call") func large() throws {
        var runs = Self.runs(5)
        runs[2].1.offsets = ByteIntervals((0..<10_000).map { Int64($0) * 10..<Int64($0) * 10 + 5 })
        var tick = Tick(Self.worker, runs: runs)
        var counts: [Int] = []
        while let step = tick.next() {
            counts.append(step.runs.count)
            try tick.add(Self.reply(), to: step)
        }
        #expect(counts == [3, 2])
    }

    @Test("a tick for operations has no other tasks, and a tick for runs has no tasks at all")
    func extents() throws {
        for (scope, first) in [(Tick.Scope.operations, Tick.Step.Kind.tick(isLast: false)), (.runs, .report)] {
            var tick = Tick(Self.worker, scope, runs: Self.runs(100))
            var kinds: [Tick.Step.Kind] = []
            while let step = tick.next() {
                kinds.append(step.kind)
                try tick.add(Self.reply(), to: step)
            }
            #expect(kinds == [first, .report, .report, .report])
        }
    }

    @Test("runs that were reported while operations were left are reported again") func unsure() throws {
        var tick = Tick(Self.worker, runs: Self.runs(40))
        var reported: [String: Int] = [:]
        var calls = 0
        while let step = tick.next() {
            calls += 1
            for (run, _) in step.runs { reported[run.token, default: 0] += 1 }
            try tick.add(calls < 4 ? Self.reply(("unapplied", Self.yes), ("more", Self.yes)) : Self.reply(), to: step)
        }
        #expect(reported.count == 40 && reported.values.allSatisfy { $0 == 2 })
        #expect(tick.reported == 40 && calls == 6)
    }

    @Test("a tick knows which runs were reported before Redis failed") func failure() async throws {
        let f = try await QueueFixture()
        let runs = try await running(f, 70)
        var tick = Tick(f.worker, runs: runs)
        #expect(try await f.queue.step(&tick))
        f.server.signal(SIGKILL)
        await f.redis.end(by: .now + .milliseconds(100))
        await #expect(throws: RedisError.self) { try await f.queue.perform(&tick) }
        #expect(tick.reported == Tick.maxRuns)
    }

    // MARK: What the calls do

    private func running(_ f: QueueFixture, _ count: Int, _ more: String = "") async throws -> [(Run, RunReport)] {
        for n in 0..<count { try await f.push(#"{"url":"http://h/\#(n)","id":"r\#(n)"\#(more)}"#) }
        var runs: [(Run, RunReport)] = []
        while runs.count < count {
            let tokens = (0..<min(16, count - runs.count)).map { _ in Token.make() }
            for case .job(let claim) in try await f.queue.claim(f.worker, tokens: tokens) {
                runs.append((claim.run, RunReport()))
            }
        }
        return runs
    }

    @Test("a worker's own tick reaps none of its late runs, however many there are") func late() async throws {
        let f = try await QueueFixture()
        let runs = try await running(f, 250)
        for (run, _) in runs { try await f.redis.send(Command("ZADD", f.queue.keys.leases, 1000, run.id)) }
        let reply = try await f.queue.tick(f.worker, runs: runs)
        #expect(reply.fenced.isEmpty)
        #expect(try await f.queue.stats().counts[.running] == 250)
        try await f.expectOrder()
    }

    @Test("the next tick brings operations that were made in bulk to all runs") func bulk() async throws {
        let f = try await QueueFixture()
        let runs = try await running(f, 300)
        try await f.queue.request(.paused, of: runs.map(\.0.id))
        let reply = try await f.queue.tick(f.worker, runs: runs)
        #expect(reply.operations.count == 300 && reply.operations.values.allSatisfy { $0 == .paused })
        #expect(try await f.redis.send(Command("HLEN", f.queue.keys.want)).int == 0)
    }

    /// The number of commands since the last reset, with those that functions call.
    private func commands(_ f: QueueFixture) async throws -> Int {
        let text = try #require(try await f.redis.send(Command("INFO", "commandstats")).string)
        let counts = text.split(separator: "\r\n").filter { $0.hasPrefix("cmdstat_") }.compactMap { line in
            line.split(separator: ":calls=").last?.split(separator: ",").first.flatMap { Int($0) }
        }
        return counts.reduce(0, +)
    }

    @Test("a report costs Redis three commands for each run, and a few for each call")
    func cost() async throws {
        let f = try await QueueFixture()
        var runs = try await running(f, 320)
        _ = try await f.queue.tick(f.worker, runs: runs)
        for index in runs.indices {
            runs[index].1.fields = [("received", "1"), ("speed", "2")]
            runs[index].1.events = [Announcement("progress") { $0.set("received", 1) }]
        }
        try await f.redis.send(Command("CONFIG", "RESETSTAT"))
        _ = try await f.queue.tick(f.worker, runs: runs)
        let count = try await commands(f)
        // For each run: read, write, publish. For each of ten calls: the call itself, the clock, the epoch, the leases.
        // Two of the calls are ticks.
        #expect(count <= 3 * 320 + 4 * 10 + 2 * 40, "\(count)")
    }

    @Test("a tick without anything to do is one call, and few commands") func idle() async throws {
        let f = try await QueueFixture()
        var worker = f.worker
        (worker.hostIdentity, worker.process) = ("machine", "\(worker.instance) 1 1")
        _ = try await f.queue.tick(worker, runs: [])
        try await f.redis.send(Command("CONFIG", "RESETSTAT"))
        _ = try await f.queue.tick(worker, runs: [])
        let count = try await commands(f)
        // One of them looks at the queue's first element, which may be the first one that names a group. Three look for
        // workers that have died.
        #expect(count <= 36, "\(count)")
        #expect(try await f.server.cli("INFO", "commandstats").contains("cmdstat_fcall:calls=1,"))
    }

    /// Fills a queue so that very much is due at the same time.
    private func neglected(_ f: QueueFixture, _ count: Int) async throws {
        let keys = f.queue.keys
        for _ in 0..<count {
            try await f.redis.send(Command("LPUSH", keys.held("absent"), #"{"url":"http://h/held"}"#))
        }
        try await f.redis.send(Command("ZADD", keys.workers, 1000, "absent"))
        for kind in ["late", "due", "over"] {
            for n in 0..<count {
                let more = kind == "late" ? "" : kind == "due" ? #","delay":0.001"# : #","delay":1000,"deadline":0.001"#
                try await f.push(#"{"url":"http://h/\#(n)","id":"\#(kind)\#(n)"\#(more)}"#)
            }
        }
        var replies: [ClaimReply] = []
        repeat {
            replies = try await f.queue.claim(f.worker, tokens: (0..<16).map { _ in Token.make() })
        } while replies.contains { if case .empty = $0 { false } else { true } }
        for n in 0..<count {
            try await f.redis.send(Command("ZADD", keys.leases, 1000, "late\(n)"))
            try await f.redis.send(Command("ZADD", keys.scheduled, 1000, "due\(n)"))
            try await f.redis.send(Command("ZADD", keys.deadlines, 1000, "over\(n)"))
            try await f.redis.send(Command("ZADD", keys.index(.completed), 1000, "old\(n)"))
            try await f.redis.send(Command("ZADD", keys.unannounced, 1000, "unannounced\(n)"))
            try await f.redis.send(Command("LPUSH", keys.prefix + "deletions:s", #"["x","s","f","g","","1000"]"#))
        }
        try await f.queue.request(.paused, of: (0..<count).map { "early\($0)" })
    }

    @Test("no call of a tick does much, however much is due, and every task is done") func neglect() async throws {
        let f = try await QueueFixture()
        let run = try await running(f, 1)
        try await neglected(f, 400)
        let keys = f.queue.keys
        var (most, calls, dropped) = (0, 0, 0)
        try await eventually("all to be done", within: .seconds(60)) {
            var tick = Tick(f.worker, runs: run)
            while true {
                try await f.redis.send(Command("CONFIG", "RESETSTAT"))
                guard try await f.queue.step(&tick) else { break }
                most = max(most, try await commands(f))
                calls += 1
            }
            dropped += tick.reply.dropped.count
            return !tick.reply.hasMoreWork
        }
        print("a neglected queue: \(calls) calls, of \(most) commands at most")
        #expect(most <= 1000)
        #expect(dropped == 400)
        let counts = try await f.queue.stats().counts
        #expect(counts[.failed] == 400 && counts[.running] == 1 && counts[.scheduled] == 0)
        for name in [keys.index(.completed), keys.unannounced, keys.want, keys.held("absent")] {
            #expect(try await f.redis.send(Command("EXISTS", name)).int == 0, "\(name)")
        }
        // The late jobs, the due jobs, and the held elements.
        #expect(try await f.redis.send(Command("LLEN", keys.jobs)).int == 1200)
    }

    @Test("running jobs beyond their deadlines, however many, do not keep other jobs from ending")
    func overdue() async throws {
        let f = try await QueueFixture()
        let clock = "tick:now"
        var now = 1_800_000_000_000
        let queue = Queue(
            .default, redis: f.redis, policy: QueuePolicy(),
            functions: Functions(clock: "return redis.call('GET', '\(clock)')"))
        try await f.redis.send(Command("SET", clock, now))
        for n in 0..<310 {
            // The last ten jobs are delayed, and their deadlines come last.
            let more = n < 300 ? #""deadline":1"# : #""deadline":2,"delay":1000"#
            try await f.push(#"{"url":"http://h/\#(n)","id":"j\#(n)",\#(more)}"#)
        }
        _ = try await queue.register(f.worker, fields: [], known: [])
        var runs: [(Run, RunReport)] = []
        while runs.count < 300 {
            for case .job(let claim) in try await queue.claim(f.worker, tokens: (0..<10).map { _ in Token.make() }) {
                runs.append((claim.run, RunReport()))
            }
        }
        _ = try await queue.claim(f.worker, tokens: (0..<10).map { _ in Token.make() })
        for _ in 0..<6 {
            now += 1000
            try await f.redis.send(Command("SET", clock, now))
            #expect(try await queue.tick(f.worker, runs: runs).fenced.isEmpty)
        }
        #expect(try await queue.stats().counts[.failed] == 10)
        #expect(try await queue.stats().counts[.running] == 300)
    }
}
