import HaulBus
import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

/// Unusual writes of a user of redis-cli or of a producer, which must not stop the queue.
@Suite struct TamperTests {
    @Test("a field name that is written with escapes names the same field") func escaped() async throws {
        let f = try await QueueFixture()
        try await f.push(#"{"url":"http://h/a","id":"x","\u006deta":{"a":1}}"#)
        try await f.push(#"{"url":"http://h/a","id":"y"}"#)
        let x = try await f.claim()
        #expect(x?.run.id == "x")
        let y = try await f.claim()
        #expect(y?.run.id == "y")
        try await f.expectOrder()
    }

    @Test("an element with a url and Redis' own field `t` is a job") func ticket() async throws {
        let f = try await QueueFixture()
        try await f.push(#"{"url":"http://h/a","id":"x","t":"mine"}"#)
        #expect(try await f.claim()?.run.id == "x")
        try await f.expectOrder()
    }

    @Test("a job whose spec is gone fails, and stops no other job") func specless() async throws {
        let f = try await QueueFixture()
        try await f.push(#"{"url":"http://h/a","id":"x"}"#)
        let claim = try #require(try await f.claim())
        try await f.queue.request(.paused, of: ["x"])
        try await f.tick([claim])
        try await f.settle(claim, .paused)
        #expect(try await f.state("x") == .paused)
        try await f.redis.send(Command("DEL", f.queue.keys.spec("x")))
        try await f.queue.request(.running, of: ["x"])
        try await f.tick()
        try await f.push(#"{"url":"http://h/a","id":"y"}"#)
        #expect(try await f.claim()?.run.id == "y")
        #expect(try await f.state("x") == .failed)
        try await f.expectOrder()
    }

    @Test("however many operations there are, no tick takes long, and none of them is lost") func many() async throws {
        let f = try await QueueFixture()
        let ids = (0..<2_000).map { "j\($0)" }
        try await f.queue.request(.paused, of: ids)
        // This operation is for a finished file of another store. The file waits, the operation does not.
        try await f.push(#"{"url":"http://h/a","id":"x"}"#)
        let claim = try #require(try await f.claim())
        try await f.settle(claim, QueueFixture.done)
        try await f.queue.request(.deleted, of: ["x"])
        let elsewhere = WorkerIdentity(name: "w2", store: "other")
        try await eventually("all to be applied", within: .seconds(60)) {
            _ = try await f.queue.tick(elsewhere, fields: [], runs: [])
            return try await f.redis.send(Command("HLEN", f.queue.keys.want)).int == 0
        }
        // All operations must not be read again for each part of them that is applied.
        let read = try await f.server.cli("INFO", "commandstats").split(separator: "\n").filter {
            $0.contains("hgetall:")
        }
        #expect(read.allSatisfy { $0.contains("calls=1,") || $0.contains("calls=2,") }, "\(read)")
        try await f.tick()
        #expect(try await f.redis.send(Command("HLEN", f.queue.keys.want)).int == 0)
        try await f.push(#"{"url":"http://h/a","id":"j1999"}"#)
        #expect(try await f.claim() == nil)
        #expect(try await f.state("j1999") == .paused)
        try await f.expectOrder()
    }

    @Test("a key of a job with another type stops no other job", arguments: ["job", "spec", "offsets"])
    func strange(_ kind: String) async throws {
        let f = try await QueueFixture()
        for id in ["run", "wait", "later", "end"] {
            let due = id == "later" ? #","delay":1"# : ""
            try await f.push(#"{"url":"http://h/\#(id)","id":"\#(id)","deadline":9\#(due)}"#)
        }
        let broken = try #require(try await f.claim())
        _ = try await f.claim()
        try await f.push(#"{"url":"http://h/good","id":"good"}"#)
        while try await f.claim()?.run.id != "good" {}
        #expect(try await f.state("later") == .scheduled)
        for id in ["run", "wait", "later", "end"] {
            let key = f.queue.keys.prefix + "\(kind):\(id)"
            try await f.redis.send(Command("DEL", key))
            try await f.redis.send(Command("SET", key, "x"))
        }
        try await f.queue.request(.paused, of: ["run", "wait", "later"])
        try await f.push(#"{"url":"http://h/end","id":"end"}"#)
        try await f.push(#"{"url":"http://h/last","id":"last"}"#)
        let reply = try await f.queue.tick(f.worker, fields: [], runs: [(broken.run, RunReport())])
        #expect(reply.fenced == (kind == "job" ? [broken.run.token] : []))
        #expect(try await f.redis.send(Command("HLEN", f.queue.keys.want)).int == 0)
        #expect(try await f.claim()?.run.id == "last")
        let rejected = try await f.redis.send(Command("LRANGE", f.queue.keys.rejected, 0, -1)).array ?? []
        // The push of `end`, and the operations for the others.
        #expect(rejected.count == 4 && rejected.allSatisfy { $0.string?.contains("is not a hash") == true })
        // The keys are left as they are.
        #expect(try await f.redis.send(Command("GET", f.queue.keys.prefix + "\(kind):end")).string == "x")
    }

    @Test(
        "a key of another type that is there before its job stops no other job", arguments: ["job", "spec", "offsets"])
    func poison(_ kind: String) async throws {
        let f = try await QueueFixture()
        try await f.redis.send(Command("SET", f.queue.keys.prefix + "\(kind):bad", "x"))
        for id in ["bad", "good"] { try await f.push(#"{"url":"http://h/\#(id)","id":"\#(id)"}"#) }
        let replies = try await f.queue.claim(f.worker, tokens: [Token.make(), Token.make(), Token.make()])
        let claims = replies.compactMap { if case .job(let claim) = $0 { claim } else { nil } }
        if kind == "offsets" {
            // Offsets are not read before the job has some.
            #expect(claims.map(\.run.id) == ["bad", "good"])
            for claim in claims { try await f.settle(claim, QueueFixture.done) }
        } else {
            #expect(claims.map(\.run.id) == ["good"])
            let rejected = try #require(try await f.queue.rejected(limit: 2).first)
            #expect(try JSON(rejected)["reason"]?.string?.contains("a key of job bad is not a hash") == true)
            #expect(
                try await f.redis.send(Command("HVALS", f.queue.keys.worker("w1"))).array?.count { $0.string == "bad" }
                    == 0)
            #expect(try await Inspection(f.queue).run().map(\.subject) == ["bad"])
            #expect(try await Inspection(f.queue).run(repairing: true).allSatisfy(\.isRepaired))
        }
        try await f.expectOrder()
    }

    @Test(
        "an invalid number in a job's hash stops neither the queue nor ticks",
        arguments: ["settled_until", "pushed", "want_at", "seq", "attempt", "crashes", "deadline_at"],
        ["x", "-1", "nan", "1e400", "99999999999999999999"])
    func numbers(_ name: String, _ value: String) async throws {
        let f = try await QueueFixture()
        for id in ["old", "run", "late"] {
            try await f.push(#"{"url":"http://h/\#(id)","id":"\#(id)","at":1000000000005}"#)
        }
        let old = try #require(try await f.claim())
        let run = try #require(try await f.claim())
        let late = try #require(try await f.claim())
        try await f.settle(old, .failed(Failure(.io, "m"), retryable: true, received: 0))
        try await f.settle(late, .retry(after: .milliseconds(1), Failure(.io, "m")))
        for id in ["old", "run", "late"] {
            try await f.redis.send(Command("HSET", f.queue.keys.job(id), name, value))
            try await f.redis.send(Command("ZADD", f.queue.keys.deadlines, "1", id))
        }
        try await f.redis.send(Command("ZADD", f.queue.keys.leases, "1", "run"))
        try await f.queue.request(.paused, of: ["late"])
        try await f.push(#"{"url":"http://h/old","id":"old","at":99999999999999}"#)
        try await f.push(#"{"url":"http://h/good","id":"good"}"#)
        _ = try await f.tick()
        var taken: Set<String> = []
        for _ in 0..<4 {
            guard let claim = try await f.claim() else { continue }
            taken.insert(claim.run.id)
            if claim.run.id == "run" { try await f.settle(claim, .retry(after: .seconds(9), Failure(.io, "m"))) }
        }
        #expect(taken.isSuperset(of: ["old", "good"]), "\(taken)")
        #expect(!run.run.token.isEmpty)
        _ = try await f.tick()
        _ = try await Inspection(f.queue).run(repairing: true)
        #expect(try await Inspection(f.queue).run().isEmpty)
    }

    @Test("an error that a job did not cause rejects no element") func foreign() async throws {
        let f = try await QueueFixture()
        try await f.push(#"{"url":"http://h/a","id":"a"}"#)
        let worker = f.queue.keys.worker("w1")
        try await f.redis.send(Command("DEL", worker))
        try await f.redis.send(Command("SET", worker, "x"))
        await #expect(throws: RedisError.self) { try await f.claim() }
        try await f.redis.send(Command("DEL", worker))
        _ = try await f.queue.register(f.worker, fields: [], known: [])
        #expect(try await f.queue.rejected(limit: 1).isEmpty)
        #expect(try await f.claim()?.run.id == "a")
    }

    @Test("a missing permission rejects no element") func right() async throws {
        let f = try await QueueFixture()
        try await f.push(#"{"url":"http://h/a","id":"a"}"#)
        try await f.tick()
        try await f.redis.send(Command("ACL", "SETUSER", "default", "-hset"))
        await #expect(throws: RedisError.self) { try await f.claim() }
        try await f.redis.send(Command("ACL", "SETUSER", "default", "+hset"))
        #expect(try await f.queue.rejected(limit: 1).isEmpty)
        #expect(try await f.claim()?.run.id == "a")
    }

    @Test("a job with a key of another type keeps no worker from registering, and the worker's other jobs run again")
    func registration() async throws {
        let f = try await QueueFixture()
        for id in ["bad", "good"] { try await f.push(#"{"url":"http://h/\#(id)","id":"\#(id)"}"#) }
        for _ in 0..<2 { _ = try #require(try await f.claim()) }
        try await f.redis.send(Command("DEL", f.queue.keys.job("bad")))
        try await f.redis.send(Command("SET", f.queue.keys.job("bad"), "x"))
        var again = f.worker
        again.session = 1
        #expect(try await f.queue.register(again, fields: [], known: []))
        #expect(try await f.state("good") == .queued)
        // So does a new process of the name.
        let claim = try #require(try await f.queue.claim(again, tokens: [Token.make()]).first)
        guard case .job = claim else { return #expect(Bool(false), "\(claim)") }
        try await f.redis.send(Command("HSET", f.queue.keys.worker("w1"), "seen", "1", Token.make(), "bad"))
        #expect(
            try await f.queue.register(WorkerIdentity(name: "w1", store: "s"), fields: [], known: []))
        #expect(try await f.state("good") == .queued)
    }

    @Test("a retry of a job whose spec is no job any more forgets nothing of its end") func unreadableSpec()
        async throws
    {
        let f = try await QueueFixture()
        try await f.push(#"{"url":"http://h/a","id":"x"}"#)
        let claim = try #require(try await f.claim())
        try await f.settle(claim, .failed(Failure(.http(500), "m"), retryable: true, received: 0))
        try await f.redis.send(Command("HSET", f.queue.keys.spec("x"), "spec", "nonsense"))
        func fields() async throws -> [String: String] {
            try await f.redis.send(Command("HGETALL", f.queue.keys.job("x"))).dictionary
        }
        let before = try await fields()
        try await f.queue.request(.running, of: ["x"])
        try await f.tick()
        var after = try await fields()
        // When the operation was applied.
        #expect(after.removeValue(forKey: "resumed") != nil)
        #expect(after == before && before["error"] == "http_500", "\(after), before \(before)")
        #expect(try await f.state("x") == .failed)
    }
}
