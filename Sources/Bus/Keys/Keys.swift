package import HaulContract

/// The keys and channels of a queue. The queue's name is their hash tag, so all keys are in one slot of a cluster.
package struct Keys: Sendable {
    package let prefix: String

    package init(_ queue: QueueName) { prefix = "haul:{\(queue)}:" }

    /// Patterns of the keys and channels of all partitions of a queue; those of the queue itself if it has none.
    init(ofAllPartitionsOf queue: QueueName) {
        let tag = queue.partitions.isEmpty ? queue.text : "\(queue.base)#*of\(queue.partitions.count)"
        prefix = "haul:{\(tag)}:"
    }

    package var jobs: String { self[.jobs] }
    package func held(_ worker: String) -> String { self[.held] + worker }
    package var want: String { self[.want] }
    package var tick: String { self[.tick] }
    package func job(_ id: String) -> String { self[.job] + id }
    package func spec(_ id: String) -> String { self[.spec] + id }
    package func offsets(_ id: String) -> String { self[.offsets] + id }
    package var leases: String { self[.leases] }
    package var scheduled: String { self[.scheduled] }
    package var rejected: String { self[.rejected] }
    package var changes: String { self[.changes] }
    package var workers: String { self[.workers] }
    package func worker(_ name: String) -> String { self[.worker] + name }
    package func host(_ hostIdentity: String) -> String { self[.host] + hostIdentity }
    package var settings: String { self[.settings] }
    package var permits: String { self[.permits] }
    package var defaults: String { self[.defaults] }
    package var limits: String { self[.limits] }
    package var hosts: String { self[.hosts] }
    package var responses: String { self[.responses] }
    package var responseBytes: String { self[.responseBytes] }
    package var unannounced: String { self[.unannounced] }
    package var epoch: String { self[.epoch] }
    package var totals: String { self[.totals] }
    package var deferredKinds: String { self[.deferredKinds] }
    package func deferredKind(_ name: String) -> String { self[.deferredKind] + name }
    /// `hour` is the unix time divided by 3600.
    package func history(hour: Int64) -> String { self[.history] + "\(hour)" }
    package var batches: String { self[.batches] }
    package func batch(_ name: String) -> String { self[.batch] + name }
    /// The state in which each member of a batch is counted.
    package func members(_ batch: String) -> String { self[.members] + batch }
    /// Files that a worker of a store has claimed to unlink and has not reported as done.
    package func deleting(_ store: String) -> String { self[.deleting] + store }
    /// Jobs that were removed within the last hour and may have left partial files.
    package var removed: String { self[.removed] }
    package var deadlines: String { self[.deadlines] }
    package func reply(_ name: String) -> String { self[.reply] + name }
    /// Replies that consumers of this name have taken and not acknowledged. No worker writes there.
    package func taken(_ name: String) -> String { reply(name) + ":taken" }
    /// The stream of the queue's events.
    package var log: String { self[.log] }
    /// The definitions of schedules, which may hold secrets.
    package var schedules: String { self[.schedules] }
    package var scheduleDue: String { self[.scheduleDue] }
    package var schedulePaused: String { self[.schedulePaused] }
    package func schedule(_ name: String) -> String { self[.schedule] + name }
    package var control: String { prefix + ChannelName.control.rawValue }
    /// The channel to which a worker's process subscribes for as long as it lives: Lua/tick/disconnected.lua.
    package func alive(_ instance: String) -> String { prefix + ChannelName.alive.rawValue + instance }
    package func events(_ id: String) -> String { prefix + ChannelName.events.rawValue + id }

    /// Where the jobs in `state` are listed: the queue for queued jobs, else a sorted set.
    package func index(_ state: JobState) -> String {
        switch state {
        case .queued: jobs
        case .running: leases
        case .scheduled: scheduled
        case .paused: self[.paused]
        case .completed: self[.completed]
        case .failed: self[.failed]
        case .cancelled: self[.cancelled]
        }
    }

    /// The sorted sets in which an inspection searches for jobs.
    var indexes: [String] {
        [leases, scheduled, self[.paused], self[.completed], self[.failed], self[.cancelled], deadlines]
    }

    /// KEYS of every function: Lua/core/call.lua.
    func functionKeys(for worker: String) -> [String] { [jobs, held(worker), self.worker(worker)] }

    subscript(name: KeyName) -> String { prefix + name.rawValue }
}
