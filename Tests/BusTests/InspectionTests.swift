import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulBus

@Suite struct InspectionTests {
    /// A queue with a job in every state.
    private func fixture() async throws -> (QueueFixture, Claim) {
        let f = try await QueueFixture()
        try await f.push(#"{"url":"http://h/s","id":"scheduled","delay":1000,"deadline":5000}"#)
        for id in ["completed", "failed", "cancelled", "paused", "running", "queued"] {
            try await f.push(#"{"url":"http://h/\#(id)","id":"\#(id)"}"#)
        }
        try await f.settle(try #require(try await f.claim()), QueueFixture.done)
        try await f.settle(
            try #require(try await f.claim()), .failed(Failure(.io, "m"), retryable: true, received: 0))
        for (id, operation) in [("cancelled", ControlOperation.cancelled), ("paused", .paused)] {
            let claim = try #require(try await f.claim())
            #expect(claim.run.id == id)
            try await f.queue.request(operation, of: [id])
            try await f.tick([claim])
            try await f.settle(claim, operation == .paused ? .paused : .cancelled)
        }
        let running = try #require(try await f.claim())
        try await f.settle(try #require(try await f.claim()), .released(why: "test"))
        let again = try #require(try await f.claim())
        try await f.settle(again, .released(why: "test"))
        try await f.queue.request(.paused, of: ["later"])
        try await f.tick([running])
        return (f, running)
    }

    private func problems(_ f: QueueFixture, repairing: Bool = false) async throws -> [String] {
        try await Inspection(f.queue).run(repairing: repairing).map { "\($0.subject): \($0.problem)" }
    }

    @Test("the inspection finds nothing in a queue with a job in every state") func order() async throws {
        let (f, _) = try await fixture()
        #expect(try await problems(f) == [])
    }

    @Test(
        "damage is found and repaired, and then nothing is found",
        arguments: [
            ("queued", "DEL K:jobs"), ("running", "ZREM K:leases running"), ("running", "HDEL K:worker:w1 T"),
            ("paused", "ZREM K:paused paused"), ("paused", "ZADD K:scheduled 1 paused"),
            ("completed", "PERSIST K:job:completed"), ("paused", "PEXPIRE K:job:paused 100000"),
            ("failed", "PERSIST K:spec:failed"), ("ghost", "HSET K:offsets:ghost 0 5"),
            ("ghost", "HSET K:spec:ghost spec x"), ("ghost", "ZADD K:paused 1 ghost"),
            ("ghost", "ZADD K:leases 99999999999999 ghost"), ("scheduled", "ZREM K:deadlines scheduled"),
            ("later", "PERSIST K:job:later"), ("ghost", "ZADD K:completed 99999999999999 ghost"),
            ("y", "SET K:job:y 1"), ("ghost", "SET K:offsets:ghost 1"), ("paused", "SET K:offsets:paused 1"),
            ("paused", "HSET K:job:paused asof x crashes -1"), ("paused", "HSET K:job:paused seq 1e99"),
            ("haul:{default}:worker:w1", "PERSIST K:worker:w1"), ("haul:{default}:reply:me", "LPUSH K:reply:me x"),
            ("haul:{default}:held:nobody", #"RPUSH K:held:nobody {"url":"http://h/2"} {"url":"http://h/1"}"#),
        ])
    func repair(_ subject: String, _ command: String) async throws {
        let (f, running) = try await fixture()
        let words = command.replacing("K:", with: f.queue.keys.prefix).replacing(" T", with: " \(running.run.token)")
        try await f.redis.send(Command(arguments: words.split(separator: " ").map(String.init)))
        let found = try await problems(f)
        #expect(found.count >= 1 && found.allSatisfy { $0.hasPrefix("\(subject): ") }, "\(found)")
        #expect(try await Inspection(f.queue).run(repairing: true).allSatisfy(\.isRepaired))
        if command == "PERSIST K:spec:failed" {
            // As long as the queue keeps failed jobs: a week here.
            let time = try await f.redis.send(Command("PTTL", f.queue.keys.prefix + "spec:failed")).int ?? 0
            #expect(time > 6 * 86_400_000, "\(time)")
        }
        if subject == "running" {
            // Its lease has ended now. So the next tick of another worker returns it to the queue.
            try await eventually {
                _ = try await f.queue.tick(WorkerIdentity(name: "w2", store: "s"), fields: [], runs: [])
                return try await f.state("running") == .queued
            }
        }
        if subject.hasSuffix("nobody") {
            #expect(try await f.claim()?.spec == Array(#"{"url":"http://h/1"}"#.utf8))
        }
        #expect(try await problems(f) == [])
    }

    @Test("a spec that no worker can read is found in every state, and its job stays as it is")
    func specs() async throws {
        let (f, _) = try await fixture()
        let texts = ["{}", #"{"url":"http://h/","x":NaN}"#, #"{"url":"http://h/","headers":{"Range":"x"}}"#, ""]
        let states = ["scheduled", "failed", "paused", "running"]
        for (id, text) in zip(states, texts) {
            try await f.redis.send(Command("HSET", f.queue.keys.spec(id), "spec", text))
        }
        let found = try await problems(f, repairing: true)
        #expect(found.count == states.count, "\(found)")
        for id in states {
            #expect(found.contains { $0.hasPrefix("\(id): no worker can read what was pushed") }, "\(id)")
            #expect(try await f.state(id)?.rawValue == id)
        }
    }

    @Test("elements that a known worker holds are left to it") func known() async throws {
        let (f, _) = try await fixture()
        let recover = try await f.redis.run(
            f.queue.functions.recover, keys: f.queue.keys.functionKeys(for: "w1"), arguments: ["n", "w1"])
        #expect(recover.string == "-")
    }

    @Test("index entries of expired jobs are left to the next tick, and are not findings") func expired() async throws {
        let f = try await QueueFixture {
            $0.keepCompleted = .milliseconds(200); $0.keepFailed = .milliseconds(200)
        }
        for id in ["completed", "failed"] { try await f.push(#"{"url":"http://h/\#(id)","id":"\#(id)"}"#) }
        try await f.settle(try #require(try await f.claim()), QueueFixture.done)
        try await f.settle(try #require(try await f.claim()), .failed(Failure(.io, "m"), retryable: true, received: 0))
        try await eventually { try await f.queue.jobs(["completed", "failed"]).isEmpty }
        #expect(try await f.redis.send(Command("ZCARD", f.queue.keys.index(.completed))).int == 1)
        #expect(try await problems(f) == [])
        try await f.tick()
        #expect(try await f.redis.send(Command("ZCARD", f.queue.keys.index(.completed))).int == 0)
    }

    @Test("a large queue is read in pages, and an element that is missing in its queue is found")
    func pages() async throws {
        let f = try await QueueFixture()
        let count = 3000
        // Jobs in the queue with tickets, elements that no worker has claimed, and finished jobs.
        let fill = """
            for n = 1, \(count) do
              redis.call('HSET', KEYS[1] .. 'job:q' .. n, 'state', 'queued', 'ticket', 't' .. n)
              redis.call('HSET', KEYS[1] .. 'spec:q' .. n, 'spec', '{"url":"http://h/"}')
              redis.call('LPUSH', KEYS[1] .. 'jobs', '{"id":"q' .. n .. '","t":"t' .. n .. '"}', '{"url":"http://h/' .. n .. '"}')
              redis.call('HSET', KEYS[1] .. 'job:c' .. n, 'state', 'completed')
              redis.call('PEXPIRE', KEYS[1] .. 'job:c' .. n, 1000000)
              redis.call('ZADD', KEYS[1] .. 'completed', n, 'c' .. n)
            end
            """
        try await f.redis.send(Command("EVAL", fill, 1, f.queue.keys.prefix), timeout: .seconds(30))
        try await f.redis.send(Command("CONFIG", "RESETSTAT"))
        #expect(try await problems(f) == [])
        let stats = try await f.redis.send(Command("INFO", "commandstats")).string ?? ""
        func calls(_ command: String) -> Int {
            let line = stats.split(separator: "\r\n").first { $0.hasPrefix("cmdstat_\(command):calls=") }
            return line?.split(whereSeparator: { "=,".contains($0) }).dropFirst().first.flatMap { Int($0) } ?? 0
        }
        #expect(calls("lrange") >= 2 * count / 200 && calls("zscan") >= count / 1000)
        #expect(calls("zrange") == 0 && calls("lpos") == 0 && calls("hgetall") <= 1)
        let gone = #"{"id":"q7","t":"t7"}"#
        try await f.redis.send(Command("LREM", f.queue.keys.jobs, 1, gone))
        #expect(try await problems(f) == ["q7: it is queued, but has no element in the queue"])
        #expect(try await Inspection(f.queue).run(repairing: true).map(\.isRepaired) == [true])
        #expect(try await problems(f) == [])
    }

    @Test(
        "damage that cannot be repaired is reported",
        arguments: [
            "SET K:strange 1", "HSET K:settings max_running many", "HSET K:settings pause 1",
            "HSET K:job:x url http://h", "SET K:spec:paused 1",
            "HDEL K:spec:paused spec", "HSET K:job:paused state lost", "SET K:held:nobody x",
        ])
    func unrepairable(_ command: String) async throws {
        let (f, _) = try await fixture()
        let words = command.replacing("K:", with: f.queue.keys.prefix).split(separator: " ").map(String.init)
        try await f.redis.send(Command(arguments: words))
        let findings = try await Inspection(f.queue).run(repairing: true)
        #expect(findings.contains { !$0.isRepaired })
    }

    @Test(
        "keys that version 0.1 has left are recognized, and name the page that says how to upgrade",
        arguments: [
            "untold", "places", "kinds", "shut", "aside:slow:8080", "kind:later", "drops:s", "dropping:s", "lent:h",
        ])
    func version01(_ name: String) async throws {
        let f = try await QueueFixture()
        let key = f.queue.keys.prefix + name
        try await f.redis.send(Command("LPUSH", key, "x"))
        let finding = try #require(try await Inspection(f.queue).run().first { $0.subject == key })
        #expect(finding.advice.contains("From 0.1 to 0.2"))
    }

    @Test(
        "a key of a wrong type is reported with what does not work meanwhile, and is not removed",
        arguments: [
            ("want", "no job is claimed"), ("jobs", "nothing of the queue works"), ("leases", "nothing of the queue"),
            ("settings", "nothing of the queue works"), ("rejected", "block the queue"),
            ("tick", "maintains the queue"),
            ("workers", "maintains the queue"), ("permits", "by themselves"), ("epoch", "by themselves"),
            ("worker:w1", "this worker can do nothing"), ("host:h", "maintains the queue"),
            ("reply:me", "no event"), ("schedules", "no schedule pushes"), ("schedule_due", "no schedule pushes"),
            ("log", "not kept"), ("totals", "the whole fleet"), ("history:490000", "lacks this hour"),
        ], ["SADD", "LPUSH"])
    func types(_ key: (name: String, effect: String), _ command: String) async throws {
        if command == "LPUSH", ["jobs", "rejected", "permits", "reply:me"].contains(key.name) { return }
        let (f, _) = try await fixture()
        let name = f.queue.keys.prefix + key.name
        try await f.redis.send(Command("DEL", name))
        try await f.redis.send(Command(command, name, "1"))
        for repairing in [false, true, false] {
            let findings = try await Inspection(f.queue).run(repairing: repairing)
            let found = try #require(findings.first { $0.subject == name }, "\(findings)")
            #expect(found.problem.hasPrefix("it is a \(command == "SADD" ? "set" : "list")") && !found.isRepaired)
            #expect(found.advice.contains(key.effect), "\(found)")
        }
        #expect(try await f.redis.send(Command("TTL", name)).int == -1)
    }
}
