import HaulContract
import HaulExecutors
import HaulHTTP
import HaulStorage
import Synchronization

/// Fetches the missing bytes of one entity, over as many connections as help. `SegmentPlan` decides, this type acts.
struct SegmentFetcher {
    enum Outcome: Sendable {
        case whole
        /// No mirror can supply the missing bytes of the known entity.
        case restart(why: String)
        /// The partial file has bytes that are not the entity's.
        case damaged(why: String)
    }

    enum Notice: Sendable {
        case tick
        /// Cancelled while it waited for a connection to its host. The host's limit does not count it.
        case waitCancelled(Int)
        case opened(Int, Result<PartRequest.Response, TransferError>)
        case ended(Int, Result<TransferEnd, TransferError>)
    }

    /// A connection, from its request to the end of the response.
    struct Connection {
        let mirror: Int
        let start: Int64
        /// The host whose limit counts the connection.
        let host: String
        /// There was no other connection when it was opened. If there is none at its failure either, the attempt fails.
        let isOnly: Bool
        var transfer: Transfer?
        /// The server sends far less than was requested, so a request for each part could go on without end.
        var isShort = false
    }

    let download: Download
    let partial: any Partial
    private let entity: Entity
    let total: Int64
    private let mayAddConnections: Bool
    private let stopwatch = Stopwatch()
    var plan: SegmentPlan
    var connections: [Int: Connection] = [:]
    var failures: ConnectionFailures
    /// The number of extra connections opened so far.
    private var extraCount = 0
    private var floor: SpeedFloor?
    private var holds: HoldRatio

    init(_ download: Download, _ generation: Generation, total: Int64, refusesRanges: Bool) {
        (self.download, partial, entity, self.total) = (download, generation.partial, generation.entity, total)
        let isSplittable = total >= 2 * SegmentPlan.minPartBytes && download.isResumable && !refusesRanges
        let limit = isSplittable ? min(download.connectionLimit, partial.maxSinks) : 1
        mayAddConnections = limit > 1
        holds = HoldRatio(isExpected: partial.isHashing)
        plan = SegmentPlan(missing: partial.written.gaps(in: total), limit: limit, alignment: partial.alignment)
        floor = download.speedFloor
        failures = ConnectionFailures(written: partial.written.count)
    }

    /// Fetches until nothing is missing.
    ///
    /// - Parameter first: A response that has begun already, with all bytes from 0 on.
    mutating func run(first: FirstResponse?) async throws(TransferError) -> Outcome {
        var fetcher = self
        let result: Result<Outcome, TransferError> = await withTaskGroup(of: Notice.self) { group in
            let result = await fetcher.drive(first, &group)
            group.cancelAll()
            while let notice = await group.next() { fetcher.release(notice) }
            return result
        }
        self = fetcher
        return try result.get()
    }

    var now: Double { stopwatch.seconds }

    private mutating func drive(
        _ first: FirstResponse?, _ group: inout TaskGroup<Notice>
    ) async -> Result<Outcome, TransferError> {
        if let first {
            let id = plan.adopt(0..<total, now: now)
            connections[id] = Connection(
                mirror: download.mirrors.current, start: 0, host: first.host, isOnly: true, transfer: first.transfer)
            if first.transfer.head.isHTTP2 { plan.limitForHTTP2() }
            if let path = first.transfer.progress.path { plan.recordPath(path, by: id, now: now) }
            receive(id, first.transfer, length: total, &group)
        }
        if mayAddConnections || floor != nil { tick(&group) }
        while true {
            decide(&group)
            if plan.isDone { return .success(.whole) }
            guard let notice = await group.next() else { return .failure(.cancelled) }
            sample()
            switch notice {
            case .tick:
                let time = now
                // A download that waits for a connection to its host is not slow.
                let isHeld = holds.isLarge || download.io.wait?.reason == .host
                if floor?.isTooSlow(arrived: download.transferred, isHeld: isHeld, now: time) == true {
                    return .failure(.failed(floor!.failure))
                }
                tick(&group)
            case .waitCancelled: return .failure(.cancelled)
            case .opened(let id, let result):
                if let outcome = opened(id, result, &group) { return outcome }
            case .ended(let id, let result):
                if let outcome = await ended(id, result) { return outcome }
            }
        }
    }

    /// Updates the plan with the progress of all transfers.
    private mutating func sample() {
        let now = now
        var held: [Int: Double] = [:]
        for (id, connection) in connections {
            guard let transfer = connection.transfer else { continue }
            if let path = transfer.progress.path { plan.recordPath(path, by: id, now: now) }
            plan.sample(id, received: transfer.progress.received, now: now)
            held[id] = Double(transfer.progress.held) / 1e9
        }
        holds.sample(held, now: now)
    }

    /// Schedules the next tick: soon while connections join, later rarely, since there may be a thousand downloads.
    private func tick(_ group: inout TaskGroup<Notice>) {
        let typical = min(1, max(0.02, now / 10))
        let ask = plan.nextDecision.flatMap { $0 > now ? $0 - now : nil } ?? typical
        let pause = Duration.seconds(max(0.002, min(typical, ask)))
        group.addTask {
            try? await Task.sleep(for: pause)
            return .tick
        }
    }

    // MARK: Connections

    /// Does what the plan decides. Extra connections use the mirrors in turn, if the host allows one more.
    private mutating func decide(_ group: inout TaskGroup<Notice>) {
        let (download, entity) = (download, entity)
        let mirrors = download.mirrors
        let offset = extraCount
        let isHeld = holds.isLarge
        var extras: [Int] = []
        var actions = plan.actions(now: now) {
            let mirror = mirrors.forExtra(offset + extras.count, hasDigest: entity.digest != nil)
            guard !isHeld, download.context.hosts.tryEnter(mirrors[mirror].host) else { return false }
            extras.append(mirror)
            return true
        }
        extraCount += extras.count
        // A connection that is opened because there is no other one has no entry in `extras`.
        while case .open(let id, let range)? = actions.last {
            actions.removeLast()
            open(id, range, on: extras.popLast(), &group)
        }
        for action in actions { perform(action) }
    }

    func perform(_ action: SegmentPlan.Action) {
        switch action {
        case .open: break
        case .shorten(let id, let end): connections[id]?.transfer?.shorten(to: end)
        case .drop(let id): connections[id]?.transfer?.cancel()
        }
    }

    private mutating func open(
        _ id: Int, _ range: Range<Int64>, on extra: Int?, _ group: inout TaskGroup<Notice>
    ) {
        let isOnly = extra == nil
        let mirror = extra ?? download.mirrors.current
        let host = download.mirrors[mirror].host
        connections[id] = Connection(mirror: mirror, start: range.lowerBound, host: host, isOnly: isOnly)
        let request = PartRequest(range: range, entity: entity, total: total, mirror: mirror, isOnly: isOnly)
        let download = download
        group.addTask {
            if isOnly, await !download.enter(host) { return .waitCancelled(id) }
            do throws(TransferError) {
                return .opened(id, .success(try await request.send(for: download)))
            } catch {
                return .opened(id, .failure(error))
            }
        }
    }

    mutating func receive(
        _ id: Int, _ transfer: Transfer, length: Int64, _ group: inout TaskGroup<Notice>
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
}
