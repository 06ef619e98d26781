import Bus
import Contract
import Glibc
import Redis
import TestSupport
import Testing

@Suite struct GateTests {
    @Test("a raw element that is no job is rejected with the field's name, and the queue goes on") func gate()
        async throws
    {
        let f = try await QueueFixture()
        for vector in InvalidElements.all {
            try await f.push(vector.element)
            #expect(try await f.claim() == nil, "\(vector)")
            let rejected = try #require(try await f.queue.rejected(limit: 1).first)
            let reason = try #require(try JSON(rejected)["reason"]?.string)
            #expect(reason.hasPrefix((vector.field ?? "element") + ":"), "\(vector): \(reason)")
        }
        try await f.push(#"{"url":"http://h/a"}"#)
        #expect(try await f.claim() != nil)
        try await f.expectOrder()
    }

    @Test("an invalid push changes nothing of a known job") func known() async throws {
        let f = try await QueueFixture()
        try await f.push(#"{"url":"http://h/a","id":"x","delay":1000}"#)
        #expect(try await f.claim() == nil)
        let before = try await f.queue.job("x")?.fields
        try await f.push(#"{"url":"ftp://h/a","id":"x"}"#)
        #expect(try await f.claim() == nil)
        #expect(try await f.queue.job("x")?.fields == before)
        try await f.expectOrder()
    }

    @Test("the id is the same, whoever works it out") func ids() async throws {
        let f = try await QueueFixture()
        for text in [
            #"{"url":"http://h/a"}"#, #"{"url":"http://h/a","path":"b"}"#, #"{"url":"http://h/a","headers":{"A":"b"}}"#,
        ] {
            let element = try Element(try JSON(text))
            try await f.queue.push([element])
            let claim = try #require(try await f.claim())
            #expect(claim.run.id == element.id)
            try await f.settle(claim, QueueFixture.done)
        }
        try await f.expectOrder()
    }
}

@Suite struct ClaimTests {
    @Test("jobs come in the order pushed, once each, and end in their index") func order() async throws {
        let f = try await QueueFixture()
        for index in 0..<5 { try await f.push(#"{"url":"http://h/\#(index)","id":"\#(index)"}"#) }
        for index in 0..<5 {
            let claim = try #require(try await f.claim())
            #expect(claim.run.id == "\(index)")
            #expect(try await f.state("\(index)") == .running)
            #expect(try await f.settle(claim, QueueFixture.done))
            #expect(try await f.settle(claim, QueueFixture.done), "a settle sent again answers the same")
        }
        #expect(try await f.claim() == nil)
        #expect(try await f.queue.stats().counts[.completed] == 5)
        try await f.expectOrder()
    }

    @Test("settle brings the next job in the same command") func next() async throws {
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

    @Test("a paused queue and max_running close it, also when it is empty") func closed() async throws {
        let f = try await QueueFixture()
        try await f.queue.setSetting("paused", to: "1")
        guard case .closed = try await f.queue.claim(f.worker, token: Token.make()) else { return #expect(Bool(false)) }
        try await f.queue.setSetting("paused", to: nil)
        try await f.queue.setSetting("max_running", to: "1")
        try await f.push(#"{"url":"http://h/1","id":"1"}"#)
        try await f.push(#"{"url":"http://h/2","id":"2"}"#)
        #expect(try await f.claim() != nil)
        #expect(try await f.claim() == nil)
        #expect(try await f.tick().isOpen == false)
        try await f.expectOrder()
    }

    @Test("a key of the wrong type fails before anything is written") func wrongType() async throws {
        let f = try await QueueFixture()
        try await f.push(#"{"url":"http://h/1","id":"1"}"#)
        try await f.redis.send(Command("SET", f.queue.keys.leases, "x"))
        await #expect { try await f.claim() } throws: { ($0 as? RedisError)?.code == .wrongType }
        #expect(try await f.redis.send(Command("LLEN", f.queue.keys.jobs)).int == 1)
        #expect(try await f.state("1") == nil)
    }
}

@Suite struct DuplicateTests {
    @Test("a push of a running or queued job is no second download") func running() async throws {
        let f = try await QueueFixture()
        let element = #"{"url":"http://h/1","id":"1"}"#
        try await f.push(element)
        let claim = try #require(try await f.claim())
        try await f.push(element)
        #expect(try await f.claim() == nil)
        try await f.settle(claim, .released(why: "test"))
        try await f.push(element)
        #expect(try await f.claim()?.run.id == "1")
        #expect(try await f.claim() == nil)
        try await f.expectOrder()
    }

    @Test("a producer that repeats its push undoes no pause, cancel or completion") func repeated() async throws {
        let f = try await QueueFixture()
        let element = #"{"url":"http://h/1","id":"1","at":1000}"#
        for settlement in [QueueFixture.done, .cancelled] {
            try await f.push(#"{"url":"http://h/1","id":"1"}"#)
            let claim = try #require(try await f.claim())
            if case .cancelled = settlement {
                try await f.queue.request(.cancelled, of: ["1"]); try await f.tick([claim])
            }
            try await f.settle(claim, settlement)
            try await f.push(element)
            #expect(try await f.claim() == nil)
        }
        try await f.expectOrder()
    }

    @Test("an old ticket starts nothing") func ticket() async throws {
        let f = try await QueueFixture()
        try await f.push(#"{"url":"http://h/1","id":"1"}"#)
        try await f.settle(try #require(try await f.claim()), .released(why: "test"))
        let stale = try #require(try await f.redis.send(Command("LINDEX", f.queue.keys.jobs, 0)).string)
        let claim = try #require(try await f.claim())
        try await f.push(stale)
        #expect(try await f.claim() == nil)
        try await f.settle(claim, QueueFixture.done)
        try await f.push(stale)
        #expect(try await f.claim() == nil)
        #expect(try await f.state("1") == .completed)
        try await f.expectOrder()
    }
}

@Suite struct ControlTests {
    @Test(
        "removal forgets a job in every state, and keeps its finished file unless that is to go",
        arguments: [
            Request.removed, .deleted,
        ])
    func removal(_ request: Request) async throws {
        let f = try await QueueFixture()
        func isForgotten(_ id: String) async throws -> Bool {
            try await eventually {
                try await f.tick(); return try await f.queue.job(id) == nil
            }
            let keys = try await f.redis.send(Command("KEYS", "*:\(id)")).array
            return keys?.isEmpty == true
        }
        // Completed.
        try await f.push(#"{"url":"http://h/1","id":"1"}"#)
        try await f.settle(try #require(try await f.claim()), QueueFixture.done)
        try await f.queue.request(request, of: ["1"])
        let dropped = try await f.tick().dropped
        #expect(dropped.first?.file == "f" && dropped.first?.inode == (request == .deleted ? 1 : nil))
        #expect(try await isForgotten("1"))
        // Scheduled, paused and failed.
        try await f.push(#"{"url":"http://h/2","id":"2","delay":1000}"#)
        try await f.push(#"{"url":"http://h/3","id":"3"}"#)
        try await f.push(#"{"url":"http://h/4","id":"4"}"#)
        let third = try #require(try await f.claim())
        try await f.queue.request(.paused, of: ["3"])
        try await f.tick([third])
        try await f.settle(third, .paused)
        try await f.settle(
            try #require(try await f.claim()), .failed(Failure(.io, "m"), retryable: true, received: 0))
        try await f.queue.request(request, of: ["2", "3", "4"])
        for id in ["2", "3", "4"] { #expect(try await isForgotten(id)) }
        // Running: it is stopped first.
        try await f.push(#"{"url":"http://h/5","id":"5"}"#)
        let running = try #require(try await f.claim())
        try await f.queue.request(request, of: ["5"])
        #expect(try await f.tick([running]).requests[running.run.token] == request)
        try await f.settle(running, .cancelled)
        #expect(try await isForgotten("5"))
        // Running, and completed before it heard of it.
        try await f.push(#"{"url":"http://h/6","id":"6"}"#)
        let quick = try #require(try await f.claim())
        try await f.queue.request(request, of: ["6"])
        try await f.tick([quick])
        try await f.settle(quick, QueueFixture.done)
        #expect(try await isForgotten("6"))
        // In line, and not known yet.
        try await f.push(#"{"url":"http://h/7","id":"7"}"#)
        try await f.queue.request(request, of: ["7"])
        try await f.tick()
        #expect(try await f.claim() == nil)
        #expect(try await isForgotten("7"))
        try await f.expectOrder()
    }

    @Test("a finished file is deleted by a worker of its own store") func otherStore() async throws {
        let f = try await QueueFixture()
        try await f.push(#"{"url":"http://h/1","id":"1"}"#)
        try await f.settle(try #require(try await f.claim()), QueueFixture.done)
        try await f.queue.request(.deleted, of: ["1"])
        let elsewhere = WorkerIdentity(name: "w2", store: "other")
        #expect(try await f.queue.tick(elsewhere, fields: [], runs: []).dropped.isEmpty)
        #expect(try await f.state("1") == .completed)
        #expect(try await f.tick().dropped.count == 1)
        #expect(try await f.queue.job("1") == nil)
        try await f.expectOrder()
    }

    @Test("a pause is applied in every state, and resumed at the front") func pause() async throws {
        let f = try await QueueFixture()
        try await f.push(#"{"url":"http://h/1","id":"1"}"#)
        let claim = try #require(try await f.claim())
        try await f.redis.send(Command("HSET", f.queue.keys.want, "1", "paused"))
        #expect(try await f.tick([claim]).requests[claim.run.token] == .paused)
        try await f.settle(claim, .paused)
        #expect(try await f.state("1") == .paused)
        try await f.push(#"{"url":"http://h/2","id":"2"}"#)
        try await f.queue.request(.running, of: ["1"])
        try await f.tick()
        #expect(try await f.claim()?.run.id == "1")
        #expect(try await f.redis.send(Command("HLEN", f.queue.keys.want)).int == 0)
        try await f.expectOrder()
    }

    @Test("a pause may come before its job") func early() async throws {
        let f = try await QueueFixture()
        try await f.queue.request(.paused, of: ["1"])
        try await f.tick()
        try await f.push(#"{"url":"http://h/1","id":"1"}"#)
        #expect(try await f.claim() == nil)
        #expect(try await f.state("1") == .paused)
        #expect(try await f.redis.send(Command("TTL", f.queue.keys.job("1"))).int == -1)
        try await f.expectOrder()
    }

    @Test("a cancel of a final job is ignored, an unknown continuation rejected") func ignored() async throws {
        let f = try await QueueFixture()
        try await f.push(#"{"url":"http://h/1","id":"1"}"#)
        try await f.settle(try #require(try await f.claim()), QueueFixture.done)
        try await f.queue.request(.cancelled, of: ["1"])
        try await f.tick()
        #expect(try await f.state("1") == .completed)
        try await f.push(#"{"id":"unknown"}"#)
        #expect(try await f.claim() == nil)
        #expect(try await f.queue.rejected(limit: 1).first?.contains("no job unknown") == true)
        try await f.expectOrder()
    }

    @Test("a pushed continuation resumes a paused job with its offsets") func continuation() async throws {
        let f = try await QueueFixture()
        try await f.push(#"{"url":"http://h/1","id":"1","meta":{"k":[]}}"#)
        let claim = try #require(try await f.claim())
        let digest = Job.Checksum("md5:900150983cd24fb0d6963f7d28e17f72")
        var report = RunReport()
        report.set(
            ResumePoint(
                generation: "g", store: "s", file: "f", entity: Entity(etag: "\"e\"", total: 9, digest: digest),
                source: "u",
                offsets: ByteIntervals([0..<4])))
        try await f.queue.request(.paused, of: ["1"])
        try await f.tick([claim])
        _ = try await f.queue.settle(claim.run, as: .paused, report: report, worker: f.worker, next: nil)
        try await f.push(#"{"id":"1"}"#)
        let again = try #require(try await f.claim("other"))
        #expect(again.previous == .paused)
        #expect(again.resume?.offsets.intervals == [0..<4])
        #expect(again.resume?.entity.etag == "\"e\"")
        #expect(again.resume?.entity.digest == digest)
        #expect(try await f.queue.job("1")?["meta"] == #"{"k":[]}"#)
        try await f.expectOrder()
    }
}

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

    @Test("what a lost worker held and never claimed goes back") func held() async throws {
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

    @Test("a job that takes its workers with it fails as crash_loop") func crashLoop() async throws {
        let f = try await QueueFixture {
            $0.lease = .milliseconds(100); $0.crashLimit = 2
        }
        try await f.push(#"{"url":"http://h/1","id":"1"}"#)
        for _ in 0..<3 {
            try await eventually {
                try await f.tick(); return try await f.claim("lost") != nil
            }
        }
        try await eventually {
            try await f.tick(); return try await f.state("1") == .failed
        }
        #expect(try await f.queue.job("1")?["error"] == "crash_loop")
        try await f.expectOrder()
    }

    @Test("a queue that nobody looked after robs no live worker") func grace() async throws {
        let f = try await QueueFixture { $0.lease = .milliseconds(500) }
        try await f.push(#"{"url":"http://h/1","id":"1"}"#)
        let claim = try #require(try await f.claim("sleeper"))
        try await f.redis.send(Command("SET", f.queue.keys.tick, "1000 0"))
        try await Task.sleep(for: .milliseconds(600))
        // The lease has lapsed, but the last look is long ago: the sleeper gets its chance.
        try await f.tick()
        #expect(try await f.state("1") == .running)
        let reply = try await f.queue.tick(
            WorkerIdentity(name: "sleeper", store: "s"), fields: [], runs: [(claim.run, RunReport())])
        #expect(reply.fenced.isEmpty)
        try await f.expectOrder()
    }

    @Test("a restart under the same name takes its own claims back at once; a live name is refused") func sameName()
        async throws
    {
        let f = try await QueueFixture()
        try await f.push(#"{"url":"http://h/1","id":"1"}"#)
        _ = try #require(try await f.claim())
        let again = WorkerIdentity(name: f.worker.name, store: "s")
        #expect(try await f.queue.register(again, fields: [], known: []) == false)
        try await f.redis.send(Command("HSET", f.queue.keys.worker(f.worker.name), "seen", "1"))
        #expect(try await f.queue.register(again, fields: [], known: []))
        #expect(try await f.state("1") == .queued)
        #expect(try await f.queue.job("1")?["crashes"] == nil)
        try await f.expectOrder()
    }

    @Test("what a dead worker held comes back, however many died") func manyDead() async throws {
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

    @Test("a held key of another type stops nothing else") func strangeHeld() async throws {
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

    @Test("retries and delays are promoted when due, exactly once") func due() async throws {
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

    @Test("final jobs expire with their index; nothing is left but documented keys") func retention() async throws {
        let f = try await QueueFixture { $0.keepCompleted = .seconds(2) }
        try await f.push(#"{"url":"http://h/1?secret=1","id":"1","reply_to":"me"}"#)
        try await f.settle(try #require(try await f.claim()), QueueFixture.done)
        #expect(try await f.queue.job("1")?.fields.values.contains { $0.contains("secret") } == false)
        #expect(try await f.redis.send(Command("LLEN", f.queue.keys.reply("me"))).int == 1)
        try await eventually {
            try await f.tick(); return try await f.redis.send(Command("ZCARD", f.queue.keys.index(.completed))).int == 0
        }
        let expected = ["reply:me", "tick", "worker:w1", "workers"].map { f.queue.keys.prefix + $0 }
        try await eventually("only documented keys to be left") {
            try await f.redis.send(Command("KEYS", "*")).array?.compactMap(\.string).sorted() == expected
        }
    }
}

@Suite struct CostTests {
    @Test("one push wakes one of a thousand idle waiters") func waiters() async throws {
        var limit = rlimit()
        getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        limit.rlim_cur = limit.rlim_max
        setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        let f = try await QueueFixture()
        let url = try RedisURL(f.server.url)
        let count = 1000
        let winners = try await withThrowingTaskGroup(of: Bool.self) { group in
            for number in 0..<count {
                group.addTask {
                    let waiter = Redis(url, name: "waiter-\(number)")
                    let worker = WorkerIdentity(name: "w\(number % 10)", store: "s")
                    let reply = try await f.queue.waitAndClaim(
                        worker, token: Token.make(), block: .seconds(20), on: waiter)
                    await waiter.close()
                    if case .job = reply { return true } else { return false }
                }
            }
            try await eventually("all to wait", within: .seconds(60)) {
                try await f.redis.send(Command("INFO", "clients")).string?.contains("blocked_clients:\(count)") == true
            }
            try await f.redis.send(Command("CONFIG", "RESETSTAT"))
            try await f.push(#"{"url":"http://h/1"}"#)
            let first = try await group.next()
            #expect(first == true)
            let stats = try await f.redis.send(Command("INFO", "commandstats")).string ?? ""
            let calls = stats.split(separator: "\r\n").filter { $0.hasPrefix("cmdstat_eval") }.compactMap {
                $0.split(separator: ",").first?.split(separator: "=").last.flatMap { Int($0) }
            }
            // A waiter's script is sent with its wait, and runs when that ends.
            #expect(calls.reduce(0, +) <= 2, "\(calls)")
            try await eventually {
                try await f.redis.send(Command("INFO", "clients")).string?.contains("blocked_clients:\(count - 1)")
                    == true
            }
            // Ends the other waits.
            try await f.redis.send(Command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"))
            var winners = 1
            while let result = await group.nextResult() { if case .success(true) = result { winners += 1 } }
            return winners
        }
        #expect(winners == 1)
    }

    @Test("a busy job costs two commands and little of Redis' time") func cost() async throws {
        let f = try await QueueFixture()
        let jobs = 2000
        for index in 0..<jobs { try await f.push(#"{"url":"http://h/\#(index)"}"#) }
        var next = try await f.claim()
        try await f.redis.send(Command("CONFIG", "RESETSTAT"))
        var settled = 0
        while let claim = next {
            let reply = try await f.queue.settle(
                claim.run, as: QueueFixture.done, report: RunReport(), worker: f.worker, next: Token.make())
            settled += 1
            if case .job(let claim) = reply.next { next = claim } else { next = nil }
        }
        #expect(settled == jobs)
        let text = try #require(try await f.redis.send(Command("INFO", "commandstats")).string)
        let line = try #require(text.split(separator: "\r\n").first { $0.hasPrefix("cmdstat_evalsha:") })
        let facts = Dictionary(
            uniqueKeysWithValues: line.dropFirst(16).split(separator: ",").map { pair in
                let parts = pair.split(separator: "=")
                return (String(parts[0]), Double(parts[1]) ?? 0)
            })
        print(
            "busy job: \(facts["calls"]! / Double(jobs)) scripts and \(facts["usec"]! / Double(jobs)) µs of Redis, besides its LPUSH"
        )
        #expect(facts["calls"]! <= Double(jobs + 1))
        try await f.expectOrder()
    }
}
