import CHaulCurl
import HaulContract
import HaulExecutors

/// libcurl on one thread of its own, for all transfers of a process.
///
/// It follows no redirects, judges no response, decodes no content, and takes nothing from the environment. Everything of
/// libcurl's happens on the loop that is this actor's executor: its callbacks are on the actor already.
package actor TransferEngine {
    /// What is the same for all transfers of a process.
    package struct Configuration: Sendable {
        package var policy = AddressPolicy.restricted()
        /// The operator's proxy: `http://`, `https://`, `socks5://` or `socks5h://`.
        package var proxy: String?
        /// In place of it the environment's, for a program that acts for the person who started it. A worker has none.
        package var proxyEnvironment: ProxyEnvironment?
        /// A PEM file of certificate authorities that are trusted besides the system's.
        package var certificateAuthorities: String?
        package var clientCertificate: ClientCertificate?
        /// Who we say we are, to servers and proxies, where a request does not say it itself: some servers refuse nobody else
        /// but those who do not say it.
        package var userAgent: String?
        /// Connections kept open for later requests.
        package var idleConnections = 64
        /// How long bytes of a slow body may wait in its socket for more.
        package var patience = Duration.seconds(1)
        /// Of names, in place of the resolver's: `host:port:address,address`.
        var addresses: [String] = []
        package init() {}

        /// As it is for requests to this URL.
        func reaching(_ url: String) -> Configuration {
            guard let proxyEnvironment, proxy == nil else { return self }
            var result = self
            result.proxy = WebURL(url).flatMap(proxyEnvironment.proxy)
            return result
        }
    }

    private static let spareHandles = 64

    nonisolated let loop: EventLoop
    package nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }
    /// The thread of all transfers, for tasks that mostly follow them: they need no other to do so. They must not block.
    package nonisolated var executor: any TaskExecutor { loop }
    var configuration: Configuration
    let multi: CurlMulti
    let resolver = BlockingPool(name: "resolver", limit: 8)
    let limited = LimitedTasks()
    private let slow = SlowTasks()
    private var hostAddresses = HostAddresses()
    /// Keyed by a counter: an object's address may be used again while a message about the old one is under way.
    private(set) var tasks: [UInt64: TransferTask] = [:]
    private var lastID: UInt64 = 0
    /// The receive buffers of all transfers together.
    private var bufferBytes = 0
    private var spare: [EasyHandle] = []
    var tick: EventLoop.Timer?
    var limitTick: EventLoop.Timer?
    var wakingTick: EventLoop.Timer?
    private var http2 = HTTP2Origins()

    package init(configuration: Configuration) {
        self.configuration = configuration
        curl_global_init(Int(CURL_GLOBAL_DEFAULT))
        loop = EventLoop(name: "transfers")
        multi = CurlMulti(loop: loop, idleConnections: configuration.idleConnections)
    }

    isolated deinit {
        if let tick { loop.cancel(tick) }
        if let limitTick { loop.cancel(limitTick) }
        if let wakingTick { loop.cancel(wakingTick) }
        multi.stop()
        loop.stop()
    }

    /// The monotonic nanoseconds at which the loop last turned; for health checks.
    package nonisolated var lastTurn: UInt64 { loop.lastTurn }

    /// The number of transfers that have not ended.
    package var count: Int { tasks.count }

    /// How often any of its sockets was found ready.
    package var turns: Int { multi.turns }

    /// Sends the request. Returns when the head of the final response is complete, with the body paused at its first byte.
    package func start(_ request: Request) async throws(TransferError) -> Transfer {
        let pinned = try await resolveForProxy(request)
        let offersHTTP2 = http2.contains(request.url)
        var (task, result) = try await send(request, pinnedTo: pinned, offeringHTTP2: offersHTTP2)
        if task.metStrayInput, !Task.isCancelled {
            (task, result) = try await send(
                request, pinnedTo: pinned, offeringHTTP2: offersHTTP2, onNewConnection: true)
        }
        if case .failure(let error) = result, task.result == CURLE_COULDNT_RESOLVE_HOST {
            throw await explainUnresolved(request, error)
        }
        guard task.needsHTTP2, !Task.isCancelled else { return try transfer(task, result) }
        let (second, answer) = try await send(request, pinnedTo: pinned, offeringHTTP2: true)
        // If that was not what was missing, the first failure says more.
        guard case .success(let head) = answer else { return try transfer(task, result) }
        if head.isHTTP2 { http2.insert(request.url) }
        return try transfer(second, answer)
    }

    private func transfer(
        _ task: TransferTask, _ result: Result<ResponseHead, TransferError>
    ) throws(TransferError) -> Transfer {
        Transfer(id: task.id, head: try result.get(), progress: task.progress, engine: self)
    }

    private func send(
        _ request: Request, pinnedTo address: IPAddress?, offeringHTTP2: Bool, onNewConnection: Bool = false
    ) async throws(TransferError) -> (TransferTask, Result<ResponseHead, TransferError>) {
        let task = try open(request, pinnedTo: address, offeringHTTP2: offeringHTTP2)
        if onNewConnection { task.easy.demandNewConnection() }
        let id = task.id
        let result = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                task.headWaiter = continuation
                begin(task)
            }
        } onCancel: {
            Task { await self.cancel(id) }
        }
        return (task, result)
    }

    func receive(
        _ id: UInt64, into destination: any BodyDestination, at offset: Int64, length: Int64?
    ) async -> (any BodySink, Result<TransferEnd, TransferError>) {
        // What was collected of the body is there already.
        let sink = destination.sink(at: offset + (tasks[id]?.taken ?? 0)) { [weak self] in
            await self?.sinkHasRoom(id) ?? false
        }
        if tasks[id]?.head?.length == .invalid, length == nil {
            cancel(id)
            let why = "the server's fields about the body's length contradict each other, or say what was not asked for"
            return (sink, .failure(TransferError(.badResponse, why)))
        }
        return (sink, await body(of: id, to: .stream(sink, offset: offset), demanding: length))
    }

    func collect(_ id: UInt64, limit: Int) async throws(TransferError) -> [UInt8] {
        let task = tasks[id]
        _ = try await body(of: id, to: .memory(limit: limit), demanding: nil).get()
        return task?.collected ?? []
    }

    func endCollecting(_ id: UInt64) { tasks[id]?.endCollecting() }

    func discard(_ id: UInt64, limit: Int) async {
        if case .bytes(let length) = tasks[id]?.head?.length, length > limit { return cancel(id) }
        _ = await body(of: id, to: .nowhere(left: limit), demanding: nil)
    }

    func cancel(_ id: UInt64) {
        guard let task = tasks[id], !task.isDetached else { return }
        abort(task, .cancelled)
    }

    /// The transfer is wanted for fewer bytes than it was, which may be waiting already.
    func shortened(_ id: UInt64) { tasks[id]?.mark.set(1) }

    func currentHostAddresses() -> Set<IPAddress> { hostAddresses.current() }

    // MARK: One task

    private func open(
        _ request: Request, pinnedTo address: IPAddress?, offeringHTTP2: Bool
    ) throws(TransferError) -> TransferTask {
        guard let easy = spare.popLast() ?? EasyHandle() else { throw EasyHandle.outOfMemory }
        let rate = request.limits.map(\.bytesPerSecond).min()
        let size = Self.bufferSize(used: bufferBytes, rate: rate)
        let configuration = configuration.reaching(request.url)
        try easy.configure(request, configuration, bufferSize: size, offeringHTTP2: offeringHTTP2)
        if let address { try easy.pin(to: address) }
        lastID += 1
        let task = TransferTask(
            id: lastID, request: request, offersHTTP2: offeringHTTP2, configuration: configuration, easy: easy,
            limited: limited, slow: slow, connections: multi.connections)
        task.hostAddresses = hostAddresses.current()
        task.bufferSize = size
        bufferBytes += size
        return task
    }

    private func begin(_ task: TransferTask) {
        // Weak, here and below: the loop may turn between the engine's last release and its deinit, which runs on it.
        multi.afterTurn = { [weak self] in self?.assumeIsolated { $0.afterTurn() } }
        tasks[task.id] = task
        if Task.isCancelled { return abort(task, .cancelled) }
        let code = multi.add(task.easy)
        guard code == CURLM_OK else {
            return abort(task, TransferError(.localLimit, String(cString: curl_multi_strerror(code))))
        }
        scheduleTick()
        scheduleWaking()
    }

    private func body(
        of id: UInt64, to sink: TransferTask.Sink, demanding length: Int64?
    ) async -> Result<TransferEnd, TransferError> {
        guard let task = tasks[id] else { return .failure(.cancelled) }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                // It may have been cancelled just before.
                guard tasks[id] != nil else { return continuation.resume(returning: .failure(.cancelled)) }
                task.bodyWaiter = continuation
                task.direct(to: sink, demanding: length)
                if Task.isCancelled {
                    abort(task, .cancelled)
                } else if let result = task.result {
                    close(task, task.bodyResult(result))
                } else {
                    unpause(task)
                }
            }
        } onCancel: {
            Task { await self.cancel(id) }
        }
    }

    /// libcurl has ended the transfer by itself.
    private func ended(_ task: TransferTask, _ code: CURLcode) {
        guard task.result == nil else { return }
        task.result = code
        guard task.head != nil else {
            task.needsHTTP2 = task.seemsToNeedHTTP2(code)
            let error: TransferError =
                if case .failed(let error) = task.stop { error } else { .failed(task, code) }
            return abort(task, error)
        }
        if task.bodyWaiter != nil || task.isDetached {
            close(task, task.bodyResult(code))
        } else {
            // Nobody has asked for the body yet; the handle is not needed for the answer.
            retire(task)
        }
    }

    func abort(_ task: TransferTask, _ error: TransferError) {
        task.headWaiter.take()?.resume(returning: .failure(error))
        close(task, .failure(error))
    }

    func close(_ task: TransferTask, _ result: Result<TransferEnd, TransferError>) {
        tasks[task.id] = nil
        task.progress.finish()
        retire(task)
        task.bodySink?.end()
        task.deliver(result)
    }

    /// Takes the handle back. An unfinished transfer's connection is closed by that.
    private func retire(_ task: TransferTask) {
        guard !task.isRetired else { return }
        task.isRetired = true
        bufferBytes -= task.bufferSize
        task.leavePause()
        task.keepLastWords()
        if task.result == nil { task.easy.forbidReuse() }
        multi.remove(task.easy)
        task.easy.reset()
        if spare.count < Self.spareHandles { spare.append(task.easy) }
    }

    // MARK: The loop

    private func afterTurn() {
        while let (context, code) = multi.nextDone() { ended(TransferTask.of(context), code) }
        slow.gather()
        scheduleLimits()
    }

    func unpause(_ task: TransferTask, granting bytes: Int = 0) {
        let code = task.unpause(granting: bytes)
        // libcurl tells the error of what it delivered here, and nowhere else.
        if code != CURLE_OK { ended(task, code) }
        scheduleLimits()
    }

    /// Whether the body went on that its sink told to wait.
    private func sinkHasRoom(_ id: UInt64) -> Bool {
        guard let task = tasks[id], task.pause == .sink else { return false }
        unpause(task)
        return true
    }

    /// The receive buffer for one more transfer, while others use `used` bytes: large ones save calls on fast connections,
    /// but all of them together get 32 MiB, and small ones beyond that. With a limit a small one keeps the flow even.
    static func bufferSize(used: Int, rate: Int64?) -> Int {
        let share = ((32 << 20) - used) / 8
        let even = rate.map { Int($0 / 20) } ?? .max
        return min(max(min(share, even), 32 << 10), 512 << 10)
    }
}
