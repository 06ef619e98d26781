import HaulContract
import HaulTestSupport
import Testing

@testable import HaulBus

/// What becomes of runs while a schedule waits to be planned.
@Suite struct SchedulePlanningTests {
    private static let dawn = ClockedQueue.dawn
    private static let job = #"{"url":"http://h/f"}"#

    @Test("a run that is due between a change of its schedule and the planning of that takes place")
    func dueSinceChange() async throws {
        let bench = try await ScheduleBench()
        let schedule = try Schedule(#"{"every":10,"unique":true,"overlap":"allow","job":\#(Self.job)}"#)
        func pushed(at time: Int64, _ count: Int) async throws {
            try await bench.c.set(time)
            try await bench.tick()
            let record = try await bench.record("s")
            let last = Self.dawn + time / 10_000 * 10_000
            #expect(record.count("pushed") == count && record.fields["last_due"] == "\(last)", "\(record.fields)")
            #expect(record.next == last + 10_000)
        }
        // A new schedule, then one that is written again as it was, another one of the name, and one that was paused.
        try await bench.c.set(9_990)
        try await bench.queue.add(schedule, as: "s", at: bench.c.now())
        try await pushed(at: 10_900, 1)
        try await bench.c.set(19_990)
        try await bench.queue.add(schedule, as: "s", at: bench.c.now())
        try await pushed(at: 20_900, 2)
        try await bench.c.set(29_990)
        var other = schedule
        other.catchUp = .none
        try await bench.queue.add(other, as: "s", at: bench.c.now())
        try await pushed(at: 30_900, 3)
        try await bench.queue.setPaused(true, schedule: "s", at: bench.c.now())
        try await bench.tick()
        try await bench.c.set(49_990)
        try await bench.queue.setPaused(false, schedule: "s", at: bench.c.now())
        try await pushed(at: 50_900, 4)
    }

    @Test("a schedule that is written again as it was, while no worker serves the queue, misses no run")
    func writtenAgain() async throws {
        let bench = try await ScheduleBench()
        let schedule = try Schedule(#"{"every":10,"unique":true,"overlap":"allow","job":\#(Self.job)}"#)
        try await bench.queue.add(schedule, as: "s", at: bench.c.now())
        try await bench.tick()
        try await bench.c.set(32_000)
        try await bench.queue.add(schedule, as: "s", at: bench.c.now())
        try await bench.c.set(33_000)
        for count in 1...3 {
            try await bench.tick()
            #expect(try await bench.record("s").count("pushed") == count)
        }
        #expect(try await bench.record("s").next == Self.dawn + 40_000)
    }

    @Test("however many schedules are to be planned, runs come first, and the others follow at once")
    func many() async throws {
        let bench = try await ScheduleBench()
        try await bench.define("due", #"{"every":10,"job":\#(Self.job)}"#)
        try await bench.tick()
        for number in 0..<100 { try await bench.define("n\(number)", #"{"every":60,"job":\#(Self.job)}"#) }
        try await bench.c.set(10_000)
        let reply = try await bench.queue.tick(bench.f.worker, runs: [])
        #expect(reply.schedules.first?.name == "due" && reply.schedules.count == 5)
        #expect(reply.pace.map { $0 <= .milliseconds(5) } == true)
        _ = try await bench.queue.push(reply.schedules, as: bench.f.worker)
        for _ in 0..<20 {
            #expect(try await bench.queue.pace(bench.f.worker).map { $0 <= .milliseconds(5) } == true)
        }
        #expect(try await bench.queue.schedules().allSatisfy { $0.next != nil })
        #expect(try await Inspection(bench.queue).run().isEmpty)
        for number in 0..<1000 { try await bench.define("m\(number)", #"{"every":60,"job":\#(Self.job)}"#) }
        #expect(try await Inspection(bench.queue).run().contains { $0.problem.hasPrefix("it has 1101 schedules") })
    }
}
