import HaulBus
import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

@Suite struct DuplicateTests {
    @Test("a push of a running or queued job starts no second run") func running() async throws {
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

    @Test("a push that a producer repeats undoes no cancel and no completion") func repeated() async throws {
        let f = try await QueueFixture()
        let element = #"{"url":"http://h/1","id":"1","at":1000000000000}"#
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

    @Test("an old ticket starts no run") func ticket() async throws {
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

    @Test("a ticket that was replaced starts no run, although its job is in the queue again") func replaced()
        async throws
    {
        let f = try await QueueFixture()
        try await f.push(#"{"url":"http://h/1","id":"1"}"#)
        try await f.settle(try #require(try await f.claim()), .released(why: "test"))
        for operation in [ControlOperation.paused, .running] {
            try await f.queue.request(operation, of: ["1"])
            try await f.tick()
        }
        // The new ticket is at the front.
        let new = try #require(try await f.redis.send(Command("RPOP", f.queue.keys.jobs)).string)
        #expect(try await f.claim() == nil)
        #expect(try await f.state("1") == .queued)
        try await f.push(new)
        #expect(try await f.claim() != nil)
        try await f.expectOrder()
    }
}
