package import HaulContract
package import HaulRedis

/// A schedule, and what has become of it.
package struct ScheduleRecord: Sendable {
    package let name: String
    /// nil if the definition is not valid; then `error` says why.
    package let schedule: Schedule?
    /// When it is due next, unix ms; nil if it is paused or not valid, or if no worker has planned it yet.
    package let next: Int64?
    /// The fields of `schedule:<name>`: Lua/tick/schedules.lua.
    package let fields: [String: String]
    package let error: String?
    /// The state of the last run's job; nil if there was no run, or if the job was forgotten.
    package let lastState: JobState?

    package func count(_ field: String) -> Int { fields[field].flatMap { Int($0) } ?? 0 }

    /// As the command and the API show it. The job's URL is masked, and its other fields are left out, because they may
    /// hold secrets.
    package var json: String {
        var object = JSONObject()
        object.set("schedule", name)
        schedule?.describe(in: &object)
        object.set("url", maskedURL)
        object.set("next", next)
        object.set("last_id", fields["last_id"])
        for name in ["last_due", "last_at"] { object.set(name, fields[name].flatMap { Int64($0) }) }
        object.set("last_state", lastState?.rawValue)
        for name in ["pushed", "skipped", "missed"] { object.set(name, count(name)) }
        object.set("error", error)
        return object.text
    }

    package var maskedURL: String? {
        guard let job = schedule?.job else { return nil }
        return (job["url"]?.string ?? job["urls"]?.array?.first?.string).map(MaskedURL.text)
    }
}

extension Queue {
    // MARK: For operators

    /// Adds a schedule, or replaces the one of this name. A worker plans it within a second, and its runs count from now
    /// on. A run that was requested and has not been pushed yet stays requested.
    ///
    /// - Parameter time: When it was changed, unix ms; now by default.
    /// - Returns: The schedule as it counts now: if the one of this name was paused, it is paused as well.
    @discardableResult package func add(
        _ schedule: Schedule, as name: String, at time: Int64? = nil
    ) async throws(RedisError) -> Schedule {
        guard partitions.isEmpty else { return try await partition(of: name).add(schedule, as: name, at: time) }
        let changed: Int64 = if let time { time } else { try await self.time() }
        // A schedule that is added again as it was may have been resumed meanwhile.
        let isNew = try await redis.send(Command("HGET", keys.schedules, name)).string != schedule.text
        // Before the definition, so that no run of it is due in between.
        if schedule.isPaused, isNew { try await redis.send(Command("HSET", keys.schedulePaused, name, 1)) }
        try await redis.send(Command("HSET", keys.schedules, name, schedule.text))
        try await plan(name, since: changed)
        let pause = try await pauses(of: [name])[name]
        var current = schedule
        current.isPaused = pause.map { $0 == "1" } ?? schedule.isPaused
        return current
    }

    /// Why a queue of partitions cannot have the schedule; nil if it can. Its runs are pushed in the partition of its name,
    /// and a batch is counted in the partition of its own.
    package func fault(of schedule: Schedule, as name: String) -> String? {
        guard !partitions.isEmpty, let batch = (try? schedule.element(id: "n"))?.batch,
            partition(of: batch).name != partition(of: name).name
        else { return nil }
        return "job: batch: \(batch) is counted in \(partition(of: batch).name), and the runs of \(name) are jobs of "
            + "\(partition(of: name).name): name the schedule \(batch), or leave the batch out"
    }

    /// Pauses a schedule, or resumes it. The definition is not written, because others may change it at the same time.
    ///
    /// - Parameter time: When it was changed, unix ms; now by default.
    package func setPaused(_ isPaused: Bool, schedule name: String, at time: Int64? = nil) async throws(RedisError) {
        guard partitions.isEmpty else {
            return try await partition(of: name).setPaused(isPaused, schedule: name, at: time)
        }
        let changed: Int64 = if let time { time } else { try await self.time() }
        try await redis.send(Command("HSET", keys.schedulePaused, name, isPaused ? 1 : 0))
        // If the schedule was removed meanwhile, this lets a tick forget the entry.
        try await plan(name, since: changed)
    }

    /// Lets a worker plan a schedule that was changed.
    private func plan(_ name: String, since time: Int64) async throws(RedisError) {
        // Not instead of a score below 0, which is a requested run. It plans the schedule as well.
        let score = "\(Schedule.score(changedAt: time))"
        try await redis.send(Command("ZADD", keys.scheduleDue, "LT", score, name))
    }

    /// False if there was no such schedule. Jobs that it has pushed stay.
    package func removeSchedule(_ name: String) async throws(RedisError) -> Bool {
        guard partitions.isEmpty else { return try await partition(of: name).removeSchedule(name) }
        let count = try await redis.send(Command("HDEL", keys.schedules, name)).int ?? 0
        // A tick that finds it due without a definition forgets the rest. The pause must not wait for that, because a
        // schedule of this name may be added before.
        if count > 0 {
            try await redis.send(Command("HDEL", keys.schedulePaused, name))
            try await redis.send(Command("ZADD", keys.scheduleDue, 0, name))
        }
        return count > 0
    }

    /// Requests a run now, besides those that are due. Returns the time that counts as its due time, unix ms: that of an
    /// earlier request if its run has not been pushed yet.
    package func runSchedule(_ name: String) async throws(RedisError) -> Int64 {
        guard partitions.isEmpty else { return try await partition(of: name).runSchedule(name) }
        // The score plus 0 is the score. The roles may write this key, and not read it.
        let due = try await redis.send(Command("ZADD", keys.scheduleDue, "XX", "INCR", 0, name)).string
        if let due = Int64(score: due), due < 0 { return -due }
        let now = try await timestamp(of: .push([name]))
        try await redis.send(Command("ZADD", keys.scheduleDue, -now, name))
        return now
    }

    /// How many schedules the queue has.
    package func scheduleCount() async throws(RedisError) -> Int {
        guard partitions.isEmpty else {
            return try await each { queue throws(RedisError) in try await queue.scheduleCount() }.reduce(0, +)
        }
        return try await redis.send(Command("HLEN", keys.schedules)).int ?? 0
    }

    /// The definition of a schedule as it was written; nil if there is none.
    package func scheduleDefinition(_ name: String) async throws(RedisError) -> String? {
        guard partitions.isEmpty else { return try await partition(of: name).scheduleDefinition(name) }
        return try await redis.send(Command("HGET", keys.schedules, name)).string
    }

    /// The entries of `names` in `schedule_paused`: 1 for a schedule that operators have paused, 0 for one that they have
    /// resumed. A key of another type has none.
    private func pauses(of names: [String]) async throws(RedisError) -> [String: String] {
        let command = Command(arguments: ["HMGET", keys.schedulePaused] + names)
        let values = try await redis.pipeline([.command(command)])[0].array ?? []
        return Dictionary(zip(names, values.map(\.string))) { $1 }.compactMapValues(\.self)
    }

    /// All schedules, by their names.
    package func schedules() async throws(RedisError) -> [ScheduleRecord] {
        guard partitions.isEmpty else {
            return try await each { queue throws(RedisError) in try await queue.schedules() }.joined()
                .sorted { $0.name < $1.name }
        }
        var definitions: [String: [UInt8]] = [:]
        var cursor = "0"
        repeat {
            let reply = try await redis.send(Command("HSCAN", keys.schedules, cursor, "COUNT", 200)).array ?? []
            definitions.merge(reply.last?.members.compactMapValues(\.bytes) ?? [:]) { $1 }
            cursor = reply.first?.string ?? "0"
        } while cursor != "0" && definitions.count <= Schedule.maxCount
        let names = definitions.keys.sorted()
        var records: [ScheduleRecord] = []
        for page in names.chunks(ofCount: 200) {
            let states = try await redis.pipeline(page.map { .command(Command("HGETALL", keys.schedule($0))) })
            let fields = states.map(\.dictionary)
            let ids = fields.compactMap { $0["last_id"] }
            let found = try await redis.pipeline(ids.map { .command(Command("HGET", keys.job($0), "state")) })
            let jobs = Dictionary(zip(ids, found.map { $0.string.flatMap(JobState.init) })) { $1 }
            let pauses = try await pauses(of: Array(page))
            for (name, fields) in zip(page, fields) {
                let (schedule, fault) = Self.schedule(name, definitions[name]!, pauses[name])
                // Until a tick has planned a new definition, the fields are about the one before.
                let isCurrent = fields["definition"] == SHA1.hex(definitions[name]!)
                let isDue = isCurrent && schedule?.isPaused == false
                records.append(
                    ScheduleRecord(
                        name: name, schedule: schedule, next: isDue ? fields["next"].flatMap { Int64($0) } : nil,
                        fields: fields, error: fault ?? (isCurrent ? fields["error"] : nil),
                        lastState: fields["last_id"].flatMap { jobs[$0] ?? nil }))
            }
        }
        return records
    }

    private static func schedule(
        _ name: String, _ definition: [UInt8], _ pause: String?
    ) -> (Schedule?, fault: String?) {
        guard Schedule.isName(name) else { return (nil, "name: \(Schedule.nameRule)") }
        guard let definition = String(validating: definition, as: UTF8.self) else { return (nil, "must be UTF-8 text") }
        do throws(Schedule.Invalid) { return (try Schedule(definition, pause: pause), nil) } catch {
            return (nil, error.description)
        }
    }

    // MARK: For workers

    /// Pushes the jobs of schedules that are due, and plans when these are due next. Each schedule is one call.
    ///
    /// - Returns: After which time to call `pace`, if that is within a second; and why schedules could not be planned on
    ///   this machine.
    package func push(
        _ due: [DueSchedule], as worker: WorkerIdentity
    ) async throws(RedisError) -> (wait: Duration?, troubles: [String]) {
        var (wait, troubles): (Duration?, [String]) = (nil, [])
        for schedule in due {
            var plan = SchedulePlan()
            // Without a next time the call leaves the schedule to workers that know its zone.
            var next = ""
            do throws(Schedule.UnknownZone) {
                plan = try SchedulePlan(schedule)
                next = plan.next.map { "\($0)" } ?? "inf"
            } catch {
                troubles.append("\(schedule.name): \(error)")
            }
            var (id, element, overlap) = ("", "", "")
            if let time = plan.run, let known = try? Schedule(schedule.definition) {
                id = known.id(ofRun: time, of: schedule.name)
                element = (try? known.element(id: id).text) ?? ""
                overlap = known.overlap.rawValue
            }
            let reply = try await redis.run(
                functions.schedule, keys: keys.functionKeys(for: worker.name),
                arguments: [Token.make(), worker.name] + policy.retention
                    + [
                        schedule.name, schedule.due, schedule.definition, next, id, element,
                        "\(plan.run ?? 0)", overlap, plan.hasMissed ? "1" : "", plan.error ?? "",
                        schedule.pause,
                    ])
            if let milliseconds = reply.string.flatMap({ Int64($0) }) {
                wait = min(wait ?? .seconds(1), .milliseconds(milliseconds))
            }
        }
        return (wait, troubles)
    }
}

extension DueSchedule {
    /// The list that Schedules.find() of Lua/tick/schedules.lua returns.
    static func list(_ reply: RedisValue) -> [DueSchedule] {
        guard let values = reply.array, let now = values.first?.string.flatMap({ Int64($0) }) else { return [] }
        return stride(from: 1, to: values.count - 4, by: 5).compactMap { index in
            guard let name = values[index].string, let due = values[index + 1].string,
                let definition = values[index + 2].string, let pause = values[index + 3].string
            else { return nil }
            return DueSchedule(
                name: name, due: due, definition: definition, pause: pause, state: values[index + 4].dictionary,
                now: now)
        }
    }
}
