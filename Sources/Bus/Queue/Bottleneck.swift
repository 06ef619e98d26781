import HaulContract

/// Something that keeps jobs from starting, or slows those that run.
package struct Bottleneck: Sendable, Equatable {
    /// The raw values are part of the API.
    package enum Cause: String, Sendable, CaseIterable {
        /// The queue is paused.
        case paused
        /// No worker claims jobs. If all workers are lost, running jobs do not go on either.
        case noWorker = "no_worker"
        /// All slots of the workers that claim jobs are taken.
        case slots
        /// The setting `max_running` is reached.
        case maxRunning = "max_running"
        /// The setting `starts` lets jobs start only one after the other.
        case starts
        /// The rate of the queue is used up.
        case rate
        /// A host has as many jobs as it may have, or as the workers' connections allow.
        case host
        /// A host has asked for a pause, or has answered with errors.
        case backoff
        /// Jobs may start at a host only one after the other.
        case hostStarts = "host_starts"
        /// The rate of a host is used up.
        case hostRate = "host_rate"
        /// A limit of a group is reached: `running` or `starts`.
        case group
        /// The rate of a group is used up.
        case groupRate = "group_rate"
        /// No worker has claimed the jobs that does their kind.
        case kind
        /// The disks of all workers that claim jobs are full, or jobs wait for space that were running.
        case disk
        /// Jobs that were running wait for their store.
        case store
        /// Running jobs are at their gate, or wait for its turn.
        case gate
        /// Jobs that are done wait for replicas of Redis.
        case replicas
    }

    package let cause: Cause
    /// The host, the group or the kind. Of a pause how many partitions have it, if others do not.
    package var name: String?
    /// How many queued jobs it keeps from starting.
    package var queued = 0
    /// How many running jobs it slows.
    package var running = 0
    /// How many scheduled jobs try again because of it, after a run that it ended.
    package var scheduled = 0
    /// A number of jobs, or bytes per second.
    package var limit: Int64?
    /// A limit of starts, such as `10/s`.
    package var starts: String?
    /// When a back-off ends, unix ms.
    package var until: Int64?

    package init(
        _ cause: Cause, _ name: String? = nil, queued: Int = 0, running: Int = 0, scheduled: Int = 0,
        limit: Int64? = nil, starts: String? = nil, until: Int64? = nil
    ) {
        (self.cause, self.name, self.queued, self.running) = (cause, name, queued, running)
        (self.scheduled, self.limit, self.starts, self.until) = (scheduled, limit, starts, until)
    }

    /// The members of its JSON.
    package static let members: [JSONMember] = [
        JSONMember(
            "cause", .choice(Cause.allCases.map(\.rawValue)), "What it is: docs/operate/queues.md explains each.",
            isAlways: true),
        JSONMember(
            "name", .text,
            "The host, the group or the kind; of a pause, how many partitions have it, unless all have it."),
        JSONMember("queued", .integer, "How many queued jobs it keeps from starting.", isAlways: true),
        JSONMember("running", .integer, "How many running jobs it slows.", isAlways: true),
        JSONMember(
            "scheduled", .integer, "How many scheduled jobs try again because of it, after a run that it ended."),
        JSONMember("limit", .integer, "The limit: a number of jobs or slots, or bytes per second."),
        JSONMember("starts", .text, "The limit of starts, like 10/s."),
        JSONMember("until", .integer, "Unix milliseconds until which workers start nothing at the host."),
    ]

    package var json: String {
        var json = JSONObject()
        json.set("cause", cause.rawValue)
        json.set("name", name)
        json.set("queued", queued)
        json.set("running", running)
        json.set("scheduled", scheduled > 0 ? scheduled : nil)
        json.set("limit", limit)
        json.set("starts", starts)
        json.set("until", until)
        return json.text
    }

    /// How many jobs it concerns.
    package var jobs: Int { queued + running + scheduled }

    /// Whether it keeps a job from starting, or slows it. A queued job counts as deferred if others of its host, group or
    /// kind are, because only a search of the queue would say it of the job itself.
    package func slows(_ job: JobRecord) -> Bool {
        let isQueued = job.state == .queued
        let isReceiving = job.state == .running && job["waiting"] == nil
        func isAtHost() -> Bool { name.map(Self.host) == job["url"].flatMap(MaskedURL.host) }
        switch cause {
        case .paused, .slots, .maxRunning, .starts: return isQueued
        case .noWorker: return isQueued || job.state == .running && running > 0
        case .rate: return isReceiving
        case .hostRate: return isReceiving && isAtHost()
        case .groupRate: return isReceiving && name == job["group"]
        case .host, .backoff, .hostStarts: return (isQueued ? queued > 0 : job["waiting"] == "host") && isAtHost()
        case .group: return isQueued && name == job["group"]
        case .kind: return isQueued && name == job["kind"] ?? Job.Kind.download.rawValue
        case .disk where isQueued: return queued > 0
        case .disk, .store, .gate, .replicas: return job["waiting"] == cause.rawValue
        }
    }

    /// The host of a name of the hash `limits`, which may have a port, as `MaskedURL.host` returns it.
    static func host(_ name: String) -> String { MaskedURL.host("://" + name) ?? name }
}
