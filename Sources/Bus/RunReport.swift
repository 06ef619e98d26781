package import HaulContract
import HaulRedis

/// An event that a worker publishes through a function of Redis, which adds the sequence number, the time and the job's meta.
package struct Announcement: Sendable {
    package let name: String
    private let object: JSONObject

    /// `write` sets what the event tells besides.
    package init(_ name: String, _ write: (inout JSONObject) -> Void = { _ in }) {
        self.name = name
        var object = JSONObject()
        write(&object)
        self.object = object
    }

    /// As the functions of Redis take them: they put their own members before these.
    var members: String { object.members.isEmpty ? "" : "," + object.members }
}

/// What a run tells Redis with a tick or at its end: fields of the hash, durable offsets, events.
package struct RunReport: Sendable {
    package var fields: [(String, String)] = []
    /// nil: unchanged.
    package var offsets: ByteIntervals?
    package var events: [Announcement] = []

    package init() {}

    package var tellsOfWait: Bool { fields.contains { $0.0 == "waiting" } }

    package var tellsOfWork: Bool { fields.contains { $0.0 == "begun" } }

    /// Whether the run is at work, or only waits. If its worker is lost, one that was at work may be the cause.
    package mutating func set(isAtWork: Bool, of run: Run) {
        fields.append(("begun", isAtWork ? run.token : ""))
        // A job that ends loses both fields, which is looked for where there is a speed.
        if !fields.contains(where: { $0.0 == "speed" }) { fields.append(("speed", "0")) }
    }

    package mutating func set(_ resume: ResumePoint) {
        fields += resume.fields
        offsets = resume.offsets
    }

    /// How many arguments there are, but for a few.
    var size: Int { 2 * (fields.count + (offsets?.intervals.count ?? 0) + events.count) }

    /// As Lua/report.lua reads it.
    var arguments: [any RedisArgument] {
        var result: [any RedisArgument] = [fields.count]
        for (name, value) in fields {
            result.append(name)
            result.append(value)
        }
        result.append(offsets.map { $0.intervals.count } ?? -1)
        for interval in offsets?.intervals ?? [] {
            result.append(interval.lowerBound)
            result.append(interval.upperBound)
        }
        result.append(events.count)
        for event in events {
            result.append(event.name)
            result.append(event.members)
        }
        return result
    }
}
