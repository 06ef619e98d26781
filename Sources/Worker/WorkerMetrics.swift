import CoreMetrics
import HaulBus
import HaulContract
import HaulExecutors
import HaulFileStore
import HaulHTTP
import HaulMetrics
import HaulRedis
import HaulStorage
import Synchronization

/// What a worker reports about itself to a scraper and to a health check.
///
/// It asks the parts of the worker only when a scrape or a check comes.
final class WorkerMetrics: Sendable {
    enum Phase { case starting, working, ending }

    private struct State {
        var phase = Phase.starting
        /// When each loop last did the work of the probe.
        var turns: [String: ContinuousClock.Instant] = [:]
        var freeBytes: Int64?
    }

    let name: String
    let slots: Slots
    let queueServers: [QueueServer]
    private let stores: [any DurableStore]
    private let files: FileStore?
    private let registry: MetricsRegistry
    private let engine: TransferEngine
    private let hosts: HostLimits
    private let space: SharedQuery<FileStore.Space?>
    /// Asks the store why it cannot be used; nil if it can.
    let storeFault: SharedQuery<String?>
    private let state = Mutex(State())

    init(
        name: String, registry: MetricsRegistry, slots: Slots, queueServers: [QueueServer], stores: [any DurableStore],
        engine: TransferEngine, hosts: HostLimits
    ) {
        (self.name, self.registry, self.slots, self.queueServers) = (name, registry, slots, queueServers)
        (self.stores, self.engine, self.hosts) = (stores, engine, hosts)
        // The folders of queues are on the disk of the root, and share its blocks.
        let files = stores.first as? FileStore
        self.files = files
        space = SharedQuery { await files?.space() }
        storeFault = SharedQuery { await stores.fault() }
        registry.addCollector { [weak self] in await self?.add(to: &$0) }
    }

    func record(_ phase: Phase) { state.withLock { $0.phase = phase } }

    var phase: Phase { state.withLock { $0.phase } }

    func exposition() async -> Exposition { await registry.exposition() }

    // MARK: Loops

    /// Gives each loop a task once a second and measures how long the task waits, until the probe is cancelled.
    func probe() async {
        let loops: [(name: String, executor: (any TaskExecutor)?)] = [
            ("transfers", engine.executor), ("redis", Redis.executor), ("cooperative", nil),
        ]
        let timers = loops.map { CoreMetrics.Timer(.loopDelay, [("loop", $0.name)], in: registry) }
        while !Task.isCancelled {
            for (loop, timer) in zip(loops, timers) {
                let sent = ContinuousClock.now
                Task(executorPreference: loop.executor) {
                    timer.record(since: sent)
                    self.state.withLock { $0.turns[loop.name] = .now }
                }
            }
            try? await Task.sleep(for: .seconds(1))
        }
    }

    /// Asks for the free space of the store once a second, until the task is cancelled. The heartbeat reports the last
    /// result, because it must not wait for a disk that hangs.
    func watchSpace() async {
        guard files != nil else { return }
        while !Task.isCancelled {
            let free = await space.value()??.free
            state.withLock { $0.freeBytes = free }
            try? await Task.sleep(for: .seconds(1))
        }
    }

    /// Bytes that downloads may use on the disk of the root; nil with a bucket, or if the disk does not report it.
    var freeBytes: Int64? { state.withLock { $0.freeBytes } }

    /// How long ago each probed loop last turned.
    var sinceTurns: [(loop: String, ago: Duration)] {
        state.withLock { $0.turns.map { (loop: $0.key, ago: .now - $0.value) } }.sorted { $0.loop < $1.loop }
    }

    /// Whether an operator has made the worker quiet in all of its queues.
    var isQuiet: Bool { !queueServers.isEmpty && queueServers.allSatisfy(\.claims.isQuiet) }

    // MARK: Metrics that are read at a scrape

    private func add(to exposition: inout Exposition) async {
        exposition.add(.buildInfo, [("version", Version.text)], 1)
        for store in stores { exposition.add(.workerInfo, [("worker", name), ("store", store.id)], 1) }
        exposition.add(.slots, slots.limit.map(Double.init) ?? .infinity)
        exposition.add(.slotsTaken, slots.taken)
        exposition.add(.accepting, phase == .working && !slots.hasShortage && !isQuiet ? 1 : 0)
        exposition.add(.quiet, isQuiet ? 1 : 0)
        // The partitions of a queue count as one.
        let servers = Dictionary(grouping: queueServers) { $0.queue.name.whole }
        for (name, servers) in servers.sorted(by: { $0.value[0].index < $1.value[0].index }) {
            let queue = [(name: "queue", value: "\(name)")]
            let bytes = servers.map(\.table.bytes)
            exposition.add(.receivedBytes, queue, bytes.reduce(0) { $0 + $1.received })
            exposition.add(.sentBytes, queue, bytes.reduce(0) { $0 + $1.sent })
            if let timestamp = servers.compactMap(\.metrics.lastTickReply).min() {
                exposition.add(.lastTick, queue, Double(timestamp) / 1000)
            }
        }
        exposition.add(.transfers, await engine.count)
        addHosts(to: &exposition)
        let clients = queueServers.flatMap { [$0.queue.redis, $0.waiter] }
        exposition.add(.redisRoundTrips, clients.reduce(0) { $0 + $1.traffic.roundTrips })
        exposition.add(.redisConnects, clients.reduce(0) { $0 + $1.traffic.connects })
        if let space = await space.value(), let space {
            exposition.add(.storeFree, space.free)
            exposition.add(.storeSize, space.size)
        }
        if let files { exposition.add(.poolBytes, [("pool", "blocks")], files.blockBytes) }
        exposition.add(.poolBytes, [("pool", "receive")], await engine.receiveBufferBytes)
        ProcessMetrics.add(to: &exposition)
    }

    private func addHosts(to exposition: inout Exposition) {
        let figures = hosts.figures
        exposition.add(.connections, figures.active)
        exposition.add(.connectionsWaiting, figures.waiting)
        exposition.add(.hostBackoffs, figures.backoffs)
        exposition.add(.hostsBackedOff, figures.limits.count)
        // There may be any number of such hosts, so the number of labels is bounded.
        for (host, limit) in figures.limits.sorted(by: { ($0.limit, $0.host) < ($1.limit, $1.host) }).prefix(20) {
            exposition.add(.hostConnectionLimit, [("host", host)], limit)
        }
    }
}
