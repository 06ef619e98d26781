import HaulBus
import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

/// Runs that were lost are counted and kept, so that a job which crashes its workers ends.
@Suite struct CrashLoopTests {
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

    @Test("what the runs of a job that was pushed again at once have left is found after its removal")
    func repeatedRuns() async throws {
        let f = try await QueueFixture()
        var runs: Set<String> = []
        for end in [QueueFixture.done, QueueFixture.done, .cancelled, QueueFixture.done] {
            try await f.push(#"{"url":"http://h/1","id":"1"}"#)
            let claim = try #require(try await f.claim())
            runs.insert(claim.run.token)
            try await f.settle(claim, end)
        }
        try await f.queue.request(.removed, of: ["1"])
        try await f.tick()
        #expect(try await f.queue.removedRuns(from: 0, limit: 9).first?.runs == runs)
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
        try await f.queue.set(.eventStream, to: "1000")
        _ = try await claim()
        #expect(try await f.queue.register(worker, fields: [], known: []))
        let requeued = try await f.queue.loggedEvents(of: "1", since: 0).last?.text ?? ""
        #expect(requeued.contains(#""event":"requeued""#) && requeued.contains(#""why":"reply lost""#))
        try await f.queue.set(.eventStream, to: nil)
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

    @Test("a cancel that waits for a run ends its job as cancelled, even if its last crash comes first")
    func cancelled() async throws {
        let f = try await QueueFixture { $0.crashLimit = 0 }
        try await f.push(#"{"url":"http://h/1","id":"1","else":[{"url":"http://h/2","id":"2"}]}"#)
        let claim = try #require(try await f.claim("lost"))
        try await f.reportActive(claim)
        try await f.queue.request(.cancelled, of: ["1"])
        try await f.tick()
        #expect(try await f.queue.job("1")?["want"] == "cancelled")
        try await f.redis.send(Command("ZADD", f.queue.keys.leases, 1, "1"))
        try await f.tick()
        #expect(try await f.state("1") == .cancelled)
        #expect(try await f.queue.job("1")?["error"] == nil)
        #expect(try await f.redis.send(Command("EXISTS", f.queue.keys.prefix + "owed_steps")).int == 0)
        try await f.expectOrder()
    }

    @Test("a job whose last lost run had sent its request fails as outcome_unknown") func sent() async throws {
        let f = try await QueueFixture { $0.crashLimit = 0 }
        try await f.push(#"{"kind":"request","method":"POST","url":"http://h/1","id":"1"}"#)
        let claim = try #require(try await f.claim("lost"))
        var report = RunReport()
        report.set(isActive: true, of: claim.run)
        report.fields.append(("sent", claim.run.token))
        _ = try await f.queue.tick(f.worker, fields: [], runs: [(claim.run, report)])
        try await f.redis.send(Command("ZADD", f.queue.keys.leases, 1, "1"))
        try await f.tick()
        let job = try #require(try await f.queue.job("1"))
        #expect(job["error"] == "outcome_unknown" && job["retryable"] == "0")
        #expect(job["message"]?.contains("1 times in a row; the request was sent") == true)
        try await f.expectOrder()
    }

    @Test("a job that was removed after a lost run is not new to its next run", arguments: [true, false])
    func removedAfterLoss(_ isLost: Bool) async throws {
        let f = try await QueueFixture()
        try await f.push(#"{"url":"http://h/1","id":"1"}"#)
        if isLost {
            _ = try #require(try await f.claim("lost"))
            try await f.redis.send(Command("ZADD", f.queue.keys.leases, 1, "1"))
            try await f.tick()
        }
        try await f.queue.request(.removed, of: ["1"])
        try await f.tick()
        try await f.push(#"{"url":"http://h/1","id":"1"}"#)
        #expect(try await f.claim()?.isNew == !isLost)
    }
}
