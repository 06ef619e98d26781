package import HaulContract

/// Every key and channel of a queue is made here. The queue's name is the hash tag: one queue, one slot.
package struct Keys: Sendable {
    package let prefix: String

    package init(_ queue: QueueName) { prefix = "haul:{\(queue)}:" }

    package var jobs: String { prefix + "jobs" }
    package func held(_ worker: String) -> String { prefix + "held:" + worker }
    package var want: String { prefix + "want" }
    package var tick: String { prefix + "tick" }
    package func job(_ id: String) -> String { prefix + "job:" + id }
    package func spec(_ id: String) -> String { prefix + "spec:" + id }
    package func offsets(_ id: String) -> String { prefix + "offsets:" + id }
    package var leases: String { prefix + "leases" }
    package var scheduled: String { prefix + "scheduled" }
    package var rejected: String { prefix + "rejected" }
    package var workers: String { prefix + "workers" }
    package func worker(_ name: String) -> String { prefix + "worker:" + name }
    package func host(_ place: String) -> String { prefix + "host:" + place }
    package var settings: String { prefix + "settings" }
    package var places: String { prefix + "places" }
    package var untold: String { prefix + "untold" }
    package var epoch: String { prefix + "epoch" }
    package var deadlines: String { prefix + "deadlines" }
    package func reply(_ name: String) -> String { prefix + "reply:" + name }
    package var control: String { prefix + "control" }
    package func events(_ id: String) -> String { prefix + "events:" + id }

    /// The index of jobs in `state`: a sorted set, but for the queued ones, who are in line.
    package func index(_ state: JobState) -> String {
        switch state {
        case .queued: jobs
        case .running: leases
        default: prefix + state.rawValue
        }
    }

    /// Every sorted set that names jobs.
    var indexes: [String] {
        [leases, scheduled, index(.paused), index(.completed), index(.failed), index(.cancelled), deadlines]
    }

    /// The keys that every function is given, in the order of Lua/prelude.lua.
    func given(to worker: String) -> [String] { [jobs, held(worker), self.worker(worker)] }
}
