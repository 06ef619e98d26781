import HaulBus
import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

@Suite struct GateTests {
    @Test("an invalid element is rejected with the field's name, and does not block the queue")
    func gate() async throws {
        let f = try await QueueFixture()
        for vector in InvalidElements.all {
            try await f.redis.send(Command("LPUSH", f.queue.keys.jobs, vector.element))
            #expect(try await f.claim() == nil, "\(vector)")
            let rejected = try #require(try await f.queue.rejected(limit: 1).first)
            let reason = try #require(try JSON(rejected)["reason"]?.string)
            #expect(reason.hasPrefix((vector.field ?? "element") + ":"), "\(vector): \(reason)")
        }
        try await f.push(#"{"url":"http://h/a"}"#)
        #expect(try await f.claim() != nil)
        try await f.expectOrder()
    }

    @Test("an invalid push changes nothing of a scheduled job") func known() async throws {
        let f = try await QueueFixture()
        try await f.push(#"{"url":"http://h/a","id":"x","delay":1000}"#)
        #expect(try await f.claim() == nil)
        let before = try await f.queue.job("x")?.fields
        try await f.push(#"{"url":"ftp://h/a","id":"x"}"#)
        #expect(try await f.claim() == nil)
        #expect(try await f.queue.job("x")?.fields == before)
        try await f.expectOrder()
    }

    @Test("no invalid push changes a job, in any state", arguments: ["paused", "failed", "completed", "running"])
    func untouched(_ state: String) async throws {
        let f = try await QueueFixture()
        try await f.push(#"{"url":"http://h/a","id":"x","meta":{"a":1},"reply_to":"me"}"#)
        let claim = try #require(try await f.claim())
        switch state {
        case "paused":
            try await f.queue.request(.paused, of: ["x"])
            try await f.tick([claim])
            try await f.settle(claim, .paused)
        case "failed": try await f.settle(claim, .failed(Failure(.io, "m"), retryable: true, received: 0))
        case "completed": try await f.settle(claim, QueueFixture.done)
        default: break
        }
        try await f.redis.send(Command("HSET", f.queue.keys.offsets("x"), 0, 5))
        func all() async throws -> [RedisValue] {
            var values: [RedisValue] = []
            for key in [f.queue.keys.job("x"), f.queue.keys.spec("x"), f.queue.keys.offsets("x")] {
                values.append(try await f.redis.send(Command("HGETALL", key)))
            }
            return values + [try await f.redis.send(Command("LLEN", f.queue.keys.reply("me")))]
        }
        let before = try await all()
        #expect(try await f.state("x")?.rawValue == state)
        for vector in InvalidElements.all
        where vector.element.first == UInt8(ascii: "{") && vector.element.count < 20_000 {
            let element = Array(#"{"id":"x","#.utf8) + vector.element.dropFirst()
            // The element lacked only the id, and is valid with it.
            if (try? Job(element: element)) != nil { continue }
            try await f.redis.send(Command("LPUSH", f.queue.keys.jobs, element))
            #expect(try await f.claim() == nil, "\(vector)")
            #expect(try await all() == before, "\(vector)")
            let rejected = try #require(try await f.queue.rejected(limit: 1).first)
            #expect(try JSON(rejected)["reason"]?.string != nil, "\(vector)")
            try await f.redis.send(Command("DEL", f.queue.keys.rejected))
        }
    }

    @Test(
        "a job returns to its earlier state if a worker cannot read its new push",
        arguments: ["paused", "failed", "completed", "new"])
    func unreadable(_ state: String) async throws {
        let f = try await QueueFixture()
        if state != "new" {
            try await f.push(#"{"url":"http://h/a","id":"x","meta":{"a":1}}"#)
            let claim = try #require(try await f.claim())
            switch state {
            case "paused":
                try await f.queue.request(.paused, of: ["x"])
                try await f.tick([claim])
                try await f.settle(claim, .paused)
            case "failed": try await f.settle(claim, .failed(Failure(.io, "m"), retryable: true, received: 0))
            default: try await f.settle(claim, QueueFixture.done)
            }
            if state != "completed" { try await f.redis.send(Command("HSET", f.queue.keys.offsets("x"), 0, 5)) }
            if state == "failed" { try await f.redis.send(Command("PEXPIRE", f.queue.keys.offsets("x"), 99_999_999)) }
        }
        func all() async throws -> [[String: String]] {
            var values: [[String: String]] = []
            for key in [f.queue.keys.job("x"), f.queue.keys.spec("x"), f.queue.keys.offsets("x")] {
                values.append(try await f.redis.send(Command("HGETALL", key)).dictionary)
            }
            for name in ["seq", "settled", "epoch"] { values[0][name] = nil }
            return values
        }
        let before = try await all()
        try await f.push(#"{"url":"http://h/b","id":"x","meta":2,"deadline":99}"#)
        let claim = try #require(try await f.claim())
        #expect(try await f.settle(claim, .rejected(reason: "a \"reason\"", before: claim.before)))
        // The settle is sent again.
        #expect(try await f.settle(claim, .rejected(reason: "a \"reason\"", before: claim.before)))
        #expect(try await f.queue.rejected(limit: 2).count == 1)
        if state == "new" {
            #expect(try await f.state("x") == .failed)
            #expect(try await f.queue.job("x")?["error"] == "bad_job")
        } else {
            #expect(try await all() == before)
        }
        try await f.expectOrder()
    }

    @Test(
        "an operation that waits for a run whose push is refused is for the job that is there now",
        arguments: [JobState.paused, .completed, .failed], [ControlOperation.cancelled, .removed, .paused])
    func operationOfRefused(_ state: JobState, _ operation: ControlOperation) async throws {
        let f = try await QueueFixture()
        try await f.push(#"{"url":"http://h/a","id":"x"}"#)
        let first = try #require(try await f.claim())
        let failure = Failure(.http(404), "m")
        switch state {
        case .paused:
            try await f.queue.request(.paused, of: ["x"])
            try await f.tick([first])
            try await f.settle(first, .paused)
        case .completed: try await f.settle(first, QueueFixture.done)
        default: try await f.settle(first, .failed(failure, retryable: true, received: 0))
        }
        #expect(try await f.state("x") == state)
        try await f.push(#"{"url":"http://h/b","id":"x"}"#)
        let claim = try #require(try await f.claim())
        try await f.queue.request(operation, of: ["x"])
        try await f.tick([claim])
        // What is pushed behind the operation is kept until the run has ended.
        try await f.push(#"{"url":"http://h/c","id":"x","at":\#(try await f.queue.time() + 1)}"#)
        #expect(try await f.claim() == nil)
        #expect(try await f.settle(claim, .rejected(reason: "no", before: claim.before)))
        let next = try #require(try await f.claim())
        #expect(try next.job().urls == ["http://h/c"])
        try await f.expectOrder()
    }

    @Test("an operation that waits for a run whose push is refused stops the job that is there now")
    func stopOfRefused() async throws {
        for (operation, end) in [(ControlOperation.cancelled, JobState.cancelled), (.removed, nil)] {
            let f = try await QueueFixture()
            try await f.push(#"{"url":"http://h/a","id":"x"}"#)
            let first = try #require(try await f.claim())
            try await f.queue.request(.paused, of: ["x"])
            try await f.tick([first])
            try await f.settle(first, .paused)
            try await f.push(#"{"url":"http://h/b","id":"x"}"#)
            let claim = try #require(try await f.claim())
            try await f.queue.request(operation, of: ["x"])
            try await f.tick([claim])
            try await f.settle(claim, .rejected(reason: "no", before: claim.before))
            #expect(try await f.state("x") == end)
            try await f.expectOrder()
        }
    }

    @Test("a job in the queue continues without a newer push that its worker cannot read") func renewal() async throws {
        let f = try await QueueFixture()
        try await f.push(#"{"url":"http://h/a","id":"x"}"#)
        let first = try #require(try await f.claim())
        try await f.push(#"{"url":"http://other/a","id":"x"}"#)
        #expect(try await f.claim() == nil)
        try await f.settle(first, .released(why: "test"))
        let claim = try #require(try await f.claim())
        #expect(try claim.job().urls == ["http://other/a"])
        let read = try claim.read { job throws(Job.Invalid) in
            if job.urls[0].contains("other") { throw Job.Invalid(field: "url", reason: "odd") }
        }
        #expect(read.job.urls == ["http://h/a"] && read.refused?.description == "url: odd")
    }

    @Test("an element's id is the same in Swift and in Lua") func ids() async throws {
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

    @Test("what was rejected is kept for a day after the newest rejection") func rejected() async throws {
        let f = try await QueueFixture()
        try await f.push("nonsense")
        #expect(try await f.claim() == nil)
        let left = try await f.redis.send(Command("TTL", f.queue.keys.rejected)).int ?? -1
        #expect((86_000...86_400).contains(left))
    }
}
