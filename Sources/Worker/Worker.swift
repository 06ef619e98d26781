import HaulActivities
import HaulBus
package import HaulContract
import HaulExecutors
import HaulFileStore
import HaulHTTP
import HaulRedis
import HaulStorage
package import Logging
import Synchronization

/// A worker: takes jobs from its queues into its slots, and hands back what it holds when it is told to end.
package final class Worker: Sendable {
    private let configuration: WorkerConfiguration
    private let log: Logger
    private let slots: Slots
    private let attendants: [QueueAttendant]
    private let order: Mutex<QueueOrder>
    private let store: FileStore
    private let runner: JobRunner
    private let bytes: Mutex<Int64>
    private let isDraining = Mutex(false)

    /// So many jobs are claimed at once.
    private static let largestAppetite = 16

    /// Opens the root. Throws `Failure` with a sentence about what is wrong with it, with the operator's authorities or proxy.
    package init(_ configuration: WorkerConfiguration, log: Logger) throws(Failure) {
        self.configuration = configuration
        self.log = log
        if let file = configuration.certificateAuthorities { try CertificateStore.check(file) }
        try configuration.clientCertificate?.check()
        if let proxy = configuration.proxy { try TransferEngine.check(proxy: proxy) }
        var options = FileStore.Options()
        options.keptFree = configuration.keptFree
        options.durability = configuration.durability
        options.attributes.mode = configuration.fileMode
        options.attributes.keepsRemoteTime = configuration.keepsRemoteTime
        store = try FileStore(root: configuration.root, options: options)
        var engine = TransferEngine.Configuration()
        engine.policy = configuration.addressPolicy
        engine.proxy = configuration.proxy
        engine.userAgent = "Haul/\(Version.text)"
        engine.certificateAuthorities = configuration.certificateAuthorities
        engine.clientCertificate = configuration.clientCertificate
        var context = DownloadContext(
            store: store, engine: TransferEngine(configuration: engine),
            hosts: HostLimits(most: configuration.connectionsPerHost), connections: configuration.connections,
            connectTimeout: configuration.connectTimeout, stallTimeout: configuration.stallTimeout)
        context.limit = configuration.limitRate.map { TokenBucket(bytesPerSecond: $0) }
        context.maximumSize = configuration.maximumSize
        runner = JobRunner(
            activities: Activities([.download: { [context] in Download($0, context: context) }]),
            lease: configuration.policy.lease, log: log)
        slots = Slots(limit: configuration.slots)
        var identity = WorkerIdentity(name: configuration.name, store: store.id)
        if let place = HostProcess.place, let process = HostProcess.current {
            (identity.place, identity.process) = (place, "\(identity.instance) \(process.text)")
        }
        attendants = configuration.queues.enumerated().map { [store, identity] index, queue in
            QueueAttendant(
                index: index, name: queue.name, identity: identity, configuration: configuration,
                store: store, log: log)
        }
        order = Mutex(QueueOrder(weights: configuration.queues.map(\.weight)))
        bytes = Mutex(0)
    }

    /// Works until the task is cancelled, then puts every running job back with its offsets, within the grace time.
    /// Throws if Redis cannot be reached at the start or refuses us for good, or if another live worker has this name.
    package func run() async throws {
        for attendant in attendants { try await attendant.enroll(fields, wasReached: attendant.index > 0) }
        // Requests that were made while no worker was there come before the jobs that they are for.
        for attendant in attendants { await attendant.tick(fields) }
        await RedisCheck.warn(attendants[0].queue.redis, log)
        if configuration.certificateAuthorities == nil, !CertificateStore.isInstalled {
            log.warning(
                "this system has no certificate authorities: no https server can be trusted (install ca-certificates)")
        }
        RootCheck.tell(of: store, log)
        if await trouble() != nil { waitForRoot() }
        log.info(
            "working",
            metadata: [
                "name": "\(configuration.name)", "root": "\(store.root)",
                "slots": "\(configuration.slots.map(String.init) ?? "unlimited")",
                "durability": "\(configuration.durability)",
            ])
        // The ticks outlive the claiming: leases are kept until the last job is back in line.
        let ticks = attendants.map { attendant in Task { await attendant.tend { self.fields } } }
        let janitor = Task {
            var janitor = Janitor(store: store, attendants: attendants, log: log)
            await janitor.run()
        }
        let (claims, feed) = AsyncStream<(QueueAttendant, Claim, ContinuousClock.Instant)>.makeStream()
        await withDiscardingTaskGroup { group in
            for attendant in attendants {
                group.addTask(executorPreference: Redis.executor) { await self.takeJobs(attendant, feed) }
            }
            group.addTask {
                // Cancelling ends the sleep; the long day is only a bound.
                while !Task.isCancelled { try? await Task.sleep(for: .seconds(86_400)) }
                await self.shutDown(feed)
            }
            for await (attendant, claim, sent) in claims {
                group.addTask(executorPreference: Redis.executor) { await self.work(claim, attendant, sent) }
            }
        }
        janitor.cancel()
        for task in ticks { task.cancel() }
        for task in ticks { await task.value }
        for attendant in attendants { await attendant.close() }
        let unsettled = attendants.reduce(0) { $0 + $1.unsettled }
        if unsettled == 0 {
            log.info("ended: everything is back in line")
        } else {
            log.warning(
                "ended: what is not settled runs again when its lease is over", metadata: ["jobs": "\(unsettled)"])
        }
    }

    // MARK: Claiming

    private func takeJobs(
        _ attendant: QueueAttendant, _ feed: AsyncStream<(QueueAttendant, Claim, ContinuousClock.Instant)>.Continuation
    ) async {
        // A line that has more is taken ever faster, but one by one where workers share a few.
        var appetite = 1
        while !Task.isCancelled {
            await slots.waitUntilFree()
            if Task.isCancelled { return }
            let sent = ContinuousClock.now
            let most = min(appetite, slots.free)
            let claims = await attendant.wait(most: max(1, most))
            appetite = claims.count < most ? 1 : min(2 * appetite, Self.largestAppetite)
            order.withLock { $0.note(attendant.index, wasEmpty: claims.isEmpty) }
            var left = claims[...]
            while let claim = left.first, !isDraining.withLock({ $0 }), slots.take() {
                // Nobody takes it any more from the moment at which the worker is told to end.
                if case .terminated = feed.yield((attendant, claim, sent)) {
                    slots.release()
                    break
                }
                left.removeFirst()
            }
            // Another queue was quicker, or the worker is told to end: back to the front, uncounted, and in their order.
            for claim in left.reversed() {
                _ = await attendant.settle(
                    claim.run, as: .released(why: "no slot"), report: RunReport(), wantsNext: false)
            }
        }
    }

    /// One slot: jobs until there is none.
    private func work(_ first: Claim, _ home: QueueAttendant, _ sent: ContinuousClock.Instant) async {
        var current: (attendant: QueueAttendant, claim: Claim, sent: ContinuousClock.Instant)? = (home, first, sent)
        await withDiscardingTaskGroup { unlinks in
            while let (attendant, claim, sent) = current {
                let end = await runner.run(claim, for: attendant, sent: sent)
                current = await settle(end, of: claim, attendant, &unlinks)
            }
            slots.release()
        }
    }

    private func settle(
        _ end: JobRunner.End, of claim: Claim, _ attendant: QueueAttendant, _ unlinks: inout DiscardingTaskGroup
    ) async -> (attendant: QueueAttendant, claim: Claim, sent: ContinuousClock.Instant)? {
        if end.isParked { waitForRoot() }
        var generator = SystemRandomNumberGenerator()
        let drawn = order.withLock { $0.draw(using: &generator) }
        let goesOn = !isDraining.withLock { $0 } && !slots.isShut
        guard let settlement = end.settlement else {
            attendant.forget(claim.run)
            if let activity = end.activity {
                unlinks.addTask { await attendant.leftovers.tidy(claim.run, activity, after: nil) }
            }
            return goesOn ? await claimNext(drawn) : nil
        }
        let sent = ContinuousClock.now
        // The next job comes with the same command, if this queue is the one to be asked first.
        let isFirst = order.withLock { $0.candidates(in: drawn) }.first == attendant.index || attendants.count == 1
        let reply = await attendant.settle(
            claim.run, as: settlement, report: end.report, isFirst: end.isFirst, wantsNext: goesOn && isFirst)
        if !reply.isOurs, !attendant.isOutOfTime {
            log.warning("fenced while settling: another worker has the job", metadata: ["id": "\(claim.run.id)"])
        }
        if let activity = end.activity {
            let isSoon = reply.next != nil && reply.isOurs && settlement.isCompleted
            let tidy = { @Sendable in
                await attendant.leftovers.tidy(
                    claim.run, activity, after: reply.isOurs ? settlement : nil, isSoon: isSoon)
            }
            // What is left for the next job's way to the disk waits for nothing.
            if isSoon { await tidy() } else { unlinks.addTask(operation: tidy) }
        }
        if let next = reply.next {
            order.withLock { $0.note(attendant.index, wasEmpty: false) }
            return (attendant, next, sent)
        }
        if reply.isEmpty { order.withLock { $0.note(attendant.index, wasEmpty: true) } }
        return goesOn ? await claimNext(drawn) : nil
    }

    /// The next job of any queue, in the order drawn; queues that were empty a moment ago are not asked.
    private func claimNext(_ drawn: [Int]) async -> (
        attendant: QueueAttendant, claim: Claim, sent: ContinuousClock.Instant
    )? {
        for index in order.withLock({ $0.candidates(in: drawn) }) {
            let sent = ContinuousClock.now
            let (claim, isEmpty) = await attendants[index].claimNow()
            order.withLock { $0.note(index, wasEmpty: isEmpty) }
            if let claim { return (attendants[index], claim, sent) }
        }
        return nil
    }

    /// That the disk is full, or the root cannot be written, is no failure of any job: no more of them until it is over.
    private func waitForRoot() {
        guard !slots.isShut else { return }
        slots.setShut(true)
        Task {
            let why = await trouble() ?? "no room for this file"
            log.warning("no more jobs are taken for now", metadata: ["why": "\(why)", "root": "\(store.root)"])
            repeat {
                try? await Task.sleep(for: .seconds(2))
            } while await trouble() != nil && !isDraining.withLock { $0 }
            slots.setShut(false)
            log.info("the root can be written: taking jobs")
        }
    }

    private func trouble() async -> String? {
        await store.trouble()
    }

    // MARK: The end

    private func shutDown(_ feed: AsyncStream<(QueueAttendant, Claim, ContinuousClock.Instant)>.Continuation) async {
        isDraining.withLock { $0 = true }
        log.info("ending: putting running jobs back in line")
        let deadline = ContinuousClock.now + configuration.graceTime
        for attendant in attendants {
            for running in attendant.running { running.stop(.shutdown) }
            await attendant.end(by: deadline)
        }
        // A claim whose reply is on its way is released by its taker or stopped here.
        while slots.taken > 0, ContinuousClock.now < deadline {
            for attendant in attendants {
                for running in attendant.running { running.stop(.shutdown) }
            }
            await Task { try? await Task.sleep(for: .milliseconds(20)) }.value
        }
        feed.finish()
    }

    /// What `worker:<name>` tells of this worker.
    private var fields: [(String, String)] {
        [
            ("host", Host.name), ("pid", String(Host.processID)), ("version", Version.text),
            ("slots", configuration.slots.map(String.init) ?? "unlimited"), ("running", String(slots.taken)),
        ]
    }
}
