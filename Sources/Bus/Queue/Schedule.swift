package import HaulContract
import HaulRedis

/// A named job that is pushed at certain times: docs/guides/schedules.md.
package struct Schedule: Sendable {
    package enum Timing: Sendable {
        /// At the multiples of so many seconds since 1970.
        case every(Int64)
        case cron(CronExpression)
    }

    /// What becomes of runs that were due while no worker served the queue.
    package enum CatchUp: String, Sendable, CaseIterable {
        case none
        /// The latest of them takes place.
        case one
    }

    /// What becomes of a run that is due while the job of the last run has not ended.
    package enum Overlap: String, Sendable, CaseIterable { case skip, allow }

    package struct Invalid: Error, Sendable, CustomStringConvertible {
        package let description: String

        package init(description: String) { self.description = description }
    }

    /// How many schedules a queue may have.
    package static let maxCount = 1000
    /// The maximum number of bytes of a definition: an element, and the members around it.
    package static let maxBytes = JobField.maxElementBytes + 1024
    /// The longest name. The id of a job may be the name and a time.
    static let maxName = 96
    package static let nameRule = "must be 1 to \(maxName) of the characters A-Z a-z 0-9 . _ : -"
    /// A run that is later than this was missed.
    static let maxLateness: Int64 = 60_000
    private static let years: Int64 = 366 * 86_400

    package var timing: Timing
    /// An IANA name, for a cron expression.
    package var zone: String?
    package var catchUp = CatchUp.one
    package var overlap = Overlap.skip
    package var isPaused = false
    /// Each run is a job of its own. Otherwise all runs are runs of one job, whose id is the schedule's name.
    package var isUnique = false
    /// The job as JSON, without `id` and `at`.
    package var job: JSON

    package static func isName(_ name: String) -> Bool { JobField.isID(name) && name.utf8.count <= maxName }

    /// Checks a schedule.
    ///
    /// - Parameters:
    ///   - every: Seconds; either this or `cron` must be given.
    ///   - job: The text of a JSON object.
    package init(
        every: Int64?, cron: String?, zone: String?, catchUp: CatchUp = .one, overlap: Overlap = .skip,
        isUnique: Bool = false, job: JSON
    ) throws(Invalid) {
        switch (every, cron) {
        case (let seconds?, nil):
            guard 1...Self.years ~= seconds else { throw Invalid(description: Self.everyRule) }
            guard zone == nil else { throw Invalid(description: "zone: is only for cron") }
            timing = .every(seconds)
        case (nil, let text?):
            do { timing = .cron(try CronExpression(text)) } catch { throw Invalid(description: "cron: \(error)") }
            if let zone, !TimeZoneRules.isName(zone) {
                throw Invalid(description: "zone: must be an IANA name like Europe/Berlin, not \"\(zone.prefix(64))\"")
            }
        default: throw Invalid(description: "either every or cron is required, and not both")
        }
        guard overlap == .skip || isUnique else {
            throw Invalid(description: "overlap: allow requires unique, because one job cannot run twice at once")
        }
        (self.zone, self.catchUp, self.overlap, self.isUnique, self.job) = (zone, catchUp, overlap, isUnique, job)
        for name in ["id", "at"] where job[name] != nil {
            throw Invalid(
                description: "job: \(name) is made for each run, so the job of a schedule must not have it")
        }
        do { _ = try element(id: String(repeating: "n", count: 128)) } catch {
            throw Invalid(description: "job: \(error)")
        }
    }

    private static let everyRule = "every: must be a whole number of seconds from 1 to \(years)"

    /// Reads a definition, as the hash `schedules` has it.
    ///
    /// - Parameter pause: The entry in `schedule_paused`, which counts instead of the definition's `paused`.
    package init(_ text: String, pause: String? = nil) throws(Invalid) {
        guard text.utf8.count <= Self.maxBytes else {
            throw Invalid(description: "must have at most \(Self.maxBytes) bytes")
        }
        let json: JSON
        do { json = try JSON(text) } catch { throw Invalid(description: "must be a JSON object: \(error)") }
        guard let members = json.members else { throw Invalid(description: "must be a JSON object") }
        let names = ["every", "cron", "zone", "catch_up", "overlap", "unique", "paused", "job"]
        if let unknown = members.first(where: { !names.contains($0.name) }) {
            throw Invalid(description: "\(unknown.name.truncated(toBytes: 64)): is not a member of a schedule")
        }
        func string(_ name: String) throws(Invalid) -> String? {
            guard let value = json[name] else { return nil }
            guard let text = value.string else { throw Invalid(description: "\(name): must be a string") }
            return text
        }
        func choice<C: RawRepresentable & CaseIterable>(_ name: String, _ usual: C) throws(Invalid) -> C
        where C.RawValue == String {
            guard let text = try string(name) else { return usual }
            guard let choice = C(rawValue: text) else {
                let all = C.allCases.map(\.rawValue).joined(separator: " or ")
                throw Invalid(description: "\(name): must be \(all), not \"\(text.prefix(64))\"")
            }
            return choice
        }
        if let every = json["every"], every.integer == nil { throw Invalid(description: Self.everyRule) }
        for name in ["unique", "paused"] {
            guard let value = json[name], value.bool == nil else { continue }
            throw Invalid(description: "\(name): must be true or false")
        }
        guard let job = json["job"] else { throw Invalid(description: "job: is missing") }
        try self.init(
            every: json["every"]?.integer, cron: try string("cron"), zone: try string("zone"),
            catchUp: try choice("catch_up", .one), overlap: try choice("overlap", .skip),
            isUnique: json["unique"]?.bool ?? false, job: job)
        isPaused = Self.isPaused(pause) ?? json["paused"]?.bool ?? false
    }

    /// What an entry in `schedule_paused` says; nil for nothing.
    private static func isPaused(_ pause: String?) -> Bool? {
        switch pause {
        case "1": true
        case "0": false
        default: nil
        }
    }

    /// The definition.
    package var text: String {
        var object = JSONObject()
        describe(in: &object)
        object.set("job", json: job.text)
        return object.text
    }

    /// Sets the members of the definition, without the job, which may hold secrets.
    package func describe(in object: inout JSONObject) {
        switch timing {
        case .every(let seconds): object.set("every", seconds)
        case .cron(let expression): object.set("cron", expression.text)
        }
        object.set("zone", zone)
        object.set("catch_up", catchUp.rawValue)
        object.set("overlap", overlap.rawValue)
        if isUnique { object.set("unique", true) }
        if isPaused { object.set("paused", true) }
    }

    /// The id of the job of a run. time: when it is due, unix ms.
    package func id(ofRun time: Int64, of name: String) -> String {
        isUnique ? "\(name):\(CivilDate.text(ofMilliseconds: time))" : name
    }

    /// The element of one run.
    func element(id: String) throws(Job.Invalid) -> Element {
        guard let members = job.members else { throw Job.Invalid(field: nil, reason: "must be a JSON object") }
        var object = JSONObject()
        object.set("id", id)
        for member in members { object.set(member.name, json: member.raw) }
        // The members were read from JSON, and none of them is `id`.
        return try Element((try? JSON(object.text)) ?? .null)
    }

    /// A field of the job that no version of Haul knows; nil if there is none.
    package var unknownField: String? {
        guard let text = try? element(id: "n").text, let json = try? JSON(text) else { return nil }
        return try? Job(json: json).unknownFields.first
    }

    /// The score in `schedule_due` of a schedule that was changed at a time and is to be planned: between 0 and 1.
    static func score(changedAt time: Int64) -> Double { Double(time) / scale }

    /// Ms, until the year 2286.
    static let scale = 1e13

    // MARK: Due times

    /// The first due time that is later than `time`; both unix ms. nil if the schedule is paused.
    package func next(after time: Int64) throws(UnknownZone) -> Int64? {
        let rules = try rules()
        return isPaused ? nil : next(after: time, rules)
    }

    /// The rules of the zone. Throws if this machine does not have them.
    package func rules() throws(UnknownZone) -> TimeZoneRules {
        guard let zone else { return .utc }
        guard let rules = TimeZoneRules.named(zone) else { throw UnknownZone(name: zone) }
        return rules
    }

    /// The machine has no rules of this zone.
    package struct UnknownZone: Error, CustomStringConvertible {
        let name: String

        package var description: String {
            "zone: \(name) is not in \(TimeZoneRules.directory) of this machine; check its spelling, or install tzdata"
        }
    }

    /// The first due time that is later than `time`; both unix ms. nil if there is none.
    func next(after time: Int64, _ rules: TimeZoneRules) -> Int64? {
        switch timing {
        case .every(let seconds): (time / (seconds * 1000) + 1) * seconds * 1000
        case .cron(let expression):
            expression.next(after: Int64(Int(time).floored(by: 1000)), in: rules).map { $0 * 1000 }
        }
    }

    /// The latest due time that is not later than `now`. `due` is a due time; all are unix ms.
    func latest(from due: Int64, until now: Int64, _ rules: TimeZoneRules) -> Int64 {
        if case .every(let seconds) = timing { return max(due, now / (seconds * 1000) * seconds * 1000) }
        var latest = due
        // The shortest span before now that has a due time. So at most a day's minutes are counted.
        for hours: Int64 in [1, 24, 31 * 24, 366 * 24] {
            let begin = max(due, now - hours * 3_600_000)
            if begin == due { break }
            if let found = next(after: begin, rules), found <= now {
                latest = found
                break
            }
        }
        while let found = next(after: latest, rules), found <= now { latest = found }
        return latest
    }
}

// MARK: - Plans

/// A schedule that a call has found due, as it was then.
package struct DueSchedule: Sendable {
    let name: String
    /// The score in `schedule_due`: when it is due; negative for a run that an operator wants now; from 0 to 1 if it is to
    /// be planned (`Schedule.score(changedAt:)`).
    let due: String
    let definition: String
    /// What `schedule_paused` says: "1", "0", or "" for nothing.
    let pause: String
    /// The fields of `schedule:<name>`.
    let state: [String: String]
    /// Redis' clock, unix ms.
    let now: Int64
}

/// What a worker does for a schedule that is due. `init` computes it, and the function `schedule` carries it out
/// unless the schedule has changed meanwhile.
struct SchedulePlan: Equatable {
    /// When a run that is to be pushed was due, unix ms.
    var run: Int64?
    /// When the schedule is due next; nil for never.
    var next: Int64?
    /// Whether due times were missed, and are dropped.
    var hasMissed = false
    /// Why the schedule cannot be used.
    var error: String?

    /// Any client may write a score. That of a call is not later than now.
    private static let latest = 0x1p53

    init() {}

    /// Throws if this machine does not have the schedule's time zone. Then another worker has to do it.
    init(_ due: DueSchedule) throws(Schedule.UnknownZone) {
        let schedule: Schedule
        do throws(Schedule.Invalid) {
            guard Schedule.isName(due.name) else { throw Schedule.Invalid(description: "name: \(Schedule.nameRule)") }
            schedule = try Schedule(due.definition, pause: due.pause)
        } catch {
            self.error = error.description
            return
        }
        let rules = try schedule.rules()
        let score = Double(due.due).flatMap { $0.isFinite ? max($0, -Self.latest) : nil } ?? 0
        // What was planned for the present definition. A schedule that is written again as it was goes on with it.
        let planned =
            due.state["definition"] == SHA1.hex(due.definition) ? due.state["next"].flatMap { Int64($0) } : nil
        if score < 0 {
            let requested = Int64(-score)
            run = requested
            // The run of an operator does not replace one that was due.
            if !schedule.isPaused { next = planned ?? schedule.next(after: min(requested, due.now), rules) }
            return
        }
        guard !schedule.isPaused else { return }
        var time = planned
        if score > 1 {
            time = Int64(score)
        } else if planned == nil {
            // A run that has become due since the change takes place.
            let changed = score > 0 ? Int64((score * Schedule.scale).rounded()) : due.now
            time = schedule.next(after: min(changed, due.now), rules)
        }
        guard let time else { return }
        if time > due.now {
            next = time
        } else if due.now - time <= Schedule.maxLateness {
            run = time
            next = schedule.next(after: time, rules)
        } else {
            // The runs after the latest one that was missed are on time, and come one after the other.
            let latest = schedule.latest(from: time, until: due.now - Schedule.maxLateness - 1, rules)
            run = schedule.catchUp == .one ? latest : nil
            hasMissed = run == nil || latest > time
            next = schedule.next(after: latest, rules)
        }
    }
}
