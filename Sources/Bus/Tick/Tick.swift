import HaulContract
package import HaulRedis

/// A worker's tick for a queue, as several calls that each occupy Redis only briefly. It has no connection itself, but
/// decides which call comes next, and reads the replies.
package struct Tick: Sendable {
    /// What a tick does in addition to reporting runs.
    package enum Scope: Sendable {
        /// Nothing else.
        case runs
        /// It applies control operations.
        case operations
        /// It does everything that a queue needs. It must report all runs of the worker, so that their leases are
        /// extended before any job is reaped.
        case queue
    }

    /// One call of a tick.
    struct Step {
        enum Kind: Equatable {
            /// Lua/tick/runs.lua.
            case report
            /// Lua/tick/tick.lua.
            case tick(isLast: Bool)
        }

        let kind: Kind
        let runs: [(Run, RunReport)]
    }

    /// A run that is still to be reported.
    private struct Entry {
        let index: Int
        /// nil until the call is made that reports it.
        var report: RunReport?
        /// It was reported already, while control operations waited.
        var isRepeated = false
    }

    /// How many runs one call reports at most. Each takes Redis about 20 µs.
    package static let maxRuns = 32
    /// How many arguments one call has at most. Each takes Redis half a microsecond, and a run may have many offsets.
    private static let maxArguments = 2000
    /// After this time a tick only reports its remaining runs: their leases are extended again only by the next tick.
    private static let maxTime: Duration = .seconds(1)

    let worker: WorkerIdentity
    private let scope: Scope
    private let runs: [Run]
    /// What there is to report of the run with this index. It is asked right before the call that reports the run, because
    /// a run may end meanwhile, and then its settle has the rest.
    private let report: @Sendable (Int) -> RunReport
    /// Pairs for the worker's hash.
    let fields: [(String, String)]
    /// The worker waits for a permit under `max_running`.
    let isHeld: Bool
    /// Workers on this machine whose processes have certainly ended.
    let deadWorkers: [ColocatedWorker]
    private let maxRuns: Int
    private let end = ContinuousClock.now + Self.maxTime

    /// The replies of all calls so far.
    package private(set) var reply = TickReply()
    /// How many of the runs Redis has received the reports of, counted from the first.
    package var reported: Int { min(applied, runs.count) }
    private var applied = 0
    private var rest: ArraySlice<Entry>
    /// Runs that were reported while control operations still waited, which may be for them. They are reported again.
    private var toRepeat: [Entry] = []
    private var isBegun = false
    private var hasTicked = false

    package init(
        _ worker: WorkerIdentity, _ scope: Scope = .queue, runs: [(Run, RunReport)], fields: [(String, String)] = [],
        isHeld: Bool = false, deadWorkers: [ColocatedWorker] = [], maxRuns: Int = Tick.maxRuns
    ) {
        self.init(
            worker, scope, runs: runs.map(\.0), fields: fields, isHeld: isHeld, deadWorkers: deadWorkers,
            maxRuns: maxRuns
        ) { runs[$0].1 }
    }

    package init(
        _ worker: WorkerIdentity, _ scope: Scope = .queue, runs: [Run], fields: [(String, String)] = [],
        isHeld: Bool = false, deadWorkers: [ColocatedWorker] = [], maxRuns: Int = Tick.maxRuns,
        report: @escaping @Sendable (Int) -> RunReport
    ) {
        (self.worker, self.scope, self.runs, self.fields) = (worker, scope, runs, fields)
        (self.isHeld, self.deadWorkers, self.maxRuns, self.report) = (isHeld, deadWorkers, maxRuns, report)
        rest = runs.indices.map { Entry(index: $0) }[...]
    }

    /// The reports that were asked for, and that no call has sent, or whose call has failed; by the indexes of their runs.
    package var unsent: [(index: Int, report: RunReport)] {
        rest.compactMap { entry in
            entry.isRepeated ? nil : entry.report.map { (entry.index, $0) }
        }
    }

    /// The next call; nil if the tick is done.
    mutating func next() -> Step? {
        let batch = takeBatch()
        let isLast = batch.count == rest.count
        switch scope {
        case .runs: return batch.isEmpty ? nil : Step(kind: .report, runs: batch)
        case .operations:
            if !isBegun || reply.hasUnappliedOperations && hasTime {
                return Step(kind: .tick(isLast: false), runs: batch)
            }
            return batch.isEmpty ? nil : Step(kind: .report, runs: batch)
        case .queue:
            let isFull = isLast && (!hasTicked || reply.hasMoreWork && hasTime)
            if isFull || !isBegun || reply.hasUnappliedOperations && hasTime && !isLast {
                return Step(kind: .tick(isLast: isFull), runs: batch)
            }
            return batch.isEmpty ? nil : Step(kind: .report, runs: batch)
        }
    }

    /// Adds the reply to a call.
    mutating func add(_ value: RedisValue, to step: Step) throws(RedisError) {
        try reply.add(value, isTick: step.kind != .report)
        isBegun = true
        if step.kind == .tick(isLast: true) { hasTicked = true }
        applied += step.runs.count
        let reported = rest.prefix(step.runs.count)
        rest = rest.dropFirst(step.runs.count)
        if reply.hasUnappliedOperations {
            toRepeat += reported.map { Entry(index: $0.index, report: RunReport(), isRepeated: true) }
        } else if !toRepeat.isEmpty {
            rest += toRepeat
            toRepeat = []
        }
    }

    private var hasTime: Bool { .now < end }

    /// The runs of the next call. Their reports are asked for now, unless a call that came to nothing has them already.
    private mutating func takeBatch() -> [(Run, RunReport)] {
        var batch: [(Run, RunReport)] = []
        var size = 0
        for position in rest.indices.prefix(maxRuns) where size < Self.maxArguments {
            let report = rest[position].report ?? report(rest[position].index)
            rest[position].report = report
            batch.append((runs[rest[position].index], report))
            size += report.size
        }
        return batch
    }
}

extension Queue {
    /// Makes all calls of a tick. If one of them throws, `tick` has the results of the calls before it.
    package func perform(_ tick: inout Tick) async throws(RedisError) {
        while try await step(&tick) {}
    }

    /// Makes one call of a tick. False if none is left.
    package func step(_ tick: inout Tick) async throws(RedisError) -> Bool {
        guard let step = tick.next() else { return false }
        let worker = tick.worker
        var arguments: [any RedisArgument]
        switch step.kind {
        case .report: arguments = [Token.make(), worker.name, policy.lease.milliseconds]
        case .tick(let isLast):
            arguments =
                [Token.make(), worker.name, worker.instance, policy.lease.milliseconds] + policy.retention
                + [policy.crashLimit, worker.store, tick.isHeld ? "1" : "", worker.hostIdentity, worker.process]
            arguments.append(isLast ? "1" : "")
            arguments.append(tick.deadWorkers.count)
            for dead in tick.deadWorkers { arguments += [dead.worker, dead.process] }
            arguments.append(tick.fields.count)
            for (name, value) in tick.fields { arguments += [name, value] }
        }
        arguments.append(step.runs.count)
        for (run, report) in step.runs { arguments += [run.id, run.token] + report.arguments }
        let function = step.kind == .report ? functions.report : functions.tick
        let reply = try await redis.run(function, keys: keys.functionKeys(for: worker.name), arguments: arguments)
        try tick.add(reply, to: step)
        return true
    }
}

extension Queue {
    /// Promotes delayed jobs that are due, lets jobs start that wait for a start, and pushes the jobs of schedules that
    /// are due: Lua/tick/pacer.lua.
    ///
    /// - Returns: After which time to call again; nil if that is not necessary.
    package func pace(_ worker: WorkerIdentity) async throws(RedisError) -> Duration? {
        let reply = try await redis.run(
            functions.pace, keys: keys.functionKeys(for: worker.name),
            arguments: [Token.make(), worker.name, worker.instance] + policy.retention)
        guard let parts = reply.array, parts.count == 2 else { return Self.wait(reply) }
        let due = try await push(DueSchedule.list(parts[1]), as: worker)
        return [Self.wait(parts[0]), due.wait].compactMap(\.self).min()
    }

    private static func wait(_ reply: RedisValue) -> Duration? {
        reply.string.flatMap { Int64($0) }.map { .milliseconds($0) }
    }
}
