package import HaulActivities
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
/// It joins the parts of the worker, each of which has its own file, and has no state of its own.
package final class Worker: Sendable {
    private let configuration: WorkerConfiguration
    private let log: Logger
    private let slots: Slots
    private let queues: QueueSelector
    /// The stores of all queues, each of them once.
    private let stores: [any DurableStore]
    /// In the order of the queues.
    private let runners: [JobRunner]
    private let grace: Grace
    private let metrics: WorkerMetrics
    /// nil if the page has metrics of this worker alone.
    private let exporter: QueueExporter?
    private let downloads: Downloads

    /// The maximum number of jobs that are claimed at once.
    private static let maxBatch = 16

    /// Opens the store.
    ///
    /// - Parameter kinds: Runs other activities for these kinds.
    /// - Throws: `Failure` for the operator, if the store, the authorities, the certificate or the proxy is unusable.
    package init(
        _ configuration: WorkerConfiguration, kinds: [Job.Kind: Activities.Maker] = [:], log: Logger
    ) throws(Failure) {
        self.configuration = configuration
        var log = log
        log[metadataKey: "worker"] = .string(configuration.name)
        self.log = log
        try Downloads.check(configuration)
        let files = try Stores.open(configuration, log)
        stores = files.map(\.store).reduce(into: []) { stores, store in
            if !stores.contains(where: { $0.id == store.id }) { stores.append(store) }
        }
        let downloads = Downloads(
            configuration, into: files[0].store, from: Stores.buckets(configuration, log))
        self.downloads = downloads
        slots = Slots(limit: configuration.slots)
        grace = Grace(configuration.graceTime)
        let instance = Token.make()
        let registry = MetricsRegistry(Metric.workerMetrics)
        let queueServers = configuration.queues.flatMap(\.parts).enumerated().map { [log, grace] index, queue in
            let store = files[index].store
            var identity = WorkerIdentity(name: configuration.name, store: store.id, instance: instance)
            if let hostIdentity = HostProcess.hostIdentity, let process = HostProcess.current {
                (identity.hostIdentity, identity.process) = (hostIdentity, "\(instance) \(process.text)")
            }
            return QueueServer(
                index: index, name: queue.name, identity: identity, configuration: configuration,
                grace: grace, store: store, log: log, registry: registry)
        }
        runners = zip(queueServers, files).map { queueServer, files in
            JobRunner(
                queueServer: queueServer, activities: downloads.activities(of: configuration.kinds, with: files, kinds),
                lease: configuration.policy.lease, store: files.store.id,
                mayOverwrite: !configuration.forbidsOverwrite)
        }
        queues = QueueSelector(queueServers, of: configuration.queues)
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
    package func apply(_ new: WorkerConfiguration) async throws(Failure) -> (applied: [String], ignored: [String]) {
        let result = try await downloads.apply(new)
        slots.setLimit(new.slots)
        return result
    }

    /// The root or bucket, for the log.
    private var root: String { configuration.bucket.map { "\($0)" } ?? configuration.root }

    private var queueServers: [QueueServer] { queues.queueServers }

    /// The responses of this worker over HTTP.
    package var page: WorkerPage { WorkerPage(metrics) }

    /// Works until the task is cancelled. Then puts every running job back with its offsets, within the grace time.
    ///
    /// - Throws: `RedisError` if Redis cannot be reached at the start or refuses the worker for good, or if another
    ///   live worker has this name.
    package func run() async throws {
        let probes = [
            Task { await metrics.probe() }, Task { await metrics.watchSpace() },
            Task { await downloads.checkSources() },
        ]
        defer { for probe in probes { probe.cancel() } }
        for queueServer in queueServers {
            try await queueServer.claims.enroll(fields, wasReached: queueServer.index > 0)
        }
        // Control operations that were written while no worker ran are applied before the jobs that they are for start.
        for queueServer in queueServers { await queueServer.tick(fields) }
        await RedisCheck.warn(queueServers[0].queue, log)
        if configuration.certificateAuthorities == nil, !CertificateStore.isInstalled {
            log.warning(
                "this system has no certificate authorities: no https server can be trusted (install ca-certificates)")
        }
        for store in stores { Stores.logNotes(of: store, log) }
        if await stores.fault() != nil { waitForRoot() }
        log.info(
            "working",
            metadata: [
                "root": "\(root)",
                "slots": configuration.slots.map { .stringConvertible($0) } ?? "unlimited",
                "durability": "\(configuration.durability)",
                "gate": configuration.gate == nil ? "off" : "on",
            ])
        // The ticks go on after the claiming has ended, so that leases hold until the last job is back in the queue.
        let ticks = queueServers.map { queueServer in Task { await queueServer.serve { self.fields } } }
        metrics.record(.working)
        let janitors = stores.map { store in
            Task { [log] in
                let users = queueServers.filter { $0.claims.identity.store == store.id }
                var janitor = Janitor(store: store, queueServers: users, log: log)
                await janitor.run()
            }
        }
        await withDiscardingTaskGroup { group in
            for queueServer in queueServers {
                group.addTask(executorPreference: Redis.executor) { await self.takeJobs(queueServer) }
            }
            group.addTask {
                // Cancelling ends the sleep, so its length does not matter.
                while !Task.isCancelled { try? await Task.sleep(for: .seconds(86_400)) }
                await self.shutDown()
            }
        }
        for janitor in janitors { janitor.cancel() }
        for task in ticks { task.cancel() }
        for task in ticks { await task.value }
        for queueServer in queueServers { await queueServer.close() }
        await exporter?.close()
        let unsettled = queueServers.reduce(0) { $0 + $1.table.unsettled }
        if unsettled == 0 {
            log.info("ended: all jobs are settled or back in the queue")
        } else {
            log.warning(
                "ended: unsettled jobs run again when their leases end",
                metadata: ["jobs": .stringConvertible(unsettled)])
        }
    }

    // MARK: Claiming

    /// Claims jobs for free slots until the task is cancelled, and returns when the last of them has ended.
    private func takeJobs(_ queueServer: QueueServer) async {
        await withDiscardingTaskGroup { group in
            // The batch doubles while the queue is long. It begins with one, so that workers share a few elements.
            var batch = 1
            while !Task.isCancelled {
                await slots.waitUntilFree()
                if Task.isCancelled { return }
                let sent = ContinuousClock.now
                let count = min(batch, slots.free)
                let claims = await queueServer.claims.wait(maxCount: max(1, count))
                batch = claims.count < count ? 1 : min(2 * batch, Self.maxBatch)
                queues.record(queueServer, wasEmpty: claims.isEmpty)
                var left = claims[...]
                while let claim = left.first, slots.take() {
                    let taken = TakenJob(queueServer: queueServer, claim: claim, sent: sent)
                    group.addTask(executorPreference: Redis.executor) { await self.work(taken) }
                    left.removeFirst()
                }
                // Another queue has taken the slots, or the worker shuts down. The jobs go back to the front in their
                // order, and no attempt is counted.
                for claim in left.reversed() {
                    _ = await queueServer.settle(RunEnd(claim.run, .released(why: "no slot")), wantsNext: false)
                }
            }
        }
    }

    /// Runs jobs in one slot until there are none.
    private func work(_ first: TakenJob) async {
        var current: TakenJob? = first
        await withDiscardingTaskGroup { cleanUps in
            var goesOn = true
            while let taken = current {
                let (queueServer, runner) = (taken.queueServer, runners[taken.queueServer.index])
                let end = await runner.run(taken.claim, sent: taken.sent)
                if end.isParked { waitForRoot() }
                let drawn = queues.draw(after: queueServer)
                goesOn = slots.mayGoOn()
                let sent = ContinuousClock.now
                // If this queue is the first to be asked, the next job comes with the settle.
                let reply = await runner.settle(
                    end, wantsNext: goesOn && queues.asksFirst(queueServer, in: drawn), &cleanUps)
                if reply.next != nil || reply.isEmpty { queues.record(queueServer, wasEmpty: reply.isEmpty) }
                if let next = reply.next {
                    current = TakenJob(queueServer: queueServer, claim: next, sent: sent)
                } else {
                    current = goesOn ? await queues.claimNext(drawn) : nil
                }
            }
            slots.release(isEnding: !goesOn)
        }
    }

    /// A job that the disk has no space for is tried again after 5 s. If none comes back in this time, all have it.
    private static let shortage = Duration.seconds(12)

    /// The disk is full, or the root cannot be written. No job is to blame, so no more are claimed until that has
    /// ended.
    ///
    /// If only one file is too large, the root can be written all the time. Then the worker takes other jobs between
    /// the attempts of that one. Until they have ended, it reports the shortage, but not again for each attempt.
    private func waitForRoot() {
        guard let isNew = slots.suspend() else { return }
        Task {
            let fault = await stores.fault()
            if isNew {
                let why = fault ?? "no space for this file"
                log.warning("no more jobs are claimed for now", metadata: ["why": "\(why)", "root": "\(root)"])
            }
            repeat {
                try? await Task.sleep(for: .seconds(2))
            } while await stores.fault() != nil && !slots.isClosed
            let number = slots.resume()
            if fault == nil { try? await Task.sleep(for: Self.shortage) }
            guard slots.endShortage(number) else { return }
            log.info("the root can be written: claims jobs again")
        }
    }

    // MARK: Shutdown

    private func shutDown() async {
        slots.close()
        metrics.record(.ending)
        log.info("ending: returning the running jobs to the queue")
        let deadline = grace.begin()
        for queueServer in queueServers {
            queueServer.table.stopForShutdown(sparing: true)
            await queueServer.end(by: deadline)
        }
        // A claim whose reply is still on its way is released by `takeJobs`, or its run is stopped here.
        while slots.taken > 0, ContinuousClock.now < deadline {
            // In the last second all runs are stopped, so that there is time to settle them.
            let spares = ContinuousClock.now + .seconds(1) < deadline
            for queueServer in queueServers { queueServer.table.stopForShutdown(sparing: spares) }
            await Task { try? await Task.sleep(for: .milliseconds(20)) }.value
        }
    }

    /// The worker's fields in the hash `worker:<name>`.
    private var fields: [(String, String)] {
        [
            ("host", Host.name), ("pid", String(Host.processID)), ("version", Version.text),
            ("slots", slots.limit.map(String.init) ?? "unlimited"), ("running", String(slots.taken)),
            ("lease", String(configuration.policy.lease.milliseconds)), ("kinds", runners[0].activities.kinds),
        ] + (metrics.freeBytes.map { [("free", String($0))] } ?? [])
    }
}
