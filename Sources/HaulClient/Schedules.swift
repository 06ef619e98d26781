import HaulBus
import HaulContract
import HaulRedis

/// When the runs of a schedule are due.
public enum ScheduleTiming: Sendable, Equatable {
    /// At the multiples of so many whole seconds since 1970 in UTC.
    case every(Duration)
    /// A cron expression of five fields, in an IANA time zone.
    case cron(String, zone: String = "UTC")
}

/// What becomes of a run that is due while the last one has not ended.
public enum ScheduleOverlap: String, Sendable {
    /// The run is skipped.
    case skip
    /// The run is pushed all the same. Each run has to be a job of its own.
    case allow
}

/// A named job that workers push at certain times: docs/guides/schedules.md.
public struct ScheduleHandle: Sendable, Identifiable {
    /// The schedule's name.
    public let id: String
    let queue: HaulQueue

    /// Adds the schedule, or replaces the one of this name. A worker plans it within a second. If that one is paused, this
    /// one is as well.
    ///
    /// - Parameters:
    ///   - timing: When the runs are due.
    ///   - job: A job without an id and without a time. All runs are runs of one job, whose id is the schedule's name.
    ///   - catchesUp: Whether one of the runs takes place that were due while no worker served the queue.
    ///   - overlap: What becomes of a run that is due while the last one has not ended.
    ///   - isUnique: Makes each run a job of its own, with the id `NAME:TIME`.
    /// - Throws: ``HaulError/Code-swift.struct/invalidJob`` before anything is written, if the schedule is not valid.
    public func add(
        _ timing: ScheduleTiming, _ job: Job, catchesUp: Bool = true, overlap: ScheduleOverlap = .skip,
        isUnique: Bool = false
    ) async throws(HaulError) {
        let schedule: Schedule
        do {
            guard Schedule.isName(id) else { throw Schedule.Invalid(description: "name: \(Schedule.nameRule)") }
            var (every, cron, zone): (Int64?, String?, String?)
            switch timing {
            case .every(let time): every = time.components.attoseconds == 0 ? time.components.seconds : 0
            case .cron(let text, let name): (cron, zone) = (text, name == "UTC" ? nil : name)
            }
            schedule = try Schedule(
                every: every, cron: cron, zone: zone, catchUp: catchesUp ? .one : .none,
                overlap: Schedule.Overlap(rawValue: overlap.rawValue) ?? .skip, isUnique: isUnique,
                job: JSON(job.element))
        } catch {
            throw HaulError(.invalidJob, "the schedule \(id): \(error)")
        }
        if let fault = queue.queue.fault(of: schedule, as: id) {
            throw HaulError(.invalidJob, "the schedule \(id): \(fault)")
        }
        _ = try await mappingErrors { () throws(RedisError) in try await queue.queue.add(schedule, as: id) }
    }

    /// Pushes nothing until ``resume()``. A job that runs goes on.
    public func pause() async throws(HaulError) { try await set(isPaused: true) }
    /// Pushes again from the next due time on.
    public func resume() async throws(HaulError) { try await set(isPaused: false) }

    /// Requests a run now, besides those that are due. A worker pushes the job within a second, unless the last run has
    /// not ended.
    public func run() async throws(HaulError) -> JobHandle {
        let schedule = try await known()
        let time = try await mappingErrors { () throws(RedisError) in try await queue.queue.runSchedule(id) }
        return queue.job(schedule.id(ofRun: time, of: id), pushedAt: time)
    }

    /// Deletes the schedule. Its jobs stay.
    public func remove() async throws(HaulError) {
        _ = try await mappingErrors { () throws(RedisError) in try await queue.queue.removeSchedule(id) }
    }

    private func definition() async throws(HaulError) -> String {
        let text = try await mappingErrors { () throws(RedisError) in try await queue.queue.scheduleDefinition(id) }
        guard let text else { throw HaulError(.invalidJob, "the queue has no schedule \(id)") }
        return text
    }

    private func known() async throws(HaulError) -> Schedule {
        let text = try await definition()
        do { return try Schedule(text) } catch { throw HaulError(.invalidJob, "the schedule \(id): \(error)") }
    }

    private func set(isPaused: Bool) async throws(HaulError) {
        _ = try await definition()
        try await mappingErrors { () throws(RedisError) in
            try await queue.queue.setPaused(isPaused, schedule: id)
        }
    }
}

/// A schedule, and what has become of it.
public struct ScheduleStatus: Sendable, Equatable, Identifiable {
    /// The schedule's name.
    public let id: String
    /// When it is due; nil if the definition is not valid.
    public let timing: ScheduleTiming?
    /// Whether it is paused.
    public let isPaused: Bool
    /// When it is due next, in unix milliseconds by Redis' clock; nil if it is paused or not planned yet.
    public let next: Int64?
    /// The id of the last run's job.
    public let lastID: String?
    /// When the last run was due and when it was pushed, in unix milliseconds.
    public let lastDue, lastPushed: Int64?
    /// The state of the last run's job; nil if it is not kept any more.
    public let lastState: JobState?
    /// How many runs were pushed and skipped, and how often runs were missed.
    public let pushed, skipped, missed: Int
    /// Why the definition is not valid.
    public let error: String?

    init(_ record: ScheduleRecord) {
        id = record.name
        switch record.schedule?.timing {
        case .every(let seconds): timing = .every(.seconds(seconds))
        case .cron(let expression): timing = .cron(expression.text, zone: record.schedule?.zone ?? "UTC")
        case nil: timing = nil
        }
        isPaused = record.schedule?.isPaused ?? false
        (next, lastID, lastState, error) = (record.next, record.fields["last_id"], record.lastState, record.error)
        lastDue = record.fields["last_due"].flatMap { Int64($0) }
        lastPushed = record.fields["last_at"].flatMap { Int64($0) }
        (pushed, skipped, missed) = (record.count("pushed"), record.count("skipped"), record.count("missed"))
    }
}

extension HaulQueue {
    /// A handle of the schedule with this name. Sends nothing to Redis.
    public func schedule(_ name: String) -> ScheduleHandle { ScheduleHandle(id: name, queue: self) }

    /// All schedules of the queue, by their names.
    public func schedules() async throws(HaulError) -> [ScheduleStatus] {
        try await mappingErrors { () throws(RedisError) in try await queue.schedules() }.map(ScheduleStatus.init)
    }
}
