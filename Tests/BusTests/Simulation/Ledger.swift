import Foundation
import HaulContract

@testable import HaulBus

/// Works out what must become of every job, by the tables and promises of docs/reference/. It knows what was done
/// to the job, and not how the functions do it.
struct Ledger {
    let policy: QueuePolicy
    var stories: [String: Story] = [:]
    /// In the order of the jobs' first pushes, because a dictionary's order differs from run to run.
    var ids: [String] = []
    /// When the hashes of jobs expire that have no story any more.
    private var retired: [String: Int64] = [:]
    /// The reply lists that invalid elements have named.
    var refused: Set<String> = []
    var now: Int64 = 0
    /// When the last tick was, and until when no job is reaped.
    var lastTick: Int64?
    var grace: Int64 = 0
    /// Workers that the current tick reports as dead.
    var deadWorkers: Set<String> = []
    private(set) var wrong: [String] = []
    /// The id of the job whose story is printed.
    private let reported = ProcessInfo.processInfo.environment["HAUL_SIMULATION_TRACE"]

    init(policy: QueuePolicy) { self.policy = policy }

    func report(_ id: String, _ what: @autoclosure () -> String) {
        if id == reported { print("at \(now - Simulation.dawn): \(id) \(what())") }
    }

    mutating func recordViolation(_ what: String) {
        wrong.append("at \(now - Simulation.dawn): \(what)")
        if reported != nil { print("wrong: \(wrong.last!)") }
    }

    /// Replaces the ledger `later` after a rollback to the time of this one. The complaints are kept.
    mutating func returned(from later: Ledger) {
        wrong = later.wrong
        now = later.now
    }

    // MARK: What was done

    mutating func pushed(_ id: String, _ story: Story) {
        if stories[id] == nil { ids.append(id) }
        // An operation may have come before the first push.
        let isFirst = stories[id]?.element.isEmpty ?? true
        stories[id, default: story].element = story.element
        if isFirst { (stories[id]!.isTimed, stories[id]!.isPoison) = (story.isTimed, story.isPoison) }
        demanded(id)
        report(id, "pushed: \(story.element)")
        stories[id]!.deadlines.formUnion(story.deadlines)
        stories[id]!.periods.formUnion(story.periods)
        stories[id]!.names.formUnion(story.names)
    }

    mutating func demanded(_ id: String) { (stories[id]!.demand, stories[id]!.pushed) = (now, now) }

    mutating func requested(_ request: ControlOperation, of id: String, isTimed: Bool) {
        if stories[id] == nil {
            ids.append(id)
            stories[id] = Story(element: "", isTimed: true)
        }
        report(id, "asked: \(request)")
        stories[id]!.asked = Story.Stop(request: request, timestamp: now, isTimed: isTimed)
    }

    /// Records that a tick begins.
    mutating func observed() {
        if let lastTick, now - lastTick > 2500 { grace = now + policy.lease.inMilliseconds }
        lastTick = now
    }

    mutating func extended(_ run: Run) { stories[run.id]!.lease = now + policy.lease.inMilliseconds }

    /// Records a report of whether the run is at work.
    mutating func reported(_ run: Run, _ report: RunReport) {
        if let begun = report.fields.first(where: { $0.0 == "active_token" }) { stories[run.id]!.begun = begun.1 }
    }

    /// Records that the offsets are durable.
    mutating func checkpointed(_ id: String, _ report: RunReport) {
        guard let offsets = report.offsets else { return }
        stories[id]!.checkpoint = offsets
        stories[id]!.losses = 0
    }

    // MARK: What is known

    /// Whether a run is its job's current one.
    func holds(_ run: Run) -> Bool {
        guard let facts = stories[run.id]?.facts else { return false }
        return facts.state == .running && facts.token == run.token
    }

    func remembers(_ id: String) -> Bool { stories[id]?.facts.state != nil }

    /// Whether operations wait to be applied.
    var isAsked: Bool { stories.values.contains { $0.asked != nil } }

    /// Forgets and returns the jobs whose hashes have expired by now.
    mutating func expired() -> [String] {
        let over = ids.filter { stories[$0]!.expiry.map { $0 <= now } ?? false }
        for id in over {
            stories[id]!.forget(tombstone: nil)
            stories[id]!.facts = Facts()
            report(id, "expired")
        }
        let gone = retired.filter { $0.value <= now }.map(\.key)
        for id in gone { retired[id] = nil }
        return over + gone
    }

    /// Drops old jobs that have ended or are unknown, and that are not in the queue. Nothing more happens to them.
    mutating func dropOld(window: Int, inLine: Set<String>) {
        let done = Set(
            ids.dropLast(window).filter {
                let story = stories[$0]!
                return story.facts.state?.isFinal ?? (story.taken == nil) && story.asked == nil && !inLine.contains($0)
            })
        for id in done {
            if stories[id]!.demand != nil { recordViolation("\(id): a push or a request was lost") }
            retired[id] = stories[id]!.expiry
            stories[id] = nil
        }
        ids.removeAll { done.contains($0) }
    }
}
