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

    @Test("a parked job says in its hash what it waits for", arguments: ["disk", "store"])
    func parked(_ reason: String) async throws {
        let f = try await QueueFixture()
        try await f.push(#"{"url":"http://h/1","id":"1"}"#)
        try await f.settle(try #require(try await f.claim()), .parked(after: .seconds(5), reason: reason))
        let record = try #require(try await f.queue.job("1"))
        #expect(record.state == .scheduled && record["waiting"] == reason)
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

    @Test("a job that crashes its workers fails as crash_loop, and its last run is fenced")
    func crashLoop() async throws {
        let f = try await QueueFixture {
            $0.lease = .milliseconds(100); $0.crashLimit = 2
        }
        try await f.push(#"{"url":"http://h/1","id":"1"}"#)
        var last: Claim?
        for _ in 0..<3 {
            try await eventually {
                try await f.tick()
                last = try await f.claim("lost")
                return last != nil
            }
            try await f.reportActive(try #require(last))
        }
        try await eventually {
            try await f.tick(); return try await f.state("1") == .failed
        }
        let run = try #require(last).run
        for settlement in [QueueFixture.done, .cancelled, .released(why: "shutdown")] {
            let zombie = WorkerIdentity(name: "lost", store: "s")
            let reply = try await f.queue.settle(run, as: settlement, report: RunReport(), worker: zombie, next: nil)
            #expect(!reply.isOurs)
        }
        let job = try #require(try await f.queue.job("1"))
        #expect(job["error"] == "crash_loop")
        #expect(job["crashes"] == "3" && job["message"]?.contains("3 times in a row") == true)
        let failures = try JSON(#require(job["failures"])).array ?? []
        #expect(failures.map { $0["worker"]?.string } == ["lost", "lost", "lost"])
        #expect(failures.allSatisfy { $0["error"] == nil && $0["started"]?.integer ?? 0 <= $0["ended"]?.integer ?? 0 })
        try await f.expectOrder()
    }

    @Test(
        "a failed job restarts its counts when it is retried or pushed again, even with a delay",
        arguments: [true, false])
    func anew(_ isRetried: Bool) async throws {
        let f = try await QueueFixture {
            $0.lease = .milliseconds(50); $0.crashLimit = 0
        }
        try await f.push(#"{"url":"http://h/1","id":"1"}"#)
        try await f.settle(try #require(try await f.claim()), .retry(after: .zero, Failure(.connect, "m")))
        try await f.tick()
        try await f.reportActive(try #require(try await f.claim()))
        try await eventually {
            try await f.tick(); return try await f.state("1") == .failed
        }
        if isRetried {
            try await f.queue.request(.running, of: ["1"])
            try await f.tick()
        } else {
            try await f.push(#"{"url":"http://h/1","id":"1","delay":1000}"#)
            #expect(try await f.claim() == nil)
        }
        let job = try #require(try await f.queue.job("1"))
        #expect(job.state == (isRetried ? .queued : .scheduled))
        for field in ["crashes", "attempt", "error"] { #expect(job[field] == nil, "\(field)") }
        // A retry is for the same job, and a push is for a new one.
        #expect((job["failures"] != nil) == isRetried)
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

    @Test("tokens of lost runs are kept, also after a removal, until the job is pushed again")
    func lostRuns() async throws {
        let f = try await QueueFixture()
        var (worker, lost): (WorkerIdentity, Set<String>) = (f.worker, [])
        func claim() async throws -> Claim {
            let reply = try await f.queue.claim(worker, token: Token.make())
            let claim: Claim? = if case .job(let claim) = reply { claim } else { nil }
            return try #require(claim)
        }
        func lose() async throws {
            worker = WorkerIdentity(name: worker.name, store: "s")
            try await f.redis.send(Command("HSET", f.queue.keys.worker(worker.name), "seen", "1"))
            #expect(try await f.queue.register(worker, fields: [], known: []))
        }
        try await f.push(#"{"url":"http://h/1","id":"1"}"#)
        for _ in 1...2 {
            lost.insert(try await claim().run.token)
            try await lose()
        }
        #expect(try await f.queue.removedRuns(from: 0, limit: 9).isEmpty)
        try await f.queue.request(.cancelled, of: ["1"])
        _ = try await f.queue.tick(worker, fields: [], runs: [])
        #expect(Set(try #require(try await f.queue.job("1")?["lost"]).split(separator: " ").map(String.init)) == lost)
        try await f.push(#"{"url":"http://h/1","id":"1"}"#)
        let last = try await claim()
        try await f.queue.request(.removed, of: ["1"])
        _ = try await f.queue.tick(worker, fields: [], runs: [(last.run, RunReport())])
        _ = try await f.queue.settle(last.run, as: .cancelled, worker: worker)
        lost.insert(last.run.token)
        let removed = try await f.queue.removedRuns(from: 0, limit: 9)
        #expect(removed.map(\.id) == ["1"] && removed.first?.runs == lost)
        #expect(try await f.queue.removedRuns(from: 1, limit: 9).isEmpty)
        #expect(try await f.redis.send(Command("PTTL", f.queue.keys.removed)).int ?? 0 > 3_590_000)
        // A removed job that never ran is not listed. A job that was pushed again is listed without runs.
        try await f.push(#"{"url":"http://h/2","id":"2"}"#)
        try await f.queue.request(.removed, of: ["2"])
        try await f.push(#"{"url":"http://h/1","id":"1"}"#)
        _ = try await claim()
        #expect(try await f.queue.removedRuns(from: 0, limit: 9).map(\.runs) == [[]])
        try await f.expectOrder()
    }

    @Test("a run that was at work in an earlier process of the same name counts as lost; others do not")
    func crashLoopOfOneName() async throws {
        let f = try await QueueFixture { $0.crashLimit = 2 }
        var worker = f.worker
        func restart() async throws {
            worker = WorkerIdentity(name: worker.name, store: "s")
            try await f.redis.send(Command("HSET", f.queue.keys.worker(worker.name), "seen", "1"))
            #expect(try await f.queue.register(worker, fields: [], known: []))
        }
        func claim() async throws -> Claim {
            let reply = try await f.queue.claim(worker, token: Token.make())
            let claim: Claim? = if case .job(let claim) = reply { claim } else { nil }
            return try #require(claim)
        }
        func crashes() async throws -> String? { try await f.queue.job("1")?["crashes"] }
        try await f.push(#"{"url":"http://h/1","id":"1"}"#)
        // The worker shuts down in order.
        try await f.settle(try await claim(), .released(why: "shutdown"))
        try await restart()
        #expect(try await crashes() == nil)
        // The reply to the claim is lost, and the worker still runs.
        _ = try await claim()
        #expect(try await f.queue.register(worker, fields: [], known: []))
        #expect(try await crashes() == nil)
        // The run has not reported that it is at work.
        #expect(try await claim().wasLost == false)
        try await restart()
        #expect(try await crashes() == "0")
        // The run was at work, and now waits for its host again.
        let waiting = try await claim()
        #expect(waiting.wasLost)
        try await f.reportActive(waiting)
        try await f.reportActive(waiting, isActive: false)
        try await restart()
        #expect(try await crashes() == "0")
        for count in ["1", "2"] {
            try await f.reportActive(try await claim())
            try await restart()
            #expect(try await crashes() == count)
        }
        // A checkpoint shows progress, and resets the count.
        let moving = try await claim()
        var report = RunReport()
        report.set(isActive: true, of: moving.run)
        report.offsets = ByteIntervals([0..<9])
        _ = try await f.queue.tick(worker, fields: [], runs: [(moving.run, report)])
        try await restart()
        #expect(try await crashes() == "1")
        for _ in 1...2 {
            try await f.reportActive(try await claim())
            try await restart()
        }
        #expect(try await f.state("1") == .failed)
        #expect(try await f.queue.job("1")?["error"] == "crash_loop")
        #expect(try await f.queue.job("1")?["active_token"] == nil)
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

    @Test("a retry is promoted when it is due, exactly once") func due() async throws {
        let f = try await QueueFixture()
        try await f.push(#"{"url":"http://h/1","id":"1"}"#)
        try await f.settle(
            try #require(try await f.claim()), .retry(after: .milliseconds(1500), Failure(.connect, "m")))
        try await f.tick()
        #expect(try await f.state("1") == .scheduled)
        try await eventually {
            try await f.tick(); return try await f.state("1") == .queued
        }
        #expect(try await f.claim()?.attempt == 1)
        #expect(try await f.claim() == nil)
        try await f.expectOrder()
    }

    @Test("an attempt that made progress is retried, and resets the count of failed attempts")
    func retryAfterProgress() async throws {
        let f = try await QueueFixture()
        try await f.push(#"{"url":"http://h/1","id":"1"}"#)
        let failure = Failure(.connect, "m")
        try await f.settle(try #require(try await f.claim()), .retry(after: .zero, failure))
        func queued() async throws -> Bool {
            try await f.tick()
            return try await f.state("1") == .queued
        }
        try await eventually { try await queued() }
        let second = try #require(try await f.claim())
        #expect(second.attempt == 1)
        try await f.settle(second, .retryAfterProgress(after: .zero, failure))
        #expect(try await f.queue.job("1")?["error"] == "connect")
        try await eventually { try await queued() }
        #expect(try await f.claim()?.attempt == 0)
        try await f.expectOrder()
    }

    @Test("a deadline ends a job that waits") func deadline() async throws {
        let f = try await QueueFixture()
        try await f.push(#"{"url":"http://h/1","id":"1","delay":1000,"deadline":0.2}"#)
        #expect(try await f.claim() == nil)
        try await eventually {
            try await f.tick(); return try await f.state("1") == .failed
        }
        #expect(try await f.queue.job("1")?["error"] == "deadline")
        try await f.expectOrder()
    }

    @Test(
        "completed and cancelled jobs are kept for a day, failed ones for a week",
        arguments: [
            (QueueFixture.done, 1), (.cancelled, 1), (.failed(Failure(.connect, "m"), retryable: true, received: 0), 7),
        ])
    func kept(_ settlement: Settlement, _ days: Int) async throws {
        let f = try await QueueFixture()
        try await f.push(#"{"url":"http://h/1","id":"1"}"#)
        try await f.settle(try #require(try await f.claim()), settlement)
        let left = try await f.redis.send(Command("PTTL", f.queue.keys.job("1"))).int ?? 0
        // A tick deletes the job when its retention has ended. The hash expires by itself a little later.
        let all = days * 86_400_000 + 10_000
        #expect((all - 3_600_000...all).contains(left))
    }

    @Test("a cancel of an element that no worker has taken is kept for a day, so a paused queue does not forget it")
    func keptCancel() async throws {
        let f = try await QueueFixture()
        try await f.queue.setSetting("paused", to: "1")
        try await f.push(#"{"url":"http://h/1","id":"1"}"#)
        try await f.queue.request(.cancelled, of: ["1"])
        try await f.tick()
        let left = try await f.redis.send(Command("PTTL", f.queue.keys.job("1"))).int ?? 0
        #expect((82_800_000...86_400_000).contains(left))
        try await f.queue.setSetting("paused", to: nil)
        #expect(try await f.claim() == nil)
        #expect(try await f.queue.job("1")?.state == .cancelled)
    }

    @Test("ended jobs expire with their index entries, and only documented keys are left")
    func retention() async throws {
        let f = try await QueueFixture { $0.keepCompleted = .seconds(4) }
        try await f.push(#"{"url":"http://h/1?secret=1","id":"1","reply_to":"me"}"#)
        try await f.settle(try #require(try await f.claim()), QueueFixture.done)
        #expect(try await f.queue.job("1")?.fields.values.contains { $0.contains("secret") } == false)
        #expect(try await f.redis.send(Command("LLEN", f.queue.keys.reply("me"))).int == 1)
        try await eventually {
            try await f.tick(); return try await f.redis.send(Command("ZCARD", f.queue.keys.index(.completed))).int == 0
        }
        let expected = ["epoch", "reply:me", "tick", "totals", "worker:w1", "workers"].map { f.queue.keys.prefix + $0 }
        try await eventually("only documented keys to be left") {
            let keys = try await f.redis.send(Command("KEYS", "*")).array?.compactMap(\.string) ?? []
            return keys.filter { !$0.hasPrefix(f.queue.keys.prefix + "history:") }.sorted() == expected
        }
    }
}
