import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulBus

@Suite struct SchedulePauseTests {
    private static let dawn = ClockedQueue.dawn

    private static func definition(every seconds: Int, _ members: String = "") -> String {
        #"{"every":\#(seconds),\#(members)"job":{"url":"http://h/f"}}"#
    }

    private func define(_ queue: Queue, _ definition: String) async throws {
        try await queue.redis.send(Command("HSET", queue.keys.schedules, "s", definition))
        try await queue.redis.send(Command("ZADD", queue.keys.scheduleDue, "LT", 0, "s"))
    }

    private func tick(_ c: ClockedQueue) async throws {
        let reply = try await c.queue.tick(c.f.worker, runs: [])
        _ = try await c.queue.push(reply.schedules, as: c.f.worker)
    }

    /// A queue with a schedule that a worker has planned, and that was paused then.
    private func paused() async throws -> ClockedQueue {
        let c = try await ClockedQueue()
        try await define(c.queue, Self.definition(every: 10))
        try await tick(c)
        try await c.queue.setPaused(true, schedule: "s", at: c.now())
        return c
    }

    private func pause(of name: String, _ queue: Queue) async throws -> RedisValue {
        try await queue.redis.send(Command("HGET", queue.keys.schedulePaused, name))
    }

    private func record(_ queue: Queue) async throws -> ScheduleRecord {
        try #require(try await queue.schedules().first)
    }

    @Test("a schedule that begins paused and was resumed stays resumed when it is added again as it was") func again()
        async throws
    {
        let c = try await ClockedQueue()
        let schedule = try Schedule(Self.definition(every: 10, #""paused":true,"#))
        #expect(try await c.queue.add(schedule, as: "s", at: c.now()).isPaused)
        try await c.queue.setPaused(false, schedule: "s", at: c.now())
        #expect(try await !c.queue.add(schedule, as: "s", at: c.now()).isPaused)
        #expect(try await record(c.queue).schedule?.isPaused == false)
        let other = try Schedule(Self.definition(every: 20, #""paused":true,"#))
        #expect(try await c.queue.add(other, as: "s", at: c.now()).isPaused)
    }

    @Test("a definition that is not UTF-8 is listed with that reason") func bytes() async throws {
        let c = try await ClockedQueue()
        let text = Array(Self.definition(every: 10).utf8.dropLast(3)) + [0xff] + Array(#""}}"#.utf8)
        try await c.queue.redis.send(Command(arguments: ["HSET", c.queue.keys.schedules, "s", text]))
        #expect(try await record(c.queue).error == "must be UTF-8 text")
    }

    @Test("a pause and its end write no definition, and stay when the definition is replaced") func definitions()
        async throws
    {
        let c = try await paused()
        let queue = c.queue
        #expect(try await queue.scheduleDefinition("s") == Self.definition(every: 10))
        #expect(try await record(queue).next == nil)
        // With another definition as well.
        #expect(try await queue.add(try Schedule(Self.definition(every: 20)), as: "s", at: c.now()).isPaused)
        try await c.set(40_000)
        try await tick(c)
        let paused = try await record(queue)
        #expect(paused.schedule?.isPaused == true && paused.next == nil && paused.count("pushed") == 0)
        try await queue.setPaused(false, schedule: "s", at: c.now())
        try await tick(c)
        let resumed = try await record(queue)
        #expect(resumed.schedule?.isPaused == false && resumed.next == Self.dawn + 60_000)
        #expect(try await queue.scheduleDefinition("s") == Schedule(Self.definition(every: 20)).text)
    }

    @Test("a definition may begin paused, and is resumed without being written") func beginsPaused() async throws {
        let c = try await ClockedQueue()
        let definition = Self.definition(every: 10, #""paused":true,"#)
        try await define(c.queue, definition)
        try await tick(c)
        #expect(try await record(c.queue).next == nil)
        try await c.queue.setPaused(false, schedule: "s", at: c.now())
        try await tick(c)
        #expect(try await record(c.queue).next == Self.dawn + 10_000)
        #expect(try await c.queue.scheduleDefinition("s") == definition)
        // To add it once more pauses it once more.
        try await c.queue.add(try Schedule(definition), as: "s", at: c.now())
        try await tick(c)
        #expect(try await record(c.queue).next == nil)
    }

    @Test("a schedule that is resumed while a worker plans its pause is planned again") func changed() async throws {
        let c = try await ClockedQueue()
        try await define(c.queue, Self.definition(every: 10))
        try await c.queue.setPaused(true, schedule: "s", at: c.now())
        let found = try await c.queue.tick(c.f.worker, runs: []).schedules
        try await c.queue.setPaused(false, schedule: "s", at: c.now())
        _ = try await c.queue.push(found, as: c.f.worker)
        try await tick(c)
        #expect(try await record(c.queue).next == Self.dawn + 10_000)
    }

    @Test("a pause of a schedule that was removed meanwhile brings nothing back, and is forgotten") func removed()
        async throws
    {
        let c = try await paused()
        let queue = c.queue
        #expect(try await queue.removeSchedule("s"))
        #expect(try await pause(of: "s", queue) == .null)
        try await queue.setPaused(true, schedule: "s", at: c.now())
        #expect(try await queue.schedules().isEmpty)
        // A queue without schedules is not looked at for them.
        try await queue.redis.send(Command("HSET", queue.keys.schedules, "t", Self.definition(every: 10)))
        try await tick(c)
        #expect(try await pause(of: "s", queue) == .null)
    }

    @Test("a key of pauses of another type leaves the definitions as they are") func wrongType() async throws {
        let c = try await ClockedQueue()
        try await c.queue.redis.send(Command("SET", c.queue.keys.schedulePaused, "1"))
        try await define(c.queue, Self.definition(every: 10))
        try await tick(c)
        #expect(try await record(c.queue).next == Self.dawn + 10_000)
    }
}
