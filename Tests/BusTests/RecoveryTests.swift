import HaulBus
import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

@Suite struct RecoveryTests {
    @Test("a lost worker's job runs again, and the lost worker is fenced") func reap() async throws {
        let f = try await QueueFixture { $0.lease = .milliseconds(1500) }
        try await f.push(#"{"url":"http://h/1","id":"1"}"#)
        let lost = try #require(try await f.claim("lost"))
        try await eventually("the job to be in line again") {
            try await f.tick()
            return try await f.state("1") == .queued
        }
        let again = try #require(try await f.claim())
        #expect(try await f.settle(lost, QueueFixture.done) == false)
        #expect(try await f.tick([lost]).fenced == [lost.run.token])
        #expect(try await f.settle(again, QueueFixture.done))
        try await f.expectOrder()
    }

    /// A worker that has a job under a long lease, and whose process is connected.
    private func connected(_ f: QueueFixture) async throws -> (claim: Claim, life: ProcessLife, worker: WorkerIdentity)
    {
        try await f.push(#"{"url":"http://h/1","id":"1"}"#)
        let claim = try #require(try await f.claim("other"))
        let worker = WorkerIdentity(name: "other", store: "s", instance: "other")
        let life = await ProcessLife(of: worker, in: f.queue)
        try await f.queue.tick(worker, runs: [(claim.run, RunReport())])
        return (claim, life, worker)
    }

    private func silence(_ f: QueueFixture, _ milliseconds: Int64) async throws {
        let seen = try await f.queue.time() - milliseconds
        try await f.redis.send(Command("ZADD", f.queue.keys.workers, "\(seen)", "other"))
        try await f.redis.send(Command("HSET", f.queue.keys.worker("other"), "seen", "\(seen)"))
    }

    @Test(
        "a silent worker whose process has ended loses its jobs long before its lease ends",
        arguments: RedisServer.Kind.installed)
    func ended(_ kind: RedisServer.Kind) async throws {
        let f = try await QueueFixture(on: kind) { $0.lease = .seconds(600) }
        let (claim, life, _) = try await connected(f)
        try await f.redis.send(Command("LPUSH", f.queue.keys.held("other"), #"{"url":"http://h/2","id":"2"}"#))
        try await silence(f, 3000)
        try await f.tick()
        #expect(try await f.state("1") == .running, "a frozen process is connected")
        try await life.end()
        try await silence(f, 2000)
        try await f.tick()
        #expect(try await f.state("1") == .running, "a worker that reconnects was silent for a short time")
        try await silence(f, 3000)
        try await f.tick()
        #expect(try await f.state("1") == .queued)
        #expect(try await f.redis.send(Command("LLEN", f.queue.keys.held("other"))).int == 0)
        #expect(try await f.settle(claim, QueueFixture.done) == false)
        try await f.expectOrder()
    }

    @Test("that no worker is connected to a server that has restarted proves nothing") func restarted() async throws {
        let f = try await QueueFixture { $0.lease = .seconds(600) }
        let (_, life, worker) = try await connected(f)
        try await f.redis.send(Command("HSET", f.queue.keys.worker("other"), "connected", "another server"))
        try await life.end()
        try await silence(f, 3000)
        try await f.tick()
        #expect(try await f.state("1") == .running)
        // Nor does it if the worker never subscribed.
        try await f.queue.tick(worker, runs: [])
        try await silence(f, 3000)
        try await f.tick()
        #expect(try await f.state("1") == .running)
        try await f.expectOrder()
    }

    @Test("an element that a lost worker held and never claimed returns to the queue") func held() async throws {
        let f = try await QueueFixture { $0.lease = .milliseconds(300) }
        let lost = WorkerIdentity(name: "lost", store: "s")
        _ = try await f.queue.register(lost, fields: [], known: [])
        try await f.push(#"{"url":"http://h/1","id":"1"}"#)
        try await f.redis.send(Command("LMOVE", f.queue.keys.jobs, f.queue.keys.held("lost"), "RIGHT", "LEFT"))
        try await eventually {
            try await f.tick()
            return try await f.redis.send(Command("LLEN", f.queue.keys.jobs)).int == 1
        }
        try await f.expectOrder()
    }

    @Test("no live worker loses a job because no worker made a tick for a while") func grace() async throws {
        let f = try await QueueFixture()
        try await f.push(#"{"url":"http://h/1","id":"1"}"#)
        let claim = try #require(try await f.claim("sleeper"))
        // The lease has lapsed, but the last tick is long ago. So the sleeping worker gets time to tick.
        try await f.redis.send(Command("SET", f.queue.keys.tick, "1000 0"))
        try await f.redis.send(Command("ZADD", f.queue.keys.leases, 1000, "1"))
        try await f.tick()
        #expect(try await f.state("1") == .running)
        let reply = try await f.queue.tick(
            WorkerIdentity(name: "sleeper", store: "s"), fields: [], runs: [(claim.run, RunReport())])
        #expect(reply.fenced.isEmpty)
        try await f.expectOrder()
    }

    @Test("a restart under the same name puts its old claims back at once; a live name is refused")
    func sameName() async throws {
        let f = try await QueueFixture()
        try await f.push(#"{"url":"http://h/1","id":"1"}"#)
        _ = try #require(try await f.claim())
        let again = WorkerIdentity(name: f.worker.name, store: "s")
        // The worker counts as seen just now, however slow this machine is.
        try await f.redis.send(
            Command("HSET", f.queue.keys.worker(f.worker.name), "seen", UnixTime.milliseconds + 60_000))
        #expect(try await f.queue.register(again, fields: [], known: []) == false)
        try await f.redis.send(Command("HSET", f.queue.keys.worker(f.worker.name), "seen", "1"))
        #expect(try await f.queue.register(again, fields: [], known: []))
        #expect(try await f.state("1") == .queued)
        try await f.expectOrder()
    }

    @Test("a worker that registers again puts held elements to the front, and touches no other's run")
    func comesBack() async throws {
        let f = try await QueueFixture()
        for id in ["1", "2", "3"] { try await f.push(#"{"url":"http://h/\#(id)","id":"\#(id)"}"#) }
        let claim = try #require(try await f.claim())
        let other = WorkerIdentity(name: "other", store: "s")
        _ = try await f.queue.register(other, fields: [], known: [])
        for _ in 0..<2 {
            try await f.redis.send(Command("LMOVE", f.queue.keys.jobs, f.queue.keys.held("other"), "RIGHT", "LEFT"))
        }
        try await f.redis.send(Command("HSET", f.queue.keys.worker("other"), Token.make(), claim.run.id))
        _ = try await f.queue.register(other, fields: [], known: [])
        #expect(try await f.state("1") == .running)
        #expect(try await f.redis.send(Command("LLEN", f.queue.keys.held("other"))).int == 0)
        #expect(try await f.claim()?.run.id == "2")
        try await f.expectOrder()
    }

    @Test("elements that dead workers held come back, however many workers died") func manyDead() async throws {
        let f = try await QueueFixture { $0.lease = .seconds(2) }
        let dead = 450
        for number in 0..<dead {
            try await f.redis.send(
                Command("ZADD", f.queue.keys.workers, Int(UnixTime.milliseconds) - 60_000, "dead\(number)"))
            try await f.redis.send(
                Command("LPUSH", f.queue.keys.held("dead\(number)"), #"{"url":"http://h/\#(number)"}"#))
        }
        try await eventually("all to be back in line") {
            try await f.tick()
            return try await f.redis.send(Command("LLEN", f.queue.keys.jobs)).int == dead
        }
    }

    @Test("a worker that is forgotten after a day leaves no held elements") func forgotten() async throws {
        let f = try await QueueFixture { $0.lease = .milliseconds(100) }
        let dead = 250
        for number in 0..<dead {
            try await f.redis.send(
                Command("ZADD", f.queue.keys.workers, Int(UnixTime.milliseconds) - 90_000_000 + number, "dead\(number)")
            )
        }
        for number in 0..<300 {
            try await f.redis.send(
                Command("LPUSH", f.queue.keys.held("dead0"), #"{"url":"http://h/\#(number)"}"#))
        }
        try await f.redis.send(Command("LPUSH", f.queue.keys.held("dead\(dead - 1)"), #"{"url":"http://h/last"}"#))
        try await eventually("all to be back in line, and only the living to be known") {
            try await f.tick()
            let replies = try await f.redis.pipeline([
                .command(Command("LLEN", f.queue.keys.jobs)), .command(Command("ZCARD", f.queue.keys.workers)),
            ])
            return replies.map(\.int) == [301, 1]
        }
        try await f.expectOrder()
    }

    @Test("a worker that ends holds nothing, even if a wait of its lost connection moves an element later")
    func leaves() async throws {
        let f = try await QueueFixture { $0.lease = .milliseconds(100) }
        let leaving = WorkerIdentity(name: "leaving", store: "s")
        _ = try await f.queue.register(leaving, fields: [], known: [])
        try await f.push(#"{"url":"http://h/1"}"#)
        try await f.redis.send(Command("LMOVE", f.queue.keys.jobs, f.queue.keys.held("leaving"), "RIGHT", "LEFT"))
        try await f.queue.leave(leaving)
        #expect(try await f.queue.workers().map(\.name) == ["w1"])
        #expect(try await f.redis.send(Command("LLEN", f.queue.keys.jobs)).int == 1)
        try await f.expectOrder()
        try await f.redis.send(Command("LMOVE", f.queue.keys.jobs, f.queue.keys.held("leaving"), "RIGHT", "LEFT"))
        try await f.tick()
        #expect(try await f.redis.send(Command("LLEN", f.queue.keys.jobs)).int == 1)
        try await f.expectOrder()
    }

    @Test("a process that ends late does not remove its successor of the same name") func leavesLate() async throws {
        let f = try await QueueFixture()
        try await f.queue.leave(WorkerIdentity(name: f.worker.name, store: "s"))
        #expect(try await f.queue.workers().map(\.name) == ["w1"])
    }

    @Test("a `held` key of another type stops nothing else") func strangeHeld() async throws {
        let f = try await QueueFixture()
        try await f.redis.send(Command("ZADD", f.queue.keys.workers, Int(UnixTime.milliseconds) - 60_000, "gone"))
        try await f.redis.send(Command("SET", f.queue.keys.held("gone"), "x"))
        try await f.push(#"{"url":"http://h/1","id":"1","delay":0.1}"#)
        #expect(try await f.claim() == nil)
        try await eventually("the due job to be promoted") {
            try await f.tick()
            return try await f.state("1") == .queued
        }
    }

    @Test("a request that a disconnected worker has sent is its own until its lease ends") func sent() async throws {
        let f = try await QueueFixture { $0.lease = .seconds(600) }
        let (claim, life, worker) = try await connected(f)
        try await f.push(#"{"url":"http://h/2","id":"2"}"#)
        let other = try #require(try await f.claim("other"))
        #expect(other.run.id == "2")
        var report = RunReport()
        report.fields.append(("sent", claim.run.token))
        try await f.queue.tick(worker, runs: [(claim.run, report), (other.run, RunReport())])
        try await life.end()
        try await silence(f, 3000)
        while try await f.tick().hasMoreWork {}
        #expect(try await f.state("1") == .running)
        #expect(try await f.state("2") == .queued)
        // Its worker is back, and settles it.
        #expect(try await f.queue.tick(worker, runs: [(claim.run, RunReport())]).fenced.isEmpty)
        #expect(try await f.queue.settle(claim.run, as: QueueFixture.done, worker: worker).isOurs)
        try await f.expectOrder()
    }

    @Test("a registration returns the jobs of an earlier process in short calls, and counts each as lost")
    func manyClaims() async throws {
        let f = try await QueueFixture()
        let meter = try await CallMeter(f)
        let count = 300
        try await f.push((0..<count).map { #"{"url":"http://h/\#($0)","id":"j\#($0)"}"# })
        for _ in 0..<count { _ = try #require(try await f.claim("other")) }
        try await f.redis.send(Command("HSET", f.queue.keys.worker("other"), "seen", "1"))
        try await f.redis.send(Command("CONFIG", "RESETSTAT"))
        let again = WorkerIdentity(name: "other", store: "s", instance: "again")
        var isRegistered = false
        let cost = try await meter.cost { isRegistered = try await f.queue.register(again, fields: [], known: []) }
        #expect(isRegistered)
        let calls =
            try await f.server.cli("INFO", "commandstats").firstMatch(of: /cmdstat_fcall:calls=(\d+)/)
            .flatMap { Double($0.1) } ?? 1
        #expect(calls >= 15)
        meter.expectShort("registrations", [cost / calls])
        #expect(try await f.queue.stats().counts[.queued] == count)
        #expect(try await f.queue.job("j0")?["crashes"] == "0")
        try await f.expectOrder()
    }
}
