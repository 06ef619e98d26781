package import HaulContract
import HaulRedis

/// An event of a worker. A function of Redis adds its number, the time and the job's `meta`, and publishes it.
package struct Announcement: Sendable {
    package let name: String
    private let object: JSONObject

    /// `write` adds the event's own members.
    package init(_ name: String, _ write: (inout JSONObject) -> Void = { _ in }) {
        self.name = name
        var object = JSONObject()
        write(&object)
        self.object = object
    }

    /// JSON members with a leading comma, which the functions put behind their own members.
    var members: String { object.members.isEmpty ? "" : "," + object.members }
}

/// What a run reports with a tick or at its end: fields of the job's hash, durable offsets, events.
package struct RunReport: Sendable {
    package var fields: [(String, String)] = []
    /// nil if the offsets are unchanged.
    package var offsets: ByteIntervals?
    package var events: [Announcement] = []

    package init() {}

    package var reportsWaiting: Bool { fields.contains { $0.0 == "waiting" } }

    package var reportsActivity: Bool { fields.contains { $0.0 == "active_token" } }

    /// Reports whether the run is at work or only waits. If its worker is lost, only a run that was at work counts as a
    /// crash.
    package mutating func set(isActive: Bool, of run: Run) {
        fields.append(("active_token", isActive ? run.token : ""))
    }

    package mutating func set(_ resume: ResumePoint) {
        fields += resume.fields
        offsets = resume.offsets
    }

    /// About how many arguments the report has.
    var size: Int { 2 * (fields.count + (offsets?.intervals.count ?? 0) + events.count) }

    /// The arguments that Lua/settle/reports.lua reads.
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
