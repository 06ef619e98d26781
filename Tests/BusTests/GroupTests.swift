import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulBus

@Suite("Fair turns of groups")
struct GroupTests {
    private static func element(_ id: String, _ group: String?) -> String {
        let member = group.map { #","group":"\#($0)""# } ?? ""
        return #"{"id":"\#(id)","url":"http://h/\#(id)"\#(member)}"#
    }

    /// Pushes jobs of a group, whose ids are its name and a number.
    func push(_ f: QueueFixture, _ group: String?, _ numbers: Range<Int>, front: Bool = false) async throws {
        let elements = numbers.map { Self.element("\(group ?? "none")-\($0)", group) }
        try await push(f, elements, front: front)
    }

    func push(_ f: QueueFixture, _ elements: [String], front: Bool = false) async throws {
        for start in stride(from: 0, to: elements.count, by: 500) {
            let page = Array(elements[start..<min(start + 500, elements.count)])
            try await f.redis.send(Command(arguments: [front ? "RPUSH" : "LPUSH", f.queue.keys.jobs] + page))
        }
    }

    private func limit(_ group: String, _ text: String, _ f: QueueFixture) async throws {
        try await f.redis.send(Command("HSET", f.queue.keys.limits, "group:" + group, text))
    }

    @Test("jobs of a group with a limit begin in their order, with ids or without") func order() async throws {
        let f = try await QueueFixture()
        try await limit("acme", #"{"running":1}"#, f)
        let failed = try await { () -> Claim? in
            try await f.push(#"{"id":"known","url":"http://h/known","group":"acme"}"#)
            return try await f.claim()
        }()
        try await f.settle(try #require(failed), .failed(Failure(.http(404), "m"), retryable: true, received: 0))
        let elements = (0..<40).map { number in
            number == 7
                ? #"{"id":"known","url":"http://h/7","group":"acme"}"#
                : #"{"url":"http://h/\#(number)","group":"\#(number % 2 == 0 ? "bolt" : "acme")"}"#
        }
        try await push(f, elements)
        var begun: [String: [Int]] = [:]
        while let claim = try await f.claim() {
            let number = try #require(claim.job().urls.first?.split(separator: "/").last.flatMap { Int($0) })
            begun[number % 2 == 0 ? "bolt" : "acme", default: []].append(number)
            try await f.settle(claim, QueueFixture.done)
        }
        #expect(begun["acme"] == (0..<20).map { 2 * $0 + 1 } && begun["bolt"] == (0..<20).map { 2 * $0 })
        try await f.expectOrder()
    }

    private static func group(_ id: String) -> String { String(id.prefix { $0 != "-" }) }

    private func count(_ ids: some Sequence<String>) -> [String: Int] {
        Dictionary(grouping: ids, by: Self.group).mapValues(\.count)
    }

    /// Runs jobs on `slots` slots, one after the other, and returns the ids in the order in which they began.
    private func starts(
        _ f: QueueFixture, slots: Int, limit: Int, clocked: ClockedQueue? = nil
    ) async throws -> [String] {
        let queue = clocked?.queue ?? f.queue
        var (begun, running, now): ([String], [Claim], Int64) = ([], [], 0)
        func endFirst() async throws {
            now += 10
            try await clocked?.set(now)
            try await queue.settle(running.removeFirst().run, as: QueueFixture.done, worker: f.worker)
        }
        while begun.count < limit {
            if running.count == slots { try await endFirst() }
            let reply = try await queue.claim(f.worker, token: Token.make())
            // As a worker does, which would otherwise wait although a job does.
            if case .more = reply { continue }
            guard case .job(let claim) = reply else {
                guard !running.isEmpty else { break }
                try await endFirst()
                continue
            }
            begun.append(claim.run.id)
            running.append(claim)
        }
        while !running.isEmpty { try await endFirst() }
        return begun
    }

    @Test("groups take turns, and each keeps the order of its jobs", arguments: [1, 3])
    func turns(slots: Int) async throws {
        let clocked = try await ClockedQueue()
        let f = clocked.f
        try await push(f, "a", 0..<40)
        try await push(f, nil, 0..<10)
        try await push(f, "b", 0..<10)
        let begun = try await starts(f, slots: slots, limit: 100, clocked: clocked)
        #expect(begun.count == 60)
        for (group, total) in [("a", 40), ("none", 10), ("b", 10)] {
            #expect(begun.filter { Self.group($0) == group } == (0..<total).map { "\(group)-\($0)" })
        }
        // One job may begin before the others are found.
        let counts = count(begun.prefix(30))
        for group in ["a", "none", "b"] { #expect(9...11 ~= counts[group] ?? 0, "\(counts)") }
        try await f.expectOrder()
        #expect(try await f.redis.send(Command("KEYS", "haul:*busy_group*")).array?.isEmpty == true)
    }

    @Test("behind 100,000 elements of one group, a job of another one starts after at most one of them")
    func front() async throws {
        let f = try await QueueFixture()
        try await push(f, "a", 0..<100_000)
        let first = try #require(try await f.claim())
        try await push(f, "b", 0..<1)
        var (others, claim): (Int, Claim?) = (0, nil)
        while claim == nil {
            if try await f.tick([first]).hasMoreWork { continue }
            let next = try #require(try await f.claim())
            if next.run.id == "b-0" { claim = next } else { others += 1 }
        }
        #expect(others <= 1)
        #expect(try await f.queue.stats().counts[.queued] == 100_000 - 1 - others)
    }

    @Test("shares of slots are equal, however long the jobs of a group take", arguments: [2, 3, 10])
    func shares(slots: Int) async throws {
        let clocked = try await ClockedQueue()
        let (f, queue) = (clocked.f, clocked.queue)
        let durations: [String: Int64] = ["a": 100, "b": 1000, "c": 7000]
        for (group, duration) in durations.sorted(by: { $0.key < $1.key }) {
            try await push(f, group, 0..<Int(600_000 / duration))
        }
        var running: [(claim: Claim, end: Int64)] = []
        var (now, used): (Int64, [String: Int64]) = (0, [:])
        let period: Int64 = 120_000
        while now < period {
            try await clocked.set(now)
            for (claim, end) in running where end <= now {
                try await queue.settle(claim.run, as: QueueFixture.done, worker: f.worker)
            }
            running.removeAll { $0.end <= now }
            while running.count < slots, let claim = try await clocked.claim() {
                let group = Self.group(claim.run.id)
                running.append((claim, now + durations[group]!))
                used[group, default: 0] += min(now + durations[group]!, period) - now
            }
            let next = try #require(running.map(\.end).min())
            // The worker extends its leases.
            for second in stride(from: now / 1000 + 1, through: next / 1000, by: 1) {
                try await clocked.set(second * 1000)
                _ = try await queue.tick(f.worker, runs: running.map { ($0.claim.run, RunReport()) })
            }
            now = next
        }
        let mean = Double(period) * Double(slots) / 3
        for (group, time) in used { #expect(abs(Double(time) / mean - 1) < 0.1, "\(group): \(used)") }
    }

    @Test("of a group at its limit no more jobs run, and others pass them", arguments: [true, false])
    func running(isLimitedFirst: Bool) async throws {
        let f = try await QueueFixture()
        try await limit("a", #"{"running":2}"#, f)
        if isLimitedFirst { try await push(f, "a", 0..<300) }
        try await push(f, "b", 0..<3)
        if !isLimitedFirst { try await push(f, "a", 0..<300) }
        var claims: [Claim] = []
        var isEmpty = false
        while !isEmpty {
            switch try await f.queue.claim(f.worker, token: Token.make()) {
            case .job(let claim): claims.append(claim)
            case .empty: isEmpty = true
            // A call sorts only some of the elements.
            case let other: #expect(!other.isEmpty)
            }
        }
        #expect(count(claims.map(\.run.id)) == ["a": 2, "b": 3])
        // Limits of a group do not divide connections.
        #expect(try claims.allSatisfy { try $0.job().connections == nil })
        #expect(try await f.queue.stats().counts[.queued] == 298)
        #expect(try await f.redis.send(Command("LLEN", f.queue.keys.jobs)).int == 0)
        // The settle that ends one of its jobs claims its next one.
        let done = try #require(claims.first { Self.group($0.run.id) == "a" })
        let reply = try await f.queue.settle(done.run, as: QueueFixture.done, worker: f.worker, next: Token.make())
        guard case .job(let next)? = reply.next else {
            Issue.record("nothing was claimed: \(reply)")
            return
        }
        #expect(next.run.id == "a-2")
        #expect(try await f.claim() == nil)
        // A higher limit counts from the next check on.
        try await limit("a", #"{"running":4}"#, f)
        try await eventually("the limit to be read") {
            try await f.tick(claims)
            guard let claim = try await f.claim() else { return false }
            #expect(claim.run.id == "a-3")
            return true
        }
        #expect(try await f.claim()?.run.id == "a-4")
        #expect(try await f.claim() == nil)
        try await f.expectOrder()
    }

    @Test("a group's limit of starts is kept, and the next job starts when it is due")
    func rate() async throws {
        let f = try await QueueFixture()
        try await limit("a", #"{"starts":"5/s"}"#, f)
        try await push(f, "a", 0..<10)
        let begun = ContinuousClock.now
        var ids: [String] = []
        try await eventually("six starts") {
            while let claim = try await f.claim() {
                ids.append(claim.run.id)
                try await f.settle(claim, QueueFixture.done)
            }
            _ = try await f.queue.pace(f.worker)
            return ids.count >= 6
        }
        // Two may start at once, and then one each 200 ms.
        #expect(ContinuousClock.now - begun > .milliseconds(700))
        #expect(ids == (0..<ids.count).map { "a-\($0)" })
    }

    @Test("the strictest limits of a run count, of the queue, the host and the group")
    func runLimits() async throws {
        let f = try await QueueFixture()
        try await limit("a", #"{"max_bytes":500,"min_speed":7}"#, f)
        try await f.redis.send(Command("HSET", f.queue.keys.limits, "h", #"{"max_bytes":900,"max_seconds":60}"#))
        try await push(f, "a", 0..<1)
        let claim = try #require(try await f.claim())
        #expect(
            claim.limits.maxBytes == 500 && claim.limits.minSpeed == 7 && claim.limits.maxSeconds == 60,
            "\(claim.limits)")
    }

    @Test("what is pushed, released or resumed to the front is the next one of its group")
    func priorities() async throws {
        let f = try await QueueFixture()
        try await push(f, "a", 0..<50)
        try await push(f, "b", 0..<50)
        var running = [try #require(try await f.claim()), try #require(try await f.claim())]
        #expect(Set(running.map(\.run.id)) == ["a-0", "b-0"])
        try await push(f, "a", 900..<903, front: true)
        try await f.settle(running.removeFirst(), .released(why: "shutdown"))
        try await f.queue.request(.paused, of: ["b-0"])
        try await f.tick(running)
        try await f.settle(running.removeFirst(), .paused)
        try await f.queue.request(.running, of: ["b-0"])
        try await f.tick()
        let begun = try await starts(f, slots: 2, limit: 12)
        // RPUSH puts the last one of its elements first.
        #expect(
            begun.filter { $0.hasPrefix("a-") }.prefix(5) == ["a-0", "a-902", "a-901", "a-900", "a-1"], "\(begun)")
        #expect(begun.filter { $0.hasPrefix("b-") }.prefix(2) == ["b-0", "b-1"], "\(begun)")
    }

    @Test("jobs that wait for the turn of their group are counted, listed, found, cancelled and removed")
    func found() async throws {
        let f = try await QueueFixture()
        try await push(f, "a", 0..<300)
        try await push(f, "b", 0..<3)
        let claim = try #require(try await f.claim())
        try await f.tick([claim])
        #expect(try await f.redis.send(Command("LLEN", f.queue.keys.prefix + "deferred_group:a")).int ?? 0 > 200)
        #expect(try await f.queue.stats().counts[.queued] == 302)
        let listed = try await f.queue.listed(in: .queued, from: 0, limit: 1000)
        #expect(listed.count == 302 && listed.count { $0.group == "b" } == 3)
        #expect(try await f.queue.waiting(for: ["a-250"])["a-250"]?.group == "a")
        // As for a job in `jobs`, a worker that reaches the element applies the cancel.
        try await f.queue.request(.cancelled, of: ["a-3"])
        let begun = try await starts(f, slots: 1, limit: 20)
        #expect(!begun.contains("a-3"))
        #expect(try await f.state("a-3") == .cancelled)
        try await f.settle(claim, QueueFixture.done)
        try await f.expectOrder()
    }

    @Test("a cancel does not wait for the limit of a group")
    func cancelled() async throws {
        let f = try await QueueFixture()
        try await limit("a", #"{"running":0}"#, f)
        try await push(f, "a", 0..<300)
        #expect(try await f.claim() == nil)
        try await f.queue.request(.cancelled, of: ["a-3", "a-299"])
        try await eventually {
            while try await f.tick().hasMoreWork {}
            let states = try await f.queue.jobs(["a-3", "a-299"]).map(\.state)
            return states == [.cancelled, .cancelled]
        }
        #expect(try await f.queue.stats().counts[.queued] == 298)
        try await f.expectOrder()
    }

    @Test("10,000 groups have their turns")
    func many() async throws {
        let f = try await QueueFixture()
        let names = (0..<10_000).map { "g\($0)" }
        try await push(f, names.flatMap { [Self.element("\($0)-0", $0), Self.element("\($0)-1", $0)] })
        let first = try #require(try await f.claim())
        while try await f.tick([first]).hasMoreWork {}
        try await f.settle(first, QueueFixture.done)
        let begun = try await starts(f, slots: 4, limit: 30_000)
        #expect(Set(begun).count == 19_999)
        #expect(count(begun.prefix(9_000)).values.max()! <= 2)
        #expect(try await f.redis.send(Command("EXISTS", f.queue.keys[.deferredGroups])).int == 0)
    }

    @Test("an element that waits for a host after its turn does not wait for another turn")
    func hosts() async throws {
        let f = try await QueueFixture()
        try await f.redis.send(Command("HSET", f.queue.keys.limits, "h", #"{"connections":1}"#))
        try await push(f, "a", 0..<10)
        try await push(f, "b", 0..<10)
        let begun = try await starts(f, slots: 3, limit: 100)
        #expect(begun.count == 20)
        for group in ["a", "b"] {
            #expect(begun.filter { Self.group($0) == group } == (0..<10).map { "\(group)-\($0)" }, "\(begun)")
        }
        try await f.expectOrder()
    }

    @Test("a group is found in any element that names it, and only there")
    func names() async throws {
        let f = try await QueueFixture()
        let elements = [
            #"{"id":"a-1","url":"http://h/1","meta":{"group":"x"},"group":"a"}"#,
            #"{"id":"a-2","group" : "a", "url":"http://h/[2]","meta":[{"group":"x"}]}"#,
            #"{"id":"none-1","url":"http://h/3","meta":{"group":"x"}}"#,
            #"{"id":"none-2","url":"http://h/\"group\":\"x\"","meta":"\"group\":\"x\""}"#,
        ]
        try await f.redis.send(Command("LPUSH", f.queue.keys.jobs, Self.element("a-0", "a")))
        _ = try await f.claim()
        try await f.redis.send(Command(arguments: ["LPUSH", f.queue.keys.jobs] + elements))
        try await f.tick()
        let groups = try await f.redis.send(Command("ZRANGE", f.queue.keys[.deferredGroups], 0, -1)).array
        #expect(Set(groups?.compactMap(\.string) ?? []) == ["a", ""])
    }

    @Test(
        "keys of another type stop no job",
        arguments: ["groups", "deferred_groups", "deferred_group:a", "busy_group:a"])
    func types(key: String) async throws {
        let f = try await QueueFixture()
        try await push(f, "b", 0..<1)
        let first = try #require(try await f.claim())
        let other = key.hasPrefix("deferred_group:") ? "SADD" : "LPUSH"
        try await f.redis.send(Command("DEL", f.queue.keys.prefix + key))
        try await f.redis.send(Command(other, f.queue.keys.prefix + key, "x"))
        try await push(f, "a", 0..<50)
        try await push(f, "b", 1..<5)
        try await f.tick([first])
        try await f.settle(first, QueueFixture.done)
        #expect(try await Set(starts(f, slots: 2, limit: 100)).count == 54)
    }

    @Test("a queue without groups has no keys of them, and its elements stay in jobs")
    func unused() async throws {
        let f = try await QueueFixture()
        try await push(f, nil, 0..<50)
        let claim = try #require(try await f.claim())
        try await f.tick([claim])
        try await f.settle(claim, QueueFixture.done)
        #expect(try await f.redis.send(Command("LLEN", f.queue.keys.jobs)).int == 49)
        let keys = try await f.redis.send(Command("KEYS", "*group*")).array?.compactMap(\.string)
        #expect(keys == [])
    }

    @Test("the pacer ends a job whose cancel came before its element, with its event and its reply")
    func pacedCancel() async throws {
        let f = try await QueueFixture()
        try await limit("a", #"{"running":0}"#, f)
        try await push(f, "a", 0..<1)
        #expect(try await f.claim() == nil)
        try await f.queue.request(.cancelled, of: ["a-1"])
        try await f.tick()
        try await push(f, [#"{"id":"a-1","url":"http://h/","group":"a","reply_to":"r"}"#])
        _ = try await f.queue.pace(f.worker)
        #expect(try await f.state("a-1") == .cancelled)
        #expect(try await f.redis.send(Command("LLEN", f.queue.keys.reply("r"))).int == 1)
        #expect(try await f.redis.send(Command("PTTL", f.queue.keys.job("a-1"))).int ?? 0 > 80_000_000)
        // It stopped this push, so the job does not run once its group may.
        try await f.redis.send(Command("DEL", f.queue.keys.limits))
        try await eventually {
            try await f.tick()
            return try await f.claim()?.run.id == "a-0"
        }
        while try await f.tick().hasMoreWork {}
        #expect(try await f.claim() == nil)
        try await f.expectOrder()
    }
}
