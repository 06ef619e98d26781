import HaulBus
import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

/// Control operations for batches: docs/guides/batches.md.
@Suite("Control operations for batches") struct BatchOperationTests {
    private static let three = #"{"name":"b","size":3,"reply_to":"r"}"#

    @Test("a cancel reaches members that run and members that are still in the queue") func cancelled() async throws {
        let b = try await BatchFixture()
        let done = try await b.begin("done", in: Self.three)
        try await b.f.settle(done, QueueFixture.done)
        let running = try await b.begin("running", in: Self.three)
        try await b.push("other", in: #""c""#)
        try await b.push("inline", in: Self.three)
        try await b.ask(.cancelled, [running])
        try await b.f.settle(running, .cancelled)
        #expect(try await b.f.claim()?.run.id == "other")
        #expect(try await b.f.claim() == nil)
        #expect(try await b.f.state("inline") == .cancelled)
        #expect(try await b.counts() == [0, 1, 0, 2, 0])
        #expect(try await b.rounds() == [1])
        // The batch has ended, so the cancel is no longer in force.
        #expect(try await b.queue.batch("b")?.wanted == nil)
        #expect(try await b.f.state("other") == .running)
        try await b.f.expectOrder()
    }

    @Test("a cancel stops older pushes and pushes without `at`, even if it comes before the first member")
    func standing() async throws {
        let b = try await BatchFixture()
        let at = try await b.queue.time()
        try await b.ask(.cancelled)
        #expect(try await b.queue.batch("b") == nil)
        try await b.push("old", in: #""b""#, #","at":\#(at)"#)
        try await b.push("timeless", in: #""b""#)
        #expect(try await b.f.claim() == nil)
        #expect(try await b.counts() == [0, 0, 0, 2, 0])
        for key in [b.queue.keys.batch("b"), b.queue.keys.members("b")] {
            #expect(try await b.f.redis.send(Command("PTTL", key)).int ?? 0 > 86_400_000)
        }
        let later = try await b.queue.time() + 1
        try await b.push("new", in: #""b""#, #","at":\#(later)"#)
        #expect(try await b.f.claim()?.run.id == "new")
        // A member that is pushed again after the cancel runs.
        try await b.push("timeless", in: #""b""#)
        #expect(try await b.f.claim()?.run.id == "timeless")
        try await b.f.expectOrder()
    }

    @Test(
        "`running` revokes an operation that came before the first member",
        arguments: [BatchOperation.paused, .cancelled])
    func revoked(_ operation: BatchOperation) async throws {
        let b = try await BatchFixture()
        try await b.ask(operation)
        try await b.ask(.running)
        try await b.push("1", in: #""b""#)
        #expect(try await b.f.claim()?.run.id == "1")
        try await b.f.expectOrder()
    }

    @Test("a paused batch also pauses later members, until it is resumed") func paused() async throws {
        let b = try await BatchFixture()
        let running = try await b.begin("1", in: Self.three)
        try await b.ask(.paused, [running])
        try await b.f.settle(running, .paused)
        let later = try await b.queue.time() + 1
        try await b.push("2", in: Self.three, #","at":\#(later)"#)
        try await b.push("3", in: Self.three, #","delay":1000"#)
        #expect(try await b.f.claim() == nil)
        for id in ["1", "2", "3"] { #expect(try await b.f.state(id) == .paused, "\(id)") }
        #expect(try await b.counts() == [3, 0, 0, 0, 0])
        #expect(try await b.queue.batch("b")?.wanted == "paused")
        try await b.ask(.running)
        #expect(try await b.queue.batch("b")?.wanted == nil)
        for _ in 0..<3 { try await b.f.settle(try #require(try await b.f.claim()), QueueFixture.done) }
        #expect(try await b.counts() == [0, 3, 0, 0, 0])
        #expect(try await b.rounds() == [1])
        try await b.f.expectOrder()
    }

    @Test("a resume starts no scheduled member early, and a retry runs only members that have failed")
    func others() async throws {
        let b = try await BatchFixture()
        try await b.push("later", in: Self.three, #","delay":1000"#)
        try await b.fail(b.begin("failed", in: Self.three))
        try await b.f.settle(b.begin("done", in: Self.three), QueueFixture.done)
        try await b.ask(.running)
        #expect(try await b.f.state("later") == .scheduled)
        #expect(try await b.f.state("failed") == .failed)
        try await b.ask(.retried)
        #expect(try await b.f.state("later") == .scheduled)
        #expect(try await b.f.claim()?.run.id == "failed")
        #expect(try await b.counts() == [2, 1, 0, 0, 0])
    }

    @Test(
        "an operation for a batch stops a push that waits behind another operation",
        arguments: [BatchOperation.paused, .cancelled], [true, false])
    func waiting(_ operation: BatchOperation, isEarlier: Bool) async throws {
        let b = try await BatchFixture()
        try await b.f.push(#"{"url":"http://h/x","id":"x"}"#)
        let running = try #require(try await b.f.claim())
        try await b.queue.request(.cancelled, of: ["x"])
        try await b.tickUntilApplied([running])
        if isEarlier { try await b.ask(operation, [running]) }
        try await b.push("x", in: #"{"name":"b","size":1}"#)
        #expect(try await b.f.claim() == nil)
        if !isEarlier { try await b.ask(operation, [running]) }
        try await b.f.settle(running, .cancelled)
        #expect(try await b.f.claim() == nil)
        #expect(try await b.f.state("x") == (operation == .paused ? .paused : .cancelled))
        #expect(try await b.counts() == (operation == .paused ? [1, 0, 0, 0, 0] : [0, 0, 0, 1, 0]))
        try await b.f.expectOrder()
    }

    @Test("a pause of a batch does not stop the next push of a member that is being removed", arguments: [false, true])
    func removed(_ isUnapplied: Bool) async throws {
        let b = try await BatchFixture()
        let running = try await b.begin("x", in: Self.three)
        try await b.push("queued", in: Self.three)
        try await b.queue.request(.removed, of: ["x", "queued"])
        if !isUnapplied { try await b.tickUntilApplied([running]) }
        try await b.ask(.paused, [running])
        try await b.f.settle(running, .cancelled)
        for id in ["x", "queued"] {
            try await b.push(id, in: Self.three)
            #expect(try await b.f.claim()?.run.id == id)
        }
        try await b.f.expectOrder()
    }

    @Test("a push that waits is in at most 16 batches, and is rejected in each further one") func waitingInMany()
        async throws
    {
        let b = try await BatchFixture()
        try await b.f.push(#"{"url":"http://h/x","id":"x"}"#)
        let running = try #require(try await b.f.claim())
        try await b.queue.request(.cancelled, of: ["x"])
        try await b.tickUntilApplied([running])
        for number in 0..<20 { try await b.push("x", in: #"{"name":"b\#(number)","size":1}"#) }
        #expect(try await b.f.claim() == nil)
        try await b.f.settle(running, .cancelled)
        try await b.f.settle(try #require(try await b.f.claim()), QueueFixture.done)
        #expect(try await b.queue.job("x")?["batch"]?.split(separator: " ").count == 16)
        for number in 0..<20 {
            #expect(
                try await b.counts("b\(number)") == (number < 16 ? [0, 1, 0, 0, 0] : [0, 0, 0, 0, 1]), "\(number)")
        }
        try await b.f.expectOrder()
    }

    @Test("a newer operation for one member overrides the operation for the batch") func newer() async throws {
        let b = try await BatchFixture()
        let running = try await b.begin("1", in: Self.three)
        let other = try await b.begin("2", in: Self.three)
        let at = try await b.queue.time()
        try await b.f.redis.send(
            Command("HSET", b.queue.keys.want, "1", "running \(at + 5)", "batch/b", "paused \(at)"))
        try await eventually("the clock to pass the newer request") { try await b.queue.time() > at + 5 }
        try await b.tickUntilApplied([running, other])
        #expect(try await b.f.redis.send(Command("HGET", b.queue.keys.job("1"), "want")) == .null)
        #expect(try await b.f.redis.send(Command("HGET", b.queue.keys.job("2"), "want")).string == "paused")
        // An operation that is older than the one in force does nothing.
        try await b.f.redis.send(Command("HSET", b.queue.keys.want, "batch/b", "running \(at - 5)"))
        try await b.tickUntilApplied([running, other])
        #expect(try await b.queue.batch("b")?.wanted == "paused")
    }

    @Test(
        "an invalid operation for a batch is rejected",
        arguments: [
            ("batch/b", "removed"), ("batch/b b", "paused"), ("batch/", "paused"), ("batch/b", "paused 17637120"),
        ])
    func refused(_ field: String, _ value: String) async throws {
        let b = try await BatchFixture()
        try await b.f.redis.send(Command("HSET", b.queue.keys.want, field, value))
        try await b.f.tick()
        #expect(try await b.f.redis.send(Command("HLEN", b.queue.keys.want)).int == 0)
        #expect(
            try await b.f.redis.send(Command("LINDEX", b.queue.keys.rejected, 0)).string?.contains("want: ") == true)
    }

    @Test("however many members a batch has, no call takes long, and a failover forgets none of them")
    func many() async throws {
        let b = try await BatchFixture()
        let count = 4000
        for page in stride(from: 0, to: count, by: 500) {
            let elements = (page..<page + 500).map { #"{"url":"http://h/","id":"j\#($0)","delay":1000,"batch":"b"}"# }
            try await b.f.redis.send(Command(arguments: ["LPUSH", b.queue.keys.jobs] + elements))
        }
        try await eventually("all to be taken", within: .seconds(60)) {
            _ = try await b.f.claim()
            return try await b.f.redis.send(Command("LLEN", b.queue.keys.jobs)).int == 0
        }
        #expect(try await b.counts() == [count, 0, 0, 0, 0])
        var (most, calls) = (0, 0)
        func step(_ tick: inout Tick) async throws -> Bool {
            let isDone = try await !b.queue.step(&tick)
            if !isDone { calls += 1 }
            let text = try #require(try await b.f.redis.send(Command("INFO", "commandstats")).string)
            let counts = text.split(separator: "\r\n").compactMap { line in
                line.split(separator: ",").first?.split(separator: "=").last.flatMap { Int($0) }
            }
            most = max(most, counts.reduce(0, +))
            return !isDone
        }
        try await b.queue.request(.cancelled, ofBatch: "b")
        var isForgotten = false
        // As after a failover: the cursor in the operation is of another run of the server. This is tried after each
        // call, because a fast machine may end all members within one tick.
        func forgetHalfway() async throws {
            guard !isForgotten, try await b.counts()[0] < count / 2,
                let value = try await b.f.redis.send(Command("HGET", b.queue.keys.want, "batch/b")).string
            else { return }
            isForgotten = true
            let place = value.split(separator: " ").dropLast().joined(separator: " ")
            try await b.f.redis.send(Command("HSET", b.queue.keys.want, "batch/b", place + " 00"))
        }
        try await eventually("all to be cancelled", within: .seconds(60)) {
            var tick = Tick(b.f.worker, runs: [])
            var goesOn = true
            while goesOn {
                try await b.f.redis.send(Command("CONFIG", "RESETSTAT"))
                goesOn = try await step(&tick)
                try await forgetHalfway()
            }
            return try await b.counts()[0] == 0
        }
        #expect(isForgotten)
        #expect(try await b.counts() == [0, 0, 0, count, 0])
        print("batch of \(count), cancelled: \(calls) calls, of \(most) commands at most")
        #expect(most < 1000)
        try await b.tickUntilApplied()
        try await b.f.expectOrder()
    }

    @Test("members whose pause no tick has applied yet go on when the batch is resumed") func resumedAtOnce()
        async throws
    {
        let b = try await BatchFixture()
        var claims: [Claim] = []
        for n in 0..<20 { claims.append(try await b.begin("\(n)", in: #""b""#)) }
        for claim in claims { try await b.f.settle(claim, .retry(after: .seconds(60), Failure(.connect, "m"))) }
        try await b.queue.request(.paused, ofBatch: "b")
        try await eventually("the pause to be handed to the members") {
            try await b.f.tick()
            return try await b.f.redis.send(Command("HEXISTS", b.queue.keys.want, "batch/b")).int == 0
        }
        #expect(try await b.f.redis.send(Command("HLEN", b.queue.keys.want)).int ?? 0 > 0)
        try await b.ask(.running)
        #expect(try await b.queue.stats().counts[.paused] == 0)
        try await b.f.expectOrder()
    }

    @Test("a known job that joins a batch does what the batch does", arguments: [BatchOperation.paused, .cancelled])
    func joined(_ operation: BatchOperation) async throws {
        let b = try await BatchFixture()
        try await b.ask(operation)
        let waiting = try await b.begin("waiting", in: #""other""#)
        try await b.f.settle(waiting, .retry(after: .seconds(60), Failure(.connect, "m")))
        let paused = try await b.begin("paused", in: #""other""#)
        try await b.queue.request(.paused, of: ["paused"])
        try await b.f.tick([paused])
        try await b.f.settle(paused, .paused)
        for id in ["waiting", "paused"] { try await b.push(id, in: #""b""#) }
        #expect(try await b.f.claim() == nil)
        try await b.tickUntilApplied()
        let state: JobState = operation == .paused ? .paused : .cancelled
        for id in ["waiting", "paused"] { #expect(try await b.f.state(id) == state, "\(id)") }
        #expect(try await b.counts() == (operation == .paused ? [2, 0, 0, 0, 0] : [0, 0, 0, 2, 0]))
        try await b.f.expectOrder()
    }

    @Test("an older push that joins a cancelled batch does not stop the run of a newer push") func joinedByOlder()
        async throws
    {
        let b = try await BatchFixture()
        try await b.f.tick()
        let at = try await b.queue.time()
        try await eventually { try await b.queue.time() > at + 10 }
        try await b.f.redis.send(Command("HSET", b.queue.keys.want, "batch/b", "cancelled \(at + 2)"))
        try await b.tickUntilApplied()
        try await b.f.push(#"{"url":"http://h/2","id":"j","at":\#(at + 4)}"#)
        let newer = try #require(try await b.f.claim())
        try await b.push("j", in: #""b""#, #","at":\#(at)"#)
        #expect(try await b.f.claim() == nil)
        let reply = try await b.f.tick([newer])
        #expect(reply.operations.isEmpty)
        #expect(try await b.f.state("j") == .running)
        #expect(try await b.queue.job("j")?["want"] == nil)
        try await b.f.settle(newer, QueueFixture.done)
        try await b.f.expectOrder()
    }

    @Test(
        "a cancel reaches elements that wait for a host or for a limit of their group",
        arguments: [("group:g", #"{"running":0}"#), ("h", #"{"connections":0}"#)])
    func deferred(_ name: String, _ limit: String) async throws {
        let b = try await BatchFixture()
        try await b.f.redis.send(Command("HSET", b.queue.keys.limits, name, limit))
        for id in ["1", "2", "3"] { try await b.push(id, in: Self.three, #","group":"g""#) }
        try await b.push("other", in: #""c""#, #","group":"g""#)
        #expect(try await b.f.claim() == nil)
        try await b.queue.request(.cancelled, ofBatch: "b")
        try await eventually("the batch to end") {
            try await b.f.tick()
            return try await b.rounds() == [1]
        }
        #expect(try await b.counts() == [0, 0, 0, 3, 0])
        #expect(try await b.f.state("other") == nil)
        #expect(try await b.queue.stats().counts[.queued] == 1)
        try await b.f.expectOrder()
    }

    @Test("a cancel reaches a member of a kind that no worker does, also one that comes after it") func kind()
        async throws
    {
        let b = try await BatchFixture()
        _ = try await b.queue.register(b.f.worker, fields: [("kinds", "download")], known: [])
        try await b.queue.request(.cancelled, ofBatch: "b")
        // The elements that wait are looked at when the operation comes, and not later.
        for _ in 0..<3 { try await b.f.tick() }
        let batch = #"{"name":"b","size":1,"reply_to":"r"}"#
        try await b.f.push(#"{"kind":"upload","url":"http://h/","file":"f","id":"1","batch":\#(batch)}"#)
        #expect(try await b.f.claim() == nil)
        try await eventually("the member to be cancelled") {
            try await b.f.tick()
            return try await b.f.state("1") == .cancelled
        }
        try await b.f.expectOrder()
    }
}
