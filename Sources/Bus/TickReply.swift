package import HaulContract
import HaulRedis

/// What a tick brought.
package struct TickReply: Sendable {
    /// Runs that are no longer ours: nothing of them may be touched.
    package var fenced: Set<String> = []
    /// Requests for our runs, by token.
    package var requests: [String: Request] = [:]
    package var gate = QueueGate.open
    /// The queue has a limit of rate, which workers share: `Queue.share`.
    package var hasRate = false
    /// Hosts have limits of their own, which are to be read: `Queue.hostRates`.
    package var hasHostLimits = false
    /// Settings whose values are none, and have no effect.
    package var ignored: [String] = []
    /// Jobs wait for a start, and this worker is to ask `Queue.pace` so much later.
    package var pace: Duration?
    /// There was more to do for the queue than a tick may take time for.
    package var isMoreToDo = false
    /// Requests were left that nobody has heard yet.
    package var leavesRequests = false
    /// Files of jobs that were cancelled or removed while nobody ran them.
    package var dropped: [DroppedFile] = []
    /// Kinds of jobs that wait for a worker that does them; this one does not.
    package var aside: [String] = []
    /// Workers at this place that have been silent for longer than a tick.
    package var silent: [Neighbour] = []

    package init() {}

    /// Adds what one call brought. `looked`: it was one of Lua/tick.lua, else one of Lua/report_runs.lua.
    mutating func add(_ reply: RedisValue, looked: Bool) throws(RedisError) {
        guard reply.array != nil else { throw RedisError(.reply, "the tick function answered \(reply)") }
        let members = reply.members
        func list(_ name: String) -> [String] { (members[name]?.array ?? []).compactMap(\.string) }
        fenced.formUnion(list("fenced"))
        requests.merge((members["requests"] ?? .null).dictionary.compactMapValues(Request.init)) { $1 }
        guard looked else { return }
        gate = QueueGate(rawValue: members["gate"]?.string ?? "") ?? .open
        hasRate = members["rate"] != nil
        hasHostLimits = members["limits"] != nil
        ignored = list("ignored").sorted()
        pace = members["pace"]?.string.flatMap { Int64($0) }.map { .milliseconds($0) }
        isMoreToDo = members["more"] != nil
        leavesRequests = members["unheard"] != nil
        aside = list("aside")
        let dropped = list("dropped")
        for index in stride(from: 0, to: dropped.count - 5, by: 6) {
            self.dropped.append(DroppedFile(dropped[index..<index + 6].map { $0 }))
        }
        let silent = list("silent")
        self.silent = stride(from: 0, to: silent.count - 1, by: 2).map {
            Neighbour(worker: silent[$0], process: silent[$0 + 1])
        }
    }
}

/// What is no longer wanted: a worker of its store unlinks it.
package struct DroppedFile: Sendable {
    package let id: String
    package let store: String
    /// The finished file's place, beside which a partial one lies.
    package let file: String
    /// The partial file's generation; empty if there is none.
    package let generation: String
    /// The finished file's identity if it is to be deleted.
    package let finished: FinishedIdentity?
    /// What Redis knows it by until it is unlinked.
    package let entry: String

    /// As Lua/drop.lua tells it.
    init(_ texts: [String]) {
        (id, store, file, generation) = (texts[0], texts[1], texts[2], texts[3])
        (finished, entry) = (FinishedIdentity(texts[4]), texts[5])
    }
}
