import HaulContract
import HaulExecutors
import HaulHTTP
import HaulStorage
import Synchronization

/// Brings what is missing of one entity, over as many connections as help. `SegmentPlan` decides; here it is done.
struct SegmentFetcher {
    enum Outcome: Sendable {
        case whole
        /// Nothing of the known entity can supply what is missing.
        case restart(why: String)
    }

    private enum Note: Sendable {
        case tick
        /// Cancelled while it waited for its host's turn: the host does not count it.
        case turnedAway(Int)
        case opened(Int, Result<PartQuestion.Answer, TransferError>)
        case ended(Int, Result<TransferEnd, TransferError>)
    }

    /// A connection from the question to the end of its answer.
    private struct Connection {
        let mirror: Int
        let start: Int64
        /// The host whose limit counts it.
        let host: String
        /// No other was there when it was asked for: its failure decides.
        let isOnly: Bool
        var transfer: Transfer?
    }

    /// What a connection must bring for the next one to be asked for at once.
    static let worthwhile: Int64 = 64 << 10
    /// Extra connections that fail in a row before no more are tried.
    private static let maximumRefusals = 3

    private let download: Download
    private let partial: any Partial
    private let entity: Entity
    private let total: Int64
    private let isMany: Bool
    private let begun = monotonicNanoseconds()
    private var plan: SegmentPlan
    private var connections: [Int: Connection] = [:]
    private var writtenAtReconnect: Int64 = 0
    private var refusals = 0
    /// Connections in a row that the server ended before they had brought anything worth while.
    private var fruitless = 0
    private var asked = 0
    private var floor: SpeedFloor?
    private var holds: HoldShare

    init(_ download: Download, _ generation: Generation, total: Int64, refusesRanges: Bool) {
        (self.download, partial, entity, self.total) = (download, generation.partial, generation.entity, total)
        let isWorthIt = total >= 2 * SegmentPlan.smallestPart && download.isResumable && !refusesRanges
        let limit = isWorthIt ? download.connectionLimit : 1
        isMany = limit > 1
        holds = HoldShare(isExpected: partial.isHashing)
        plan = SegmentPlan(missing: partial.written.gaps(in: total), limit: limit)
        floor = download.speedFloor
        writtenAtReconnect = partial.written.count
    }

    /// Fetches until nothing is missing. `first` is a response that has begun already, with all bytes from 0 on.
    mutating func run(first: FirstResponse?) async throws(TransferError) -> Outcome {
        var fetcher = self
        let result: Result<Outcome, TransferError> = await withTaskGroup(of: Note.self) { group in
            let result = await fetcher.drive(first, &group)
            group.cancelAll()
            while let note = await group.next() { fetcher.bury(note) }
            return result
        }
        self = fetcher
        return try result.get()
    }

    private var now: Double { Double(monotonicNanoseconds() - begun) / 1e9 }

    private mutating func drive(
        _ first: FirstResponse?, _ group: inout TaskGroup<Note>
    ) async -> Result<Outcome, TransferError> {
        if let first {
            let id = plan.adopt(0..<total, now: now)
            connections[id] = Connection(
                mirror: download.mirrors.current, start: 0, host: first.host, isOnly: true, transfer: first.transfer)
            if first.transfer.head.isHTTP2 { plan.speaksHTTP2() }
            if let path = first.transfer.progress.path { plan.learned(path, by: id, now: now) }
            receive(id, first.transfer, length: total, &group)
        }
        if isMany || floor != nil { tick(&group) }
        while true {
            decide(&group)
            if plan.isDone { return .success(.whole) }
            guard let note = await group.next() else { return .failure(.cancelled) }
            var held: [Int: Double] = [:]
            for (id, connection) in connections {
                guard let transfer = connection.transfer else { continue }
                if let path = transfer.progress.path { plan.learned(path, by: id, now: now) }
                plan.sample(id, received: transfer.progress.received, now: now)
                held[id] = Double(transfer.progress.held) / 1e9
            }
            holds.sample(held, now: now)
            switch note {
            case .tick:
                let time = now
                if floor?.isTooSlow(arrived: download.moved, isHeld: holds.isLarge, now: time) == true {
                    return .failure(.failed(floor!.failure))
                }
                tick(&group)
            case .turnedAway: return .failure(.cancelled)
            case .opened(let id, let result):
                if let outcome = opened(id, result, &group) { return outcome }
            case .ended(let id, let result):
                if let outcome = await ended(id, result) { return outcome }
            }
        }
    }

    /// Often at first, when connections join; then less and less, since a thousand slow downloads look too.
    private func tick(_ group: inout TaskGroup<Note>) {
        let usual = min(1, max(0.02, now / 10))
        let ask = plan.nextAsk.flatMap { $0 > now ? $0 - now : nil } ?? usual
        let pause = Duration.seconds(max(0.002, min(usual, ask)))
        group.addTask {
            try? await Task.sleep(for: pause)
            return .tick
        }
    }

    // MARK: Connections

    /// Asks the plan. Extra connections go to the mirrors in turn, as far as their hosts bear one more.
    private mutating func decide(_ group: inout TaskGroup<Note>) {
        let (download, entity) = (download, entity)
        let mirrors = download.mirrors
        let offset = asked
        let isHeld = holds.isLarge
        var extras: [Int] = []
        var actions = plan.actions(now: now) {
            let mirror = mirrors.forExtra(offset + extras.count, hasDigest: entity.digest != nil)
            guard !isHeld, download.context.hosts.tryEnter(mirrors[mirror].host) else { return false }
            extras.append(mirror)
            return true
        }
        asked += extras.count
        // The one that is opened because there is no other has asked nobody.
        while case .open(let id, let range)? = actions.last {
            actions.removeLast()
            open(id, range, on: extras.popLast(), &group)
        }
        for action in actions { perform(action) }
    }

    private func perform(_ action: SegmentPlan.Action) {
        switch action {
        case .open: break
        case .shorten(let id, let end): connections[id]?.transfer?.shorten(to: end)
        case .drop(let id): connections[id]?.transfer?.cancel()
        }
    }

    private mutating func open(
        _ id: Int, _ range: Range<Int64>, on extra: Int?, _ group: inout TaskGroup<Note>
    ) {
        let isOnly = extra == nil
        let mirror = extra ?? download.mirrors.current
        let host = download.mirrors[mirror].host
        connections[id] = Connection(mirror: mirror, start: range.lowerBound, host: host, isOnly: isOnly)
        let question = PartQuestion(range: range, entity: entity, total: total, mirror: mirror, isOnly: isOnly)
        let download = download
        group.addTask {
            if isOnly, await !download.enter(host) { return .turnedAway(id) }
            do throws(TransferError) {
                return .opened(id, .success(try await question.ask(download)))
            } catch {
                return .opened(id, .failure(error))
            }
        }
    }

    private mutating func receive(
        _ id: Int, _ transfer: Transfer, length: Int64, _ group: inout TaskGroup<Note>
    ) {
        download.begin(id, transfer)
        let (partial, start) = (partial, connections[id]!.start)
        group.addTask {
            do throws(TransferError) {
                return .ended(id, .success(try await transfer.receive(into: partial, at: start, length: length)))
            } catch {
                return .ended(id, .failure(error))
            }
        }
    }

    private mutating func opened(
        _ id: Int, _ result: Result<PartQuestion.Answer, TransferError>, _ group: inout TaskGroup<Note>
    ) -> Result<Outcome, TransferError>? {
        guard let connection = connections[id] else { return nil }
        if case .success(.part(let transfer, let landing, let entity, let length)) = result {
            connections[id]!.transfer = transfer
            download.state.withLock { state in
                state.mirrors[connection.mirror].landing = landing
                state.mirrors[connection.mirror].entity = entity
                let source = MaskedURL.text(state.mirrors[connection.mirror].url)
                if source != state.generation?.source { state.generation?.isMixed = true }
            }
            refusals = 0
            receive(id, transfer, length: length, &group)
            for action in plan.opened(id, length: length, now: now) { perform(action) }
            return nil
        }
        connections[id] = nil
        download.context.hosts.leave(connection.host)
        let others = plan.connections.keys.contains { $0 != id }
        switch result {
        case .failure(.cancelled): return .failure(.cancelled)
        case .failure(.noSpace): return .failure(.noSpace)
        case .failure(.failed(let failure)), .success(.refused(.fail(let failure))):
            return refused(id, connection, failure, others: others)
        case .success(.refused(.askWithoutIfRange)):
            download.state.withLock { $0.mirrors[connection.mirror].honoursIfRange = false }
            plan.refused(id, for: 0, now: now)
        case .success(.refused(let decision)):
            let why = decision.why ?? "the server sent what was not asked for"
            if dropMirror(connection.mirror) {
                plan.refused(id, for: 0, now: now)
            } else if others || !connection.isOnly {
                plan.refused(id, for: .infinity, now: now)
            } else {
                if case .restartWhole = decision { download.state.withLock { $0.isAlone = true } }
                return .success(.restart(why: why))
            }
        case .success(.apart):
            download.state.withLock { $0.mirrors[connection.mirror].isApart = true }
            plan.refused(id, for: 0, now: now)
        case .success(.part): break
        }
        return nil
    }

    /// A mirror whose bytes may be mixed with others' is no longer asked; false if there is none to take its place.
    private func dropMirror(_ index: Int) -> Bool {
        download.isProven && download.state.withLock { $0.mirrors.drop(index) }
    }

    private mutating func refused(
        _ id: Int, _ connection: Connection, _ failure: Failure, others: Bool
    ) -> Result<Outcome, TransferError>? {
        switch failure.code {
        case .http(429), .http(503), .connect:
            download.context.hosts.complain(connection.host, retryAfter: failure.retryAfter)
        default: break
        }
        if Mirrors.isToBlame(for: failure.code), dropMirror(connection.mirror) {
            plan.refused(id, for: 0, now: now)
            return nil
        }
        guard others || !connection.isOnly else { return .failure(.failed(failure)) }
        // What runs goes on; whoever only wanted to help is not missed.
        refusals += 1
        holdBack(id, refusals, failure)
        return nil
    }

    /// No extra connections for a while, or for good, after so many failures in a row.
    private mutating func holdBack(_ id: Int, _ failures: Int, _ failure: Failure) {
        let isForGood = !RetryPolicy.isRetryable(failure) || failures >= Self.maximumRefusals
        let delay = failure.retryAfter?.secondsValue ?? Double(1 << failures)
        plan.refused(id, for: isForGood ? .infinity : delay, now: now)
    }

    private mutating func ended(
        _ id: Int, _ result: Result<TransferEnd, TransferError>
    ) async -> Result<Outcome, TransferError>? {
        guard let connection = connections.removeValue(forKey: id), let transfer = connection.transfer else {
            return nil
        }
        download.end(id, transfer)
        download.context.hosts.leave(connection.host)
        let isDropped = plan.connections[id] == nil
        for action in plan.ended(id, at: connection.start + transfer.progress.received, now: now) { perform(action) }
        guard case .failure(let error) = result else {
            fruitless = 0
            return nil
        }
        if let error = partial.error { return .failure(error) }
        guard case .failed(let failure) = error, !isDropped else { return isDropped ? nil : .failure(error) }
        fruitless = transfer.progress.received < Self.worthwhile ? fruitless + 1 : 0
        guard plan.connections.isEmpty else {
            if fruitless > 0 { holdBack(id, fruitless, failure) }
            return nil
        }
        let written = partial.written.count
        let isWorthIt = Headway.isEnough(written - writtenAtReconnect, of: total)
        guard RetryPolicy.isRetryable(failure), failure.retryAfter == nil, isWorthIt, download.isResumable else {
            // Another mirror may have the rest.
            let isMadeUpFor =
                Mirrors.isToBlame(for: failure.code) && download.isResumable && dropMirror(connection.mirror)
            return isMadeUpFor ? nil : .failure(error)
        }
        writtenAtReconnect = written
        return nil
    }

    /// What still comes in when all is over.
    private mutating func bury(_ note: Note) {
        switch note {
        case .tick, .turnedAway: break
        case .opened(let id, _), .ended(let id, _):
            guard let connection = connections.removeValue(forKey: id) else { return }
            if let transfer = connection.transfer { download.end(id, transfer) }
            download.context.hosts.leave(connection.host)
        }
    }
}
