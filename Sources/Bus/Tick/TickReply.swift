package import HaulContract
import HaulRedis

/// The result of a tick.
package struct TickReply: Sendable {
    /// Tokens of runs that this worker no longer owns. It must touch nothing of their jobs.
    package var fenced: Set<String> = []
    /// Control operations for this worker's runs, by token.
    package var operations: [String: ControlOperation] = [:]
    package var gate = QueueGate.open
    /// The setting `rate`: workers share a limit of rate, which may depend on the time of day (`Queue.leaseRates`).
    package var rate: String?
    /// The time by Redis' clock, unix seconds.
    package var time: Int64 = 0
    /// Hosts have limits of their own, which the worker must read: `Queue.hostRates`.
    package var hasHostLimits = false
    /// The names of limits among the settings that have invalid values, and so no effect.
    package var ignored: [String] = []
    /// After which time this worker must call `Queue.pace`, because jobs wait for a start; nil if it need not.
    package var pace: Duration?
    /// There is more to do for the queue than a tick has time for.
    package var hasMoreWork = false
    /// Further control operations wait in `want`.
    package var hasUnappliedOperations = false
    /// Files that this worker must unlink: their jobs were cancelled or removed while no worker ran them.
    package var dropped: [DroppedFile] = []
    /// Kinds of jobs that wait for another worker, because this one does not do them.
    package var deferredKinds: [String] = []
    /// Jobs that Redis has failed, whose next steps this worker has to push: `Queue.push(_:as:)`.
    package var owedSteps: [OwedSteps] = []
    /// How many entries one call hands out: Lua/settle/steps.lua.
    package static let maxOwedSteps = 8
    /// Workers with this host identity that have been silent for longer than a tick.
    package var silent: [ColocatedWorker] = []
    /// Schedules that are due: `Queue.push(_:as:)`.
    package var schedules: [DueSchedule] = []

    /// The error with which Redis has refused to publish an event.
    package var refused: String?

    package init() {}

    /// Adds the reply of one call. `isTick` says that it is a reply of Lua/tick/tick.lua, not of Lua/tick/runs.lua.
    mutating func add(_ reply: RedisValue, isTick: Bool) throws(RedisError) {
        guard reply.array != nil else { throw RedisError(.reply, "the tick function returned \(reply)") }
        let members = reply.members
        func list(_ name: String) -> [String] { (members[name]?.array ?? []).compactMap(\.string) }
        fenced.formUnion(list("fenced"))
        operations.merge((members["operations"] ?? .null).dictionary.compactMapValues(ControlOperation.init)) { $1 }
        guard isTick else { return }
        gate = QueueGate(rawValue: members["gate"]?.string ?? "") ?? .open
        rate = members["rate"]?.string
        time = (members["now"]?.string.flatMap { Int64($0) } ?? 0) / 1000
        hasHostLimits = members["limits"] != nil
        ignored = list("ignored").sorted()
        pace = members["pace"]?.string.flatMap { Int64($0) }.map { .milliseconds($0) }
        hasMoreWork = members["more"] != nil
        hasUnappliedOperations = members["unapplied"] != nil
        deferredKinds = list("deferred_kinds")
        let dropped = list("dropped")
        for index in stride(from: 0, to: dropped.count - 5, by: 6) {
            self.dropped.append(DroppedFile(dropped[index..<index + 6].map { $0 }))
        }
        let owed = members["owed_steps"]?.array ?? []
        owedSteps = stride(from: 0, to: owed.count - 1, by: 2).compactMap { index in
            owed[index].string.flatMap { OwedSteps(entry: $0, owed[index + 1].bytes ?? []) }
        }
        refused = members["refused"]?.string ?? refused
        schedules = DueSchedule.list(members["schedules"] ?? .null)
        let silent = list("silent")
        self.silent = stride(from: 0, to: silent.count - 1, by: 2).map {
            ColocatedWorker(worker: silent[$0], process: silent[$0 + 1])
        }
    }
}

/// A file that a worker of its store must unlink.
package struct DroppedFile: Sendable {
    package let id: String
    package let store: String
    /// The location of the finished file, beside which the partial file is.
    package let file: String
    /// The generation of the partial file to unlink; empty if there is none.
    package let generation: String
    /// The identity of the finished file to delete; nil if it is kept.
    package let finished: FinishedIdentity?
    /// The entry of `deleting` that is deleted once the file is unlinked.
    package let entry: String

    /// Six texts of the list `dropped`: Lua/tick/tick.lua.
    init(_ texts: [String]) {
        (id, store, file, generation) = (texts[0], texts[1], texts[2], texts[3])
        (finished, entry) = (FinishedIdentity(texts[4]), texts[5])
    }

    /// Whose the finished file is, if its job was pushed again after the removal.
    package enum Owner: Sendable {
        /// The removed job's: it is to be deleted.
        case removed
        /// That of a later run.
        case newer
        /// A run is at work, which deletes the file itself, and may give the name to a new one with the same identity.
        case undecided
    }

    /// The same as file_owner() in Lua/core/deletions.lua, by what Redis says now.
    package func owner(_ job: JobRecord) -> Owner {
        if job.state == .running { return .undecided }
        guard let finished else { return .newer }
        guard let modified = finished.modified else { return job["store"] ?? store == store ? .newer : .removed }
        let isSame =
            job["store"] ?? store == store && job["inode"] == String(finished.inode) && job["mtime"] == String(modified)
        return isSame ? .newer : .removed
    }
}

/// A worker on the same machine.
package struct ColocatedWorker: Sendable, Hashable {
    package let worker: String
    /// Its instance, and the number and start of its process: Lua/tick/colocated.lua.
    package let process: String

    package init(worker: String, process: String) { (self.worker, self.process) = (worker, process) }
}
