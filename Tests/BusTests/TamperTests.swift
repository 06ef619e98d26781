import Bus
import Contract
import Redis
import TestSupport
import Testing

/// What a hand at redis-cli, or an odd producer, may do without stopping the queue.
@Suite struct TamperTests {
    @Test("a field's name may be written with escapes, and is the same field") func escaped() async throws {
        let f = try await QueueFixture()
        try await f.push(#"{"url":"http://h/a","id":"x","\u006deta":{"a":1}}"#)
        try await f.push(#"{"url":"http://h/a","id":"y"}"#)
        let x = try await f.claim()
        #expect(x?.run.id == "x")
        let y = try await f.claim()
        #expect(y?.run.id == "y")
        try await f.expectOrder()
    }

    @Test("a job that has Redis' own field as well as a url is a job") func ticket() async throws {
        let f = try await QueueFixture()
        try await f.push(#"{"url":"http://h/a","id":"x","t":"mine"}"#)
        #expect(try await f.claim()?.run.id == "x")
        try await f.expectOrder()
    }

    @Test("a job whose pushed text is gone stops nobody") func specless() async throws {
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

    @Test("however many requests there are, no tick takes long, and none of them is lost") func many() async throws {
        let f = try await QueueFixture()
        let ids = (0..<2_000).map { "j\($0)" }
        try await f.queue.request(.paused, of: ids)
        // For a finished file that is elsewhere: it waits, and holds up none.
        try await f.push(#"{"url":"http://h/a","id":"x"}"#)
        let claim = try #require(try await f.claim())
        try await f.settle(claim, QueueFixture.done)
        try await f.queue.request(.deleted, of: ["x"])
        let elsewhere = WorkerIdentity(name: "w2", store: "other")
        try await eventually("all but one to be applied") {
            _ = try await f.queue.tick(elsewhere, fields: [], runs: [])
            return try await f.redis.send(Command("HLEN", f.queue.keys.want)).int == 1
        }
        // Reading all of them for each two hundred would be reading half a million.
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

    @Test("a key of another type in the place of a job's stops no other job", arguments: ["job", "spec", "offsets"])
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
        #expect(rejected.count == 1 && rejected.first?.string?.contains("holds no hash") == true)
        // Left as they are, for whoever put them there.
        #expect(try await f.redis.send(Command("GET", f.queue.keys.prefix + "\(kind):end")).string == "x")
    }
}
