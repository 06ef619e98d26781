import HaulContract
import HaulRedis
import HaulTestSupport

@testable import HaulBus

// Schedules: jobs that workers push when they are due.

/// What is known of a schedule.
struct ExpectedSchedule {
    /// Seconds.
    var every: Int64 = 1
    var definition = ""
    var isPaused = false
    /// The due times whose runs were pushed. A run that an operator requested is due at the time of the request.
    var runs: Set<Int64> = []
    var requested: Set<Int64> = []
    /// The last counts of pushed, skipped and missed runs.
    var counts = [0, 0, 0]
    /// When it is due, as was seen last; nil after a change that lets it be planned anew.
    var due: Int64?
}

extension Simulation {
    /// By name: how often it is due, in seconds, and whether each run is a job of its own.
    private static let schedules: [String: (periods: [Int64], isUnique: Bool)] = [
        "daily": ([3, 7], true), "hourly": ([5, 11], false),
    ]

    /// Adds, replaces, pauses, resumes, runs or removes a schedule.
    mutating func changeSchedule() async throws {
        let name = Self.schedules.keys.sorted().randomElement(using: &random)!
        try await advance(1)
        guard ledger.schedules[name] != nil, random.chance(65) else { return try await addSchedule(name) }
        ledger.schedules[name]!.due = nil
        switch Int.random(in: 0..<4, using: &random) {
        case 0:
            _ = try await queue.removeSchedule(name)
            ledger.schedules[name] = nil
        case 1: try await requestRun(of: name)
        case 2:
            try await queue.setPaused(true, schedule: name, at: ledger.now)
            ledger.schedules[name]!.isPaused = true
        default:
            try await queue.setPaused(false, schedule: name, at: ledger.now)
            ledger.schedules[name]!.isPaused = false
        }
        record("schedules changed")
    }

    private mutating func addSchedule(_ name: String) async throws {
        let (periods, isUnique) = Self.schedules[name]!
        let every = periods.randomElement(using: &random)!
        let schedule = try Schedule(
            every: every, cron: nil, zone: nil, catchUp: random.chance(50) ? .one : .none,
            overlap: isUnique && random.chance(50) ? .allow : .skip, isUnique: isUnique,
            job: try JSON(#"{"url":"http://h0/\#(name)"}"#))
        let current = try await queue.add(schedule, as: name, at: ledger.now)
        // Until a tick has forgotten a removed schedule, its times and counts are those of the new one.
        var expected = ledger.schedules[name] ?? ExpectedSchedule()
        expected.counts = counts(in: try await fields(of: name))
        (expected.every, expected.isPaused) = (every, current.isPaused)
        // One that is written again as it was goes on with what was planned.
        if expected.definition != schedule.text { expected.due = nil }
        expected.definition = schedule.text
        ledger.schedules[name] = expected
        record("schedules added")
    }

    private mutating func requestRun(of name: String) async throws {
        let (due, requested) = (queue.keys.scheduleDue, ledger.now)
        // Another request may wait, whose run is the same.
        if let score = try await score(of: name), score >= 0 {
            try await redis.send(Command("ZADD", due, "XX", -Int(requested), name))
            ledger.schedules[name]!.requested.insert(requested)
        }
    }

    /// Lets a worker push what a tick has found due. The worker may die before it does, or be late, and other clients may
    /// have changed the schedules by then.
    mutating func push(_ found: [DueSchedule], by index: Int) async throws {
        guard !found.isEmpty else { return }
        let worker = workers[index].identity
        if random.chance(5) { return }
        if random.chance(10) { return workers[index].lateSchedules = found }
        let isChanged = random.chance(10)
        if isChanged { try await changeSchedule() }
        _ = try await queue.push(found, as: worker)
        try await observe(.schedule)
        if random.chance(10) {
            // The call is sent again, or another worker has found the same.
            _ = try await queue.push(found, as: worker)
            try await observe(.schedule)
        }
        guard !isChanged else { return }
        for schedule in found where ledger.schedules[schedule.name] != nil {
            if try await score(of: schedule.name) == Double(schedule.due) {
                ledger.recordViolation("the schedule \(schedule.name) was due, and has not been planned")
            }
        }
    }

    /// Pushes what a worker has found long ago.
    mutating func pushLate(by index: Int) async throws {
        let found = workers[index].lateSchedules
        guard !found.isEmpty else { return }
        workers[index].lateSchedules = []
        _ = try await queue.push(found, as: workers[index].identity)
        try await observe(.schedule)
        record("late schedules")
    }

    /// Checks that a tick has handed out everything that was due before it.
    mutating func expect(_ overdue: [String], among found: [DueSchedule]) {
        for name in overdue where !found.contains(where: { $0.name == name }) {
            ledger.recordViolation("the schedule \(name) is due, and the tick did not find it")
        }
    }

    /// The schedules that are due now.
    func overdueSchedules() async throws -> [String] {
        let names = try await redis.send(
            Command("ZRANGEBYSCORE", queue.keys.scheduleDue, "-inf", Int(ledger.now))
        ).array
        return (names ?? []).compactMap(\.string).filter { ledger.schedules[$0] != nil }
    }

    /// nil for a schedule that is never due.
    private func score(of name: String) async throws -> Double? {
        let score = try await redis.send(Command("ZSCORE", queue.keys.scheduleDue, name)).string
        return score.flatMap { Double($0) }.flatMap { $0.isFinite ? $0 : nil }
    }

    private func fields(of name: String) async throws -> [String: String] {
        try await redis.send(Command("HGETALL", queue.keys.schedule(name))).dictionary
    }

    private func counts(in fields: [String: String]) -> [Int] {
        ["pushed", "skipped", "missed"].map { fields[$0].flatMap { Int($0) } ?? 0 }
    }

    /// Records the runs that were pushed since the last call. Each due time has to be pushed once, skipped or missed, and
    /// a run has to be done as if a producer had pushed it.
    mutating func recordRuns() async throws {
        for (name, before) in ledger.schedules.sorted(by: { $0.key < $1.key }) {
            var schedule = before
            let fields = try await fields(of: name)
            let counts = counts(in: fields)
            // Until it is planned, what was planned before counts.
            let score = try await score(of: name)
            schedule.due = score.map { 0..<1 ~= $0 } == true ? before.due : score.flatMap { $0 > 0 ? Int64($0) : nil }
            schedule.counts = counts
            // A tick has forgotten what was removed before a schedule of this name was added again.
            let isNew = zip(counts, before.counts).contains { $0 < $1 }
            let more = zip(counts, isNew ? [0, 0, 0] : before.counts).map { $0 - $1 }
            if more[0] > 1 { ledger.recordViolation("the schedule \(name) has pushed \(more[0]) runs at once") }
            if more[0] == 1, let due = fields["last_due"].flatMap({ Int64($0) }), let id = fields["last_id"] {
                check(name, &schedule, before, due, hasMissed: more[2] > 0)
                ledger.recordRun(id)
                record(more[2] > 0 ? "caught up" : "runs")
            }
            // What is counted moves the due time on, and nothing else does.
            if let planned = before.due, (planned != schedule.due) != more.contains(where: { $0 > 0 }) {
                ledger.recordViolation("the schedule \(name) has dropped its run at \(planned), or counted it twice")
            }
            if more[1] > 0 { record("skipped runs") }
            if more[2] > 0 { record("missed runs") }
            ledger.schedules[name] = schedule
        }
    }

    private mutating func check(
        _ name: String, _ schedule: inout ExpectedSchedule, _ before: ExpectedSchedule, _ due: Int64, hasMissed: Bool
    ) {
        let isRequested = schedule.requested.remove(due) != nil
        if !schedule.runs.insert(due).inserted {
            ledger.recordViolation("the run of \(name) at \(due) was pushed twice")
        }
        guard !isRequested else { return record("requested runs") }
        if !due.isMultiple(of: schedule.every * 1000) {
            ledger.recordViolation("the schedule \(name) was never due at \(due)")
        }
        if schedule.isPaused { ledger.recordViolation("the schedule \(name) is paused, and has pushed a run") }
        if let planned = before.due, planned != due, !hasMissed {
            ledger.recordViolation("the schedule \(name) was due at \(planned), and not at \(due)")
        }
    }

    /// Removes all schedules, so that the queue can become empty.
    mutating func removeSchedules() async throws {
        for name in ledger.schedules.keys.sorted() { _ = try await queue.removeSchedule(name) }
        ledger.schedules = [:]
        for index in workers.indices { workers[index].lateSchedules = [] }
    }
}
