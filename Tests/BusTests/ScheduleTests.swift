import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulBus

@Suite struct ScheduleTests {
    private static let dawn = ClockedQueue.dawn
    private static let job = #"{"url":"http://h/f"}"#

    @Test("a definition that any client has written is pushed at each due time, once") func due() async throws {
        let bench = try await ScheduleBench()
        try await bench.define("s", #"{"every":10,"job":\#(Self.job)}"#)
        try await bench.tick()
        #expect(try await bench.record("s").next == Self.dawn + 10_000)
        #expect(try await bench.queue.job("s") == nil)
        for run in 1...3 {
            try await bench.c.set(Int64(run) * 10_000 - 1)
            try await bench.tick()
            #expect(try await bench.record("s").count("pushed") == run - 1)
            try await bench.c.set(Int64(run) * 10_000)
            // Both workers have found it due.
            let first = try await bench.queue.tick(bench.f.worker, runs: []).schedules
            let second = try await bench.queue.tick(bench.other, runs: []).schedules
            #expect(first.count == 1 && second.count == 1)
            let wait = try await bench.queue.push(first, as: bench.f.worker).wait
            #expect(wait != nil)
            _ = try await bench.queue.push(second, as: bench.other)
            // A call that is sent again.
            _ = try await bench.queue.push(first, as: bench.f.worker)
            #expect(try await bench.record("s").count("pushed") == run)
            #expect(try await bench.queue.job("s")?.state == .scheduled)
            try await bench.c.set(Int64(run) * 10_000 + 5)
            _ = try await bench.queue.pace(bench.f.worker)
            try await bench.finish("s")
            #expect(try await bench.c.claim() == nil)
        }
        let record = try await bench.record("s")
        #expect(record.lastState == .completed && record.fields["last_due"] == "\(Self.dawn + 30_000)")
        #expect(record.next == Self.dawn + 40_000)
        try await bench.f.expectOrder()
    }

    @Test("pace() pushes what is due between the ticks, and says when to call again") func pace() async throws {
        let bench = try await ScheduleBench()
        try await bench.define("s", #"{"every":1,"job":\#(Self.job)}"#)
        try await bench.tick()
        try await bench.c.set(600)
        #expect(try await bench.queue.tick(bench.f.worker, runs: []).pace == .milliseconds(400))
        try await bench.c.set(1000)
        #expect(try await bench.queue.pace(bench.f.worker).map { $0 <= .milliseconds(5) } == true)
        #expect(try await bench.record("s").fields["last_at"] == "\(Self.dawn + 1000)")
    }

    @Test("a run that is due while the last one has not ended is skipped") func overlap() async throws {
        let bench = try await ScheduleBench()
        try await bench.define("one", #"{"every":10,"job":\#(Self.job)}"#)
        try await bench.define("each", #"{"every":10,"unique":true,"job":\#(Self.job)}"#)
        try await bench.define("all", #"{"every":10,"unique":true,"overlap":"allow","job":\#(Self.job)}"#)
        try await bench.tick()
        for time: Int64 in [10_000, 20_000] {
            try await bench.c.set(time)
            try await bench.tick()
        }
        for (name, pushed) in [("one", 1), ("each", 1), ("all", 2)] {
            let record = try await bench.record(name)
            #expect(record.count("pushed") == pushed && record.count("skipped") == 2 - pushed, "\(name)")
        }
        let date = CivilDate.text(ofMilliseconds: Self.dawn + 20_000)
        #expect(try await bench.queue.job("all:\(date)") != nil)
        #expect(try await bench.queue.job("each:\(date)") == nil)
    }

    @Test("after a time without workers the latest missed run takes place, or none", arguments: [true, false])
    func catchUp(_ isWanted: Bool) async throws {
        let bench = try await ScheduleBench()
        let policy = isWanted ? "" : #""catch_up":"none","#
        try await bench.define("s", #"{"cron":"0 * * * *",\#(policy)"unique":true,"job":\#(Self.job)}"#)
        try await bench.tick()
        let first = try #require(try await bench.record("s").next)
        try await bench.c.set(first - Self.dawn + 5 * 3_600_000 + 120_000)
        try await bench.tick()
        var record = try await bench.record("s")
        #expect(record.count("pushed") == (isWanted ? 1 : 0) && record.count("missed") == 1)
        #expect(record.next == first + 6 * 3_600_000)
        if isWanted { #expect(record.fields["last_due"] == "\(first + 5 * 3_600_000)") }
        if isWanted {
            try await bench.c.set(first - Self.dawn + 5 * 3_600_000 + 120_005)
            _ = try await bench.queue.pace(bench.f.worker)
            let claim = try #require(try await bench.c.claim())
            try await bench.queue.settle(claim.run, as: QueueFixture.done, worker: bench.f.worker)
        }
        // A run that is a few seconds late was not missed.
        try await bench.c.set(first - Self.dawn + 6 * 3_600_000 + 5000)
        try await bench.tick()
        record = try await bench.record("s")
        #expect(record.count("missed") == 1 && record.fields["last_due"] == "\(first + 6 * 3_600_000)")
    }

    @Test("after a time without workers each run that is less than a minute late takes place")
    func lateRuns() async throws {
        let bench = try await ScheduleBench()
        try await bench.define("s", #"{"every":5,"overlap":"allow","unique":true,"job":\#(Self.job)}"#)
        try await bench.tick()
        try await bench.c.set(80_000)
        for _ in 0..<20 { try await bench.tick() }
        let record = try await bench.record("s")
        // Of the runs at 5, 10 and 15 s the last one takes place, and those at 20 to 80 s do.
        #expect(record.count("pushed") == 14 && record.count("missed") == 1, "\(record.fields)")
        #expect(record.fields["last_due"] == "\(Self.dawn + 80_000)")
        for second: Int64 in [15, 20, 80] {
            let date = CivilDate.text(ofMilliseconds: Self.dawn + second * 1000)
            #expect(try await bench.queue.job("s:\(date)") != nil)
        }
    }

    @Test("schedules whose zone no worker knows do not keep others waiting") func unknownZones() async throws {
        let bench = try await ScheduleBench()
        for number in 0..<60 {
            try await bench.define("odd-\(number)", #"{"cron":"0 * * * *","zone":"Mars/X","job":\#(Self.job)}"#)
        }
        try await bench.tick()
        let findings = try await Inspection(bench.queue).run().filter { $0.problem.contains("odd-") }
        #expect(!findings.isEmpty && findings.allSatisfy { $0.problem.contains("do not know the time zone Mars/X") })
        try await bench.define("s", #"{"every":10,"job":\#(Self.job)}"#)
        for second in 1...30 {
            try await bench.c.set(Int64(second) * 1000)
            for _ in 0..<8 { try await bench.tick() }
        }
        #expect(try await bench.record("s").count("pushed") + bench.record("s").count("skipped") >= 2)
    }

    @Test("a definition that replaces another one within a second is planned") func replaced() async throws {
        let bench = try await ScheduleBench()
        try await bench.define("old", #"{"every":10,"job":\#(Self.job)}"#)
        try await bench.tick()
        try await bench.f.redis.send(Command("HDEL", bench.queue.keys.schedules, "old"))
        try await bench.define("new", #"{"every":10,"job":\#(Self.job)}"#)
        try await bench.tick()
        #expect(try await bench.record("new").next == Self.dawn + 10_000)
        #expect(try await bench.f.redis.send(Command("ZSCORE", bench.queue.keys.scheduleDue, "old")) == .null)
    }

    @Test("a paused schedule pushes nothing unless an operator asks for a run") func paused() async throws {
        let bench = try await ScheduleBench()
        var schedule = try Schedule(#"{"every":10,"job":\#(Self.job)}"#)
        schedule.isPaused = true
        try await bench.queue.add(schedule, as: "s", at: bench.c.now())
        try await bench.tick()
        try await bench.c.set(100_000)
        try await bench.tick()
        #expect(try await bench.record("s").count("pushed") == 0)
        _ = try await bench.queue.runSchedule("s")
        // Redis' own clock made the request, and the test's clock is ahead of it.
        try await bench.tick()
        #expect(try await bench.record("s").count("pushed") == 1)
        #expect(try await bench.record("s").next == nil)
        try await bench.queue.setPaused(false, schedule: "s", at: bench.c.now())
        try await bench.tick()
        #expect(try await bench.record("s").next == Self.dawn + 110_000)
    }

    @Test("a run that an operator asks for replaces none that is due") func asked() async throws {
        let bench = try await ScheduleBench()
        try await bench.define("s", #"{"every":10,"unique":true,"overlap":"allow","job":\#(Self.job)}"#)
        try await bench.tick()
        try await bench.c.set(10_000)
        _ = try await bench.queue.runSchedule("s")
        try await bench.tick()
        try await bench.tick()
        #expect(try await bench.record("s").count("pushed") == 2)
        #expect(try await bench.record("s").next == Self.dawn + 20_000)
    }

    @Test("a run that was requested takes place once, whatever operators do with the schedule before a worker sees it")
    func askedBefore() async throws {
        let bench = try await ScheduleBench()
        try await bench.define("s", #"{"every":10,"unique":true,"job":\#(Self.job)}"#)
        try await bench.tick()
        let time = try await bench.queue.runSchedule("s")
        var schedule = try Schedule(#require(try await bench.queue.scheduleDefinition("s")))
        schedule.isPaused = true
        try await bench.queue.add(schedule, as: "s", at: bench.c.now())
        #expect(try await bench.queue.runSchedule("s") == time)
        // Redis' own clock made the request, and the test's clock is behind it.
        try await bench.tick()
        let record = try await bench.record("s")
        #expect(record.count("pushed") == 1 && record.fields["last_due"] == "\(time)" && record.next == nil)
        #expect(record.fields["last_id"] == schedule.id(ofRun: time, of: "s"))
        // A definition that comes later is planned at once.
        schedule.isPaused = false
        try await bench.queue.add(schedule, as: "s", at: bench.c.now())
        try await bench.queue.setPaused(false, schedule: "s", at: bench.c.now())
        try await bench.tick()
        #expect(try await bench.record("s").next == Self.dawn + 10_000)
    }

    @Test("a definition that changes while a worker plans it is planned again") func changed() async throws {
        let bench = try await ScheduleBench()
        try await bench.define("s", #"{"every":10,"job":\#(Self.job)}"#)
        let found = try await bench.queue.tick(bench.f.worker, runs: []).schedules
        try await bench.define("s", #"{"every":20,"job":\#(Self.job)}"#)
        _ = try await bench.queue.push(found, as: bench.f.worker)
        #expect(try await bench.record("s").next == nil)
        try await bench.tick()
        #expect(try await bench.record("s").next == Self.dawn + 20_000)
    }

    @Test("a schedule that was removed pushes nothing and leaves no key", arguments: [true, false])
    func removed(_ isByCommand: Bool) async throws {
        let bench = try await ScheduleBench()
        try await bench.define("s", #"{"every":10,"job":\#(Self.job)}"#)
        try await bench.tick()
        if isByCommand {
            #expect(try await bench.queue.removeSchedule("s"))
            #expect(try await bench.queue.removeSchedule("s") == false)
        } else {
            try await bench.f.redis.send(Command("HDEL", bench.queue.keys.schedules, "s"))
        }
        try await bench.c.set(10_000)
        try await bench.tick()
        let keys = [bench.queue.keys.schedules, bench.queue.keys.scheduleDue, bench.queue.keys.schedule("s")]
        #expect(try await bench.f.redis.send(Command(arguments: ["EXISTS"] + keys)).int == 0)
        #expect(try await bench.queue.job("s") == nil)
    }

    @Test(
        "a definition that is not valid pushes nothing, and haul check says why",
        arguments: [
            ("{", "must be a JSON object"), ("[]", "must be a JSON object"), (#"{"every":10}"#, "job: is missing"),
            (#"{"every":0,"job":{"url":"http://h/f"}}"#, "every: must be"),
            (#"{"every":1,"cron":"* * * * *","job":{}}"#, "either every or cron"),
            (#"{"cron":"* * *","job":{"url":"http://h/f"}}"#, "five fields"),
            (#"{"every":10,"job":{"url":"ftp://h/f"}}"#, "job: url"),
            (#"{"every":10,"job":{"url":"http://h/f","id":"x"}}"#, "job: id is made"),
            (#"{"every":10,"overlap":"allow","job":{"url":"http://h/f"}}"#, "requires unique"),
            (#"{"every":10,"catch_up":"all","job":{"url":"http://h/f"}}"#, "catch_up: must be none or one"),
            (#"{"every":10,"zone":"UTC","job":{"url":"http://h/f"}}"#, "zone: is only for cron"),
            (#"{"every":10,"pause":true,"job":{"url":"http://h/f"}}"#, "pause: is not a member"),
        ])
    func invalid(_ definition: String, _ reason: String) async throws {
        let bench = try await ScheduleBench()
        try await bench.define("s", definition)
        try await bench.define("good", #"{"every":10,"job":\#(Self.job)}"#)
        try await bench.tick()
        try await bench.c.set(10_000)
        try await bench.tick()
        #expect(try await bench.record("s").error?.contains(reason) == true)
        #expect(try await bench.record("good").count("pushed") == 1)
        #expect(try await bench.queue.job("s") == nil)
        let findings = try await Inspection(bench.queue).run()
        #expect(findings.contains { $0.problem.contains(reason) })
    }

    @Test("each due time is pushed once, whatever calls are lost, late or repeated", arguments: [UInt64(1), 2, 3])
    func random(_ seed: UInt64) async throws {
        let bench = try await ScheduleBench()
        var generator = SeededGenerator(state: seed)
        try await bench.define("s", #"{"every":2,"unique":true,"overlap":"allow","job":\#(Self.job)}"#)
        try await bench.tick()
        var now: Int64 = 0
        // What workers have read and not carried out yet. Some of them never do.
        var late: [[DueSchedule]] = []
        for _ in 0..<300 {
            now += Int64.random(in: 0...1500, using: &generator)
            try await bench.c.set(now)
            let worker = generator.chance(50) ? bench.f.worker : bench.other
            switch Int.random(in: 0..<4, using: &generator) {
            case 0: try await bench.tick(worker)
            case 1: _ = try await bench.queue.pace(worker)
            case 2: late.append(try await bench.queue.tick(worker, runs: []).schedules)
            default:
                guard let call = late.randomElement(using: &generator) else { continue }
                _ = try await bench.queue.push(call, as: worker)
            }
        }
        while try await bench.record("s").next.map({ $0 <= Self.dawn + now }) == true { try await bench.tick() }
        for call in late { _ = try await bench.queue.push(call, as: bench.other) }
        let due = (1...now / 2000).map { "s:\(CivilDate.text(ofMilliseconds: Self.dawn + $0 * 2000))" }
        #expect(try await bench.record("s").count("pushed") == due.count)
        #expect(Set(try await bench.queue.jobs(due).map(\.id)) == Set(due))
    }

    @Test("a schedule costs one call at each due time, and none between them") func calls() async throws {
        let bench = try await ScheduleBench()
        func calls() async throws -> Int {
            let stats = try await bench.f.redis.send(Command("INFO", "commandstats")).infoFields
            let fcall = stats["cmdstat_fcall"] ?? ""
            return Int(fcall.split(whereSeparator: { ",=".contains($0) }).dropFirst().first ?? "0") ?? 0
        }
        try await bench.define("s", #"{"every":10,"job":\#(Self.job)}"#)
        try await bench.tick()
        var before = try await calls()
        try await bench.tick()
        #expect(try await calls() - before == 1)
        try await bench.c.set(10_000)
        before = try await calls()
        try await bench.tick()
        #expect(try await calls() - before == 2)
    }

    @Test("the zone of a schedule is planned by a worker that has it") func zone() async throws {
        let bench = try await ScheduleBench()
        try await bench.define("s", #"{"cron":"0 3 * * *","zone":"Nowhere/Nothing","job":\#(Self.job)}"#)
        let found = try await bench.queue.tick(bench.f.worker, runs: []).schedules
        let troubles = try await bench.queue.push(found, as: bench.f.worker).troubles
        #expect(troubles.count == 1 && troubles[0].contains("Nowhere/Nothing"))
        // Another worker still finds it.
        #expect(try await bench.queue.tick(bench.other, runs: []).schedules.count == 1)
    }

    @Test("the latest due time before a timestamp is found, however long ago the last run was") func latest() throws {
        let utc = TimeZoneRules.utc
        for (cron, now, expected) in [
            ("* * * * *", 1_800_000_030_000, 1_800_000_000_000), ("0 3 1 1 *", 1_800_000_030_000, 1_798_772_400_000),
            ("*/7 * * * *", 1_800_000_030_000, 1_800_000_000_000),
        ] as [(String, Int64, Int64)] {
            let schedule = try Schedule(every: nil, cron: cron, zone: nil, job: JSON(Self.job))
            let first = try #require(schedule.next(after: 1_500_000_000_000, utc))
            #expect(schedule.latest(from: first, until: now, utc) == expected, "\(cron)")
        }
    }
}
