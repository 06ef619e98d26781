import HaulActivities
import HaulBus
package import HaulContract
import HaulExecutors
import HaulHTTP
import HaulMetrics
import HaulRedis
import HaulStorage
package import Logging
import Synchronization

/// A worker: it claims jobs of its queues for its slots, and returns unfinished jobs to the queue at its shutdown.
///
/// It joins the parts of the worker, each of which has its own file. Its only state of its own is `isDraining`.
package final class Worker: Sendable {
    private let configuration: WorkerConfiguration
    private let log: Logger
    private let slots: Slots
    private let queues: QueueSelector
    /// Each store once.
    private let stores: [any Store]
    /// In the order of the queues.
    private let runners: [JobRunner]
    private let isDraining = Mutex(false)
    private let metrics: WorkerMetrics
    /// nil if the page has metrics of this worker alone.
    private let exporter: QueueExporter?
    private let downloads: Downloads

    /// The most jobs that are claimed at once.
    private static let largestBatch = 16

    /// Opens the store.
    ///
    /// - Throws: `Failure` for the operator, if the store, the authorities, the certificate or the proxy is unusable.
    package init(_ configuration: WorkerConfiguration, log: Logger) throws(Failure) {
        self.configuration = configuration
        var log = log
        log[metadataKey: "worker"] = .string(configuration.name)
        self.log = log
        try Downloads.check(configuration)
        let files = try Stores.open(configuration, log)
        stores = files.map(\.store).reduce(into: []) { stores, store in
            if !stores.contains(where: { $0.id == store.id }) { stores.append(store) }
        }
        let downloads = Downloads(configuration, into: files[0].store)
        self.downloads = downloads
        runners = files.map { files in
            JobRunner(
                activities: downloads.activities(of: configuration.kinds, with: files),
                lease: configuration.policy.lease, store: files.store.id,
                mayOverwrite: !configuration.forbidsOverwrite)
        }
        slots = Slots(limit: configuration.slots)
        let instance = Token.make()
        let registry = MetricsRegistry(Metric.ofWorker)
        let queueServers = configuration.queues.enumerated().map { [log] index, queue in
            let store = files[index].store
            var identity = WorkerIdentity(name: configuration.name, store: store.id, instance: instance)
            if let hostIdentity = HostProcess.hostIdentity, let process = HostProcess.current {
                (identity.hostIdentity, identity.process) = (hostIdentity, "\(instance) \(process.text)")
            }
            return QueueServer(
                index: index, name: queue.name, identity: identity, configuration: configuration,
                store: store, log: log, registry: registry)
        }
        queues = QueueSelector(queueServers, weights: configuration.queues.map(\.weight))
        metrics = WorkerMetrics(
            name: configuration.name, registry: registry, slots: slots, queueServers: queueServers, stores: stores,
            engine: downloads.engine, hosts: downloads.hosts)
        exporter =
            configuration.exportsQueues
            ? QueueExporter(
                configuration.queues.map { queue in
                    Queue(queue.name, redis: Redis(configuration.redis, name: "haul-\(configuration.name)-export"))
                }) : nil
        if let exporter { registry.addCollector { await exporter.add(to: &$0) } }
    }

    /// Applies the settings that may change while the worker runs, and reads the certificates again.
    ///
    /// - Throws: `Failure` for the operator, if the certificates cannot be used. Then nothing has changed.
    /// - Returns: The options that were applied, and those that have changed but need a new process.
    package func take(_ new: WorkerConfiguration) async throws(Failure) -> (taken: [String], left: [String]) {
        let result = try await downloads.take(new)
        slots.setLimit(new.slots)
        return result
    }

    /// The root or bucket, for the log.
    private var root: String { configuration.bucket.map { "\($0)" } ?? configuration.root }

    private var queueServers: [QueueServer] { queues.queueServers }

    /// The answers of this worker over HTTP.
    package var page: WorkerPage { WorkerPage(metrics) }

    /// Works until the task is cancelled. Then puts every running job back with its offsets, within the grace time.
    ///
    /// - Throws: `RedisError` if Redis cannot be reached at the start or refuses the worker for good, or if another
    ///   live worker has this name.
    package func run() async throws {
        let probe = Task { await metrics.probe() }
        defer { probe.cancel() }
        for queueServer in queueServers { try await queueServer.enroll(fields, wasReached: queueServer.index > 0) }
        // Requests that were made while no worker ran come before the jobs that they are for.
        for queueServer in queueServers { await queueServer.tick(fields) }
        await RedisCheck.warn(queueServers[0].queue, log)
        if configuration.certificateAuthorities == nil, !CertificateStore.isInstalled {
            log.warning(
                "this system has no certificate authorities: no https server can be trusted (install ca-certificates)")
        }
        for store in stores { Stores.logNotes(of: store, log) }
        if await stores.trouble() != nil { waitForRoot() }
        log.info(
            "working",
            metadata: [
                "root": "\(root)",
                "slots": configuration.slots.map { .stringConvertible($0) } ?? "unlimited",
                "durability": "\(configuration.durability)",
            ])
        // The ticks go on after the claiming has ended, so that leases hold until the last job is back in the queue.
        let ticks = queueServers.map { queueServer in Task { await queueServer.serve { self.fields } } }
        metrics.record(.working)
        let janitors = stores.map { store in
            Task { [log] in
                let users = queueServers.filter { $0.identity.store == store.id }
                var janitor = Janitor(store: store, queueServers: users, log: log)
                await janitor.run()
            }
        }
        let (claims, feed) = AsyncStream<TakenJob>.makeStream()
        await withDiscardingTaskGroup { group in
            for queueServer in queueServers {
                group.addTask(executorPreference: Redis.executor) { await self.takeJobs(queueServer, feed) }
            }
            group.addTask {
                // Cancelling ends the sleep, so its length does not matter.
                while !Task.isCancelled { try? await Task.sleep(for: .seconds(86_400)) }
                await self.shutDown(feed)
            }
            for await taken in claims {
                group.addTask(executorPreference: Redis.executor) { await self.work(taken) }
            }
        }
        for janitor in janitors { janitor.cancel() }
        for task in ticks { task.cancel() }
        for task in ticks { await task.value }
        for queueServer in queueServers { await queueServer.close() }
        await exporter?.close()
        let unsettled = queueServers.reduce(0) { $0 + $1.unsettled }
        if unsettled == 0 {
            log.info("ended: all jobs are settled or back in the queue")
        } else {
            log.warning(
                "ended: unsettled jobs run again when their leases end",
                metadata: ["jobs": .stringConvertible(unsettled)])
        }
    }

    // MARK: Claiming

    private func takeJobs(
        _ queueServer: QueueServer, _ feed: AsyncStream<TakenJob>.Continuation
    ) async {
        // The batch doubles while the queue is long. It begins with one, so that workers share a few elements.
        var batch = 1
        while !Task.isCancelled {
            await slots.waitUntilFree()
            if Task.isCancelled { return }
            let sent = ContinuousClock.now
            let most = min(batch, slots.free)
            let claims = await queueServer.wait(most: max(1, most))
            batch = claims.count < most ? 1 : min(2 * batch, Self.largestBatch)
            queues.record(queueServer, wasEmpty: claims.isEmpty)
            var left = claims[...]
            while let claim = left.first, !isDraining.withLock({ $0 }), slots.take() {
                // The stream is terminated by the worker's shutdown: no slot would take the job any more.
                if case .terminated = feed.yield(TakenJob(queueServer: queueServer, claim: claim, sent: sent)) {
                    slots.release()
                    break
                }
                left.removeFirst()
            }
            // Another queue has taken the slots, or the worker shuts down. The jobs go back to the front in their
            // order, and no attempt is counted.
            for claim in left.reversed() {
                _ = await queueServer.settle(RunEnd(claim.run, .released(why: "no slot")), wantsNext: false)
            }
        }
    }

    /// Runs jobs in one slot until there are none.
    private func work(_ first: TakenJob) async {
        var current: TakenJob? = first
        await withDiscardingTaskGroup { unlinks in
            while let taken = current {
                // The call that claimed the job may have waited for it.
                let begun = ContinuousClock.now
                let end = await runners[taken.queueServer.index].run(
                    taken.claim, for: taken.queueServer, sent: taken.sent)
                current = await finish(taken, end, since: begun, &unlinks)
            }
            slots.release()
        }
    }

    /// Settles a run that has ended, and removes what is left of it. Returns the slot's next job.
    private func finish(
        _ taken: TakenJob, _ end: JobRunner.End, since begun: ContinuousClock.Instant,
        _ unlinks: inout DiscardingTaskGroup
    ) async -> TakenJob? {
        let (queueServer, claim) = (taken.queueServer, taken.claim)
        if end.isParked { waitForRoot() }
        let drawn = queues.draw()
        let goesOn = !isDraining.withLock { $0 } && !slots.isShut
        guard let runEnd = end.runEnd else {
            queueServer.forget(claim.run)
            queueServer.queueLog.ended(claim, end, as: .fenced, after: .now - begun)
            if let activity = end.activity {
                unlinks.addTask { await queueServer.leftovers.cleanUp(claim.run, activity, after: nil) }
            }
            return goesOn ? await queues.claimNext(drawn) : nil
        }
        let sent = ContinuousClock.now
        // If this queue is the first to be asked, the next job comes with the settle.
        let reply = await queueServer.settle(runEnd, wantsNext: goesOn && queues.asksFirst(queueServer, in: drawn))
        let result: RunResult =
            reply.isOurs ? .settled(runEnd.settlement) : queueServer.isOutOfTime ? .unsettled : .fenced
        if case .fenced = result { queueServer.queueLog.fenced(claim, end.job) }
        queueServer.queueLog.ended(claim, end, as: result, after: .now - begun)
        if let activity = end.activity {
            let isSoon = reply.next != nil && reply.isOurs && runEnd.settlement.isCompleted
            let cleanUp = { @Sendable in
                await queueServer.leftovers.cleanUp(
                    claim.run, activity, after: reply.isOurs ? runEnd.settlement : nil, isSoon: isSoon)
            }
            // With `isSoon` the clean-up only schedules the removal, so waiting for it costs little.
            if isSoon { await cleanUp() } else { unlinks.addTask(operation: cleanUp) }
        }
        if let next = reply.next {
            queues.record(queueServer, wasEmpty: false)
            return TakenJob(queueServer: queueServer, claim: next, sent: sent)
        }
        if reply.isEmpty { queues.record(queueServer, wasEmpty: true) }
        return goesOn ? await queues.claimNext(drawn) : nil
    }

    /// A job that the disk has no space for is tried again after 5 s. If none comes back in this time, all have it.
    private static let shortage = Duration.seconds(12)

    /// The disk is full, or the root cannot be written. No job is to blame, so no more are claimed until that has
    /// ended.
    ///
    /// If only one file is too large, the root can be written all the time. Then the worker takes other jobs between
    /// the attempts of that one. Until they have ended, it reports that it is short, but not again for each attempt.
    private func waitForRoot() {
        guard let isNew = slots.shut() else { return }
        Task {
            let trouble = await stores.trouble()
            if isNew {
                let why = trouble ?? "no space for this file"
                log.warning("no more jobs are claimed for now", metadata: ["why": "\(why)", "root": "\(root)"])
            }
            repeat {
                try? await Task.sleep(for: .seconds(2))
            } while await stores.trouble() != nil && !isDraining.withLock { $0 }
            let number = slots.open()
            if trouble == nil { try? await Task.sleep(for: Self.shortage) }
            guard slots.endShortage(number) else { return }
            log.info("the root can be written: claims jobs again")
        }
    }

    // MARK: Shutdown

    private func shutDown(_ feed: AsyncStream<TakenJob>.Continuation) async {
        isDraining.withLock { $0 = true }
        metrics.record(.ending)
        log.info("ending: returning the running jobs to the queue")
        let deadline = ContinuousClock.now + configuration.graceTime
        for queueServer in queueServers {
            queueServer.stopForShutdown(sparing: true)
            await queueServer.end(by: deadline)
        }
        // A claim whose reply is still on its way is released by `takeJobs`, or its run is stopped here.
        while slots.taken > 0, ContinuousClock.now < deadline {
            // In the last second all runs are stopped, so that there is time to settle them.
            let spares = ContinuousClock.now + .seconds(1) < deadline
            for queueServer in queueServers { queueServer.stopForShutdown(sparing: spares) }
            await Task { try? await Task.sleep(for: .milliseconds(20)) }.value
        }
        feed.finish()
    }

    /// The worker's fields in the hash `worker:<name>`.
    private var fields: [(String, String)] {
        [
            ("host", Host.name), ("pid", String(Host.processID)), ("version", Version.text),
            ("slots", slots.limit.map(String.init) ?? "unlimited"), ("running", String(slots.taken)),
            ("lease", String(configuration.policy.lease.milliseconds)), ("kinds", runners[0].activities.kinds),
        ]
    }
}
