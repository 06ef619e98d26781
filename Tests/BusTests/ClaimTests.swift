import HaulBus
import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

@Suite struct ClaimTests {
    @Test("a job that is pushed again after a cancel does not continue what the cancelled run has left")
    func givenUp() async throws {
        let f = try await QueueFixture()
        try await f.push(#"{"url":"http://h/1","id":"1"}"#)
        let claim = try #require(try await f.claim())
        var report = RunReport()
        report.fields = [("generation", claim.run.token), ("store", "s"), ("file", "x"), ("store_state", "u.1")]
        _ = try await f.queue.tick(f.worker, fields: [], runs: [(claim.run, report)])
        try await f.queue.request(.cancelled, of: ["1"])
        try await f.tick([claim])
        try await f.settle(claim, .cancelled)
        // Until then the hash names what a worker still has to remove.
        #expect(try await f.queue.job("1")?["generation"] == claim.run.token)
        try await f.push(#"{"url":"http://h/1","id":"1"}"#)
        let again = try #require(try await f.claim())
        #expect(again.resume == nil)
        #expect(try await f.queue.job("1")?["store_state"] == nil)
        try await f.expectOrder()
    }

    @Test("jobs are claimed once each, in the order of their pushes, and end in their index")
    func order() async throws {
        let f = try await QueueFixture()
        for index in 0..<5 { try await f.push(#"{"url":"http://h/\#(index)","id":"\#(index)"}"#) }
        for index in 0..<5 {
            let claim = try #require(try await f.claim())
            #expect(claim.run.id == "\(index)")
            #expect(try await f.state("\(index)") == .running)
            #expect(try await f.settle(claim, QueueFixture.done))
            #expect(try await f.settle(claim, QueueFixture.done), "a settle that is sent again has the same answer")
        }
        #expect(try await f.claim() == nil)
        #expect(try await f.queue.stats().counts[.completed] == 5)
        try await f.expectOrder()
    }

    @Test("a settle claims the next job with the same call") func next() async throws {
        let f = try await QueueFixture()
        try await f.push(#"{"url":"http://h/1","id":"1"}"#)
        try await f.push(#"{"url":"http://h/2","id":"2"}"#)
        let first = try #require(try await f.claim())
        let reply = try await f.queue.settle(
            first.run, as: QueueFixture.done, report: RunReport(), worker: f.worker, next: Token.make())
        guard case .job(let second) = reply.next else { return #expect(Bool(false)) }
        #expect(second.run.id == "2")
        try await f.expectOrder()
    }

    @Test("`paused` and `max_running` let no job start, even if the queue was empty when they were set") func closed()
        async throws
    {
        let f = try await QueueFixture()
        try await f.queue.setSetting("paused", to: "1")
        guard case .paused = try await f.queue.claim(f.worker, token: Token.make()) else { return #expect(Bool(false)) }
        try await f.queue.setSetting("paused", to: nil)
        try await f.queue.setSetting("max_running", to: "1")
        try await f.push(#"{"url":"http://h/1","id":"1"}"#)
        try await f.push(#"{"url":"http://h/2","id":"2"}"#)
        #expect(try await f.claim() != nil)
        #expect(try await f.claim() == nil)
        #expect(try await f.tick().gate == .full)
        try await f.expectOrder()
    }

    @Test(
        "a `max_running` that is not a whole number limits nothing, and is not shown", arguments: ["-1", "1e0", "many"])
    func nonsenseLimit(_ limit: String) async throws {
        let f = try await QueueFixture()
        try await f.queue.setSetting("max_running", to: limit)
        for id in 1...2 { try await f.push(#"{"url":"http://h/","id":"\#(id)"}"#) }
        for _ in 1...2 { #expect(try await f.claim() != nil) }
        #expect(try await f.queue.stats().maxRunning == nil)
    }

    @Test("one claim takes several jobs in their order, as many as there are and as may run")
    func several() async throws {
        let f = try await QueueFixture()
        for id in ["1", "2", "3", "4", "5"] { try await f.push(#"{"url":"http://h/","id":"\#(id)"}"#) }
        // An element that the worker holds comes before the elements in the queue.
        try await f.redis.send(Command("LMOVE", f.queue.keys.jobs, f.queue.keys.held(f.worker.name), "RIGHT", "LEFT"))
        func claim(_ count: Int) async throws -> [String] {
            let tokens = (0..<count).map { _ in Token.make() }
            let replies = try await f.queue.claim(f.worker, tokens: tokens)
            let runs = replies.compactMap { if case .job(let claim) = $0 { claim.run } else { nil } }
            #expect(runs.map(\.token) == Array(tokens.prefix(runs.count)))
            let others = replies.dropFirst(runs.count).map { if case .empty = $0 { "empty" } else { "\($0)" } }
            return runs.map(\.id) + others
        }
        #expect(try await claim(2) == ["1", "2"])
        try await f.redis.send(Command("HSET", f.queue.keys.settings, "max_running", 4))
        #expect(try await claim(3) == ["3", "4", "full"])
        try await f.redis.send(Command("HDEL", f.queue.keys.settings, "max_running"))
        #expect(try await claim(3) == ["5", "empty"])
        try await f.expectOrder()
    }

    @Test(
        "a claim and a settle that meet a key of a wrong type fail before they write anything",
        arguments: [
            "jobs", "held", "leases", "scheduled", "paused", "completed", "failed", "cancelled", "deadlines", "worker",
            "settings",
        ])
    func wrongType(_ name: String) async throws {
        let f = try await QueueFixture()
        try await f.push(#"{"url":"http://h/1","id":"1"}"#)
        let claim = try #require(try await f.claim())
        try await f.push(#"{"url":"http://h/2","id":"2"}"#)
        let key = f.queue.keys.prefix + (["held", "worker"].contains(name) ? "\(name):\(f.worker.name)" : name)
        try await f.redis.send(Command("SET", key, "x"))
        let before = try await everything(f)
        await #expect { try await f.claim() } throws: { ($0 as? RedisError)?.code == .wrongType }
        await #expect {
            try await f.queue.settle(
                claim.run, as: QueueFixture.done, report: RunReport(), worker: f.worker, next: Token.make())
        } throws: {
            ($0 as? RedisError)?.code == .wrongType
        }
        #expect(try await everything(f) == before)
    }

    @Test("an element that cannot be listed as rejected stays in the queue, and the settle still succeeds")
    func rejectedOfTheWrongType() async throws {
        let f = try await QueueFixture()
        try await f.push(#"{"url":"http://h/1","id":"1","reply_to":"r"}"#)
        let claim = try #require(try await f.claim())
        try await f.push("no job")
        try await f.redis.send(Command("SET", f.queue.keys.rejected, "x"))
        for _ in 1...2 {
            await #expect {
                try await f.queue.settle(
                    claim.run, as: QueueFixture.done, report: RunReport(), worker: f.worker, next: Token.make())
            } throws: {
                ($0 as? RedisError)?.code == .wrongType
            }
        }
        let replies = try await f.redis.send(Command("LRANGE", f.queue.keys.reply("r"), 0, -1)).array ?? []
        #expect(replies.count == 1)
        #expect(replies.first?.string?.contains(#""event":"completed""#) == true)
        #expect(try await f.redis.send(Command("LRANGE", f.queue.keys.jobs, 0, -1)).array?.map(\.string) == ["no job"])
        try await f.redis.send(Command("DEL", f.queue.keys.rejected))
        #expect(try await f.claim() == nil)
        #expect(try await f.redis.send(Command("LLEN", f.queue.keys.rejected)).int == 1)
        try await f.expectOrder()
    }

    /// All keys with their values.
    private func everything(_ f: QueueFixture) async throws -> [String: [UInt8]?] {
        let keys = try await f.redis.send(Command("KEYS", "*")).array?.compactMap(\.string) ?? []
        var contents: [String: [UInt8]?] = [:]
        for key in keys { contents[key] = try await f.redis.send(Command("DUMP", key)).bytes }
        return contents
    }
}
