import CHaulCurl
import HaulContract
import HaulExecutors

/// libcurl on one thread of its own, for all transfers of a process.
///
/// The engine follows no redirects, accepts any response, decodes no content, and reads nothing from the environment.
/// libcurl runs only on the loop that is this actor's executor, so its callbacks are isolated to the actor.
package actor TransferEngine {
    /// Settings that all transfers of a process share.
    package struct Configuration: Sendable {
        package var policy = AddressPolicy.restricted()
        /// The operator's proxy: `http://`, `https://`, `socks5://` or `socks5h://`.
        package var proxy: String?
        /// The environment's proxies, used if `proxy` is nil. For a program that acts for the person who started it; a
        /// worker has none.
        package var proxyEnvironment: ProxyEnvironment?
        /// A PEM file of certificate authorities that are trusted besides the system's.
        package var certificateAuthorities: String?
        package var clientCertificate: ClientCertificate?
        /// The User-Agent for servers and proxies, where a request has none of its own. Some servers refuse only
        /// requests without a User-Agent.
        package var userAgent: String?
        /// The number of idle connections that are kept for later requests.
        package var idleConnections = 64
        /// How long bytes of a slow body may wait in its socket for more.
        package var patience = Duration.seconds(1)
        /// Certificates that were read before this time are read again: monotonic nanoseconds. Otherwise libcurl keeps
        /// them for a day.
        var trusted: UInt64?
        /// Addresses of names, used instead of the resolver's: `host:port:address,address`.
        package var addresses: [String] = []
        /// Where to connect instead of a URL's server: `host:port:host:port`, as libcurl's CURLOPT_CONNECT_TO.
        package var connectTo: [String] = []
        /// Addresses of this family only.
        package var addressFamily: AddressFamily?
        /// The interface, name or address of this host that connections start from.
        package var interface: String?
        /// A socket of this host to which all requests go instead of their servers.
        package var unixSocket: String?
        /// The digests of public keys, `sha256//BASE64;…`. A server must have one of these keys, which then proves who it
        /// is. The authority and the names of its certificate are not verified.
        package var pin: String?

        package enum AddressFamily: Sendable { case v4, v6 }

        package init() {}

        /// The configuration for requests to this URL.
        func reaching(_ url: String) -> Configuration {
            guard let proxyEnvironment, proxy == nil, !proxyEnvironment.namesNone else { return self }
            var result = self
            result.proxy = WebURL(url).flatMap(proxyEnvironment.proxy)
            return result
        }
    }

    nonisolated let loop: EventLoop
    package nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }
    /// The thread of all transfers, for tasks that mostly follow transfers and never block: they wake no other thread.
    package nonisolated var executor: any TaskExecutor { loop }
    var configuration: Configuration
    let multi: CurlMulti
    let resolver = BlockingPool(name: "resolver", limit: 8)
    let limited = LimitedTasks()
    private let slow = SlowTasks()
    private var hostAddresses = HostAddresses()
    private var handles = HandlePool()
    /// Keyed by a counter, because the address of an object may be reused while a message about the old object is under
    /// way.
    private(set) var tasks: [UInt64: TransferTask] = [:]
    private var lastID: UInt64 = 0
    var timers = Timers()
    private var http2 = HTTP2Origins()

    package init(configuration: Configuration) {
        self.configuration = configuration
        curl_global_init(Int(CURL_GLOBAL_DEFAULT))
        loop = EventLoop(name: "transfers")
        multi = CurlMulti(loop: loop, idleConnections: configuration.idleConnections)
    }

    isolated deinit {
        for timer in timers.all { loop.cancel(timer) }
        multi.stop()
        loop.stop()
    }

    /// Sets the certificates. Connections that are made from now on read them again.
    package func trust(_ authorities: String?, showing certificate: ClientCertificate?) {
        configuration.certificateAuthorities = authorities
        configuration.clientCertificate = certificate
        configuration.trusted = monotonicNanoseconds()
    }

    /// The number of transfers that have not ended.
    package var count: Int { tasks.count }

    /// The memory of libcurl's receive buffers in bytes.
    package var receiveBufferBytes: Int { handles.bufferBytes }

    /// How often a socket of a transfer was found ready.
    package var turns: Int { multi.turns }

    /// How a request is sent, apart from its content.
    private struct Attempt {
        var address: IPAddress?
        var offersHTTP2: Bool
        var needsNewConnection = false
        var expectsContinue = true
    }

    /// Sends the request. Returns when the head of the final response is complete, with the body paused at its first byte.
    ///
    /// - Throws: Why there is no head.
    package func start(_ request: HTTPRequest) async throws(TransferError) -> Transfer {
        let transfer = try await startUnobserved(request)
        ResponseObserver.current?.receive(transfer.head)
        return transfer
    }

    private func startUnobserved(_ request: HTTPRequest) async throws(TransferError) -> Transfer {
        let address = try await resolveForProxy(request)
        var attempt = Attempt(address: address, offersHTTP2: http2.contains(request.url))
        // The failure without HTTP/2. If the server does not agree to HTTP/2 either, this failure says more.
        var failureBefore: TransferError?
        while true {
            let (task, result) = try await send(request, attempt)
            let failure: HeadFailure
            switch result {
            case .success(let head) where head.status == 421 && !attempt.needsNewConnection && !Task.isCancelled:
                // The server that responded is not responsible for the host and has done nothing. Another connection
                // may reach one that is (RFC 9110 section 15.5.20).
                cancel(task.id)
                attempt.needsNewConnection = true
                continue
            case .success(let head):
                if failureBefore != nil, head.isHTTP2 { http2.insert(request.url) }
                return Transfer(id: task.id, head: head, progress: task.progress, engine: self)
            case .failure(let error): failure = error
            }
            if let failureBefore { throw failure.usedHTTP2 ? failure.error : failureBefore }
            switch failure.remedy {
            case .newConnection? where !attempt.needsNewConnection && !Task.isCancelled:
                attempt.needsNewConnection = true
            case .withoutExpect? where attempt.expectsContinue && !Task.isCancelled: attempt.expectsContinue = false
            case .http2? where !Task.isCancelled:
                failureBefore = failure.error
                attempt = Attempt(address: address, offersHTTP2: true)
            case .resolver?: throw await explainUnresolved(request, failure.error)
            default: throw failure.error
            }
        }
    }

    private func send(
        _ request: HTTPRequest, _ attempt: Attempt
    ) async throws(TransferError) -> (TransferTask, Result<ResponseHead, HeadFailure>) {
        let task = try open(request, attempt)
        let id = task.id
        let result = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                task.caller.waiter = .head(continuation)
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
        // Bytes that were collected are in the destination already.
        let sink = destination.sink(at: offset + (tasks[id]?.state.count.accepted ?? 0)) { [weak self] in
            await self?.sinkIsReady(id) ?? false
        }
        if tasks[id]?.state.head?.length == .invalid, length == nil {
            cancel(id)
            let why =
                "the server's fields about the body's length contradict each other, or name a coding that was not requested"
            return (sink, .failure(TransferError(.badResponse, why)))
        }
        return (sink, await body(of: id) { $0.receive(into: .sink(offset: offset), sink: sink, length: length) })
    }

    func collect(_ id: UInt64, limit: Int) async throws(TransferError) -> [UInt8] {
        let task = tasks[id]
        _ = try await body(of: id) { $0.receive(into: .memory(limit: limit)) }.get()
        return task?.caller.collected ?? []
    }

    func endCollecting(_ id: UInt64) { tasks[id]?.endCollecting() }

    func discard(_ id: UInt64, limit: Int) async {
        if case .bytes(let length) = tasks[id]?.state.head?.length, length > limit { return cancel(id) }
        _ = await body(of: id) { $0.discard(limit: limit) }
    }

    func cancel(_ id: UInt64) {
        guard let task = tasks[id], !task.isDetached else { return }
        abort(task, .cancelled)
    }

    /// The transfer requires fewer bytes than before. They may all be waiting in the socket, so they are read at once.
    func shortened(_ id: UInt64) { tasks[id]?.reading.mark.set(1) }

    /// Not read if no address is refused.
    func currentHostAddresses() -> Set<IPAddress> {
        configuration.policy.allowsEverything ? [] : hostAddresses.current()
    }

    // MARK: One task

    private func open(_ request: HTTPRequest, _ attempt: Attempt) throws(TransferError) -> TransferTask {
        let configuration = configuration.reaching(request.url)
        var request = request
        request.expectsContinue = request.expectsContinue && attempt.expectsContinue
        request.isObserved = ResponseObserver.current != nil
        let easy = try handles.take(for: request, configuration, offeringHTTP2: attempt.offersHTTP2)
        if let address = attempt.address { try easy.pin(to: address) }
        if attempt.needsNewConnection || request.isSentOnce { easy.requireNewConnection() }
        lastID += 1
        let shared = TransferTask.Shared(
            configuration: configuration, limited: limited, slow: slow, connections: multi.connections,
            hostAddresses: currentHostAddresses())
        return TransferTask(id: lastID, request: request, easy: easy, shared: shared) { [weak self, id = lastID] in
            await self?.sourceHasBytes(id)
        }
    }

    private func begin(_ task: TransferTask) {
        // Weak, here and below: the loop may turn between the engine's last release and its deinit on the loop.
        multi.afterTurn = { [weak self] in self?.assumeIsolated { $0.afterTurn() } }
        tasks[task.id] = task
        if Task.isCancelled { return abort(task, .cancelled) }
        guard let easy = task.easy else { return }
        let code = multi.add(easy)
        guard code == CURLM_OK else {
            return abort(task, TransferError(.localLimit, String(cString: curl_multi_strerror(code))))
        }
        scheduleTick()
        scheduleWaking()
    }

    /// Sets the body's destination by `direct`, and waits for the body's end.
    private func body(
        of id: UInt64, _ direct: (TransferTask) -> Void
    ) async -> Result<TransferEnd, TransferError> {
        guard let task = tasks[id] else { return .failure(.cancelled) }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                // The transfer may have been cancelled just before.
                guard tasks[id] != nil else { return continuation.resume(returning: .failure(.cancelled)) }
                task.caller.waiter = .body(continuation)
                direct(task)
                if Task.isCancelled {
                    abort(task, .cancelled)
                } else if let end = task.state.curlEnd {
                    close(task, task.state.result(end))
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
        guard let end = task.curlEnded(code) else { return }
        guard task.state.head != nil else {
            let failure = task.headFailure(code, end)
            task.deliver(head: .failure(failure))
            return close(task, .failure(failure.error))
        }
        if task.caller.waiter != nil || task.isDetached {
            close(task, task.state.result(end))
        } else {
            // The caller has not requested the body yet. The result will need no handle.
            retire(task)
        }
    }

    func abort(_ task: TransferTask, _ error: TransferError) {
        task.deliver(head: .failure(HeadFailure(error: error)))
        close(task, .failure(error))
    }

    func close(_ task: TransferTask, _ result: Result<TransferEnd, TransferError>) {
        tasks[task.id] = nil
        task.progress.finish()
        retire(task)
        task.caller.sink?.end()
        task.deliver(body: result)
    }

    /// Puts the handle back into the pool. This closes the connection of an unfinished transfer.
    private func retire(_ task: TransferTask) {
        guard let easy = task.retire() else { return }
        multi.remove(easy)
        handles.giveBack(easy)
    }

    // MARK: The loop

    private func afterTurn() {
        while let (context, code) = multi.nextDone() { ended(TransferTask.of(context), code) }
        slow.gather()
        scheduleLimits()
    }

    func unpause(_ task: TransferTask, granting bytes: Int = 0) {
        let code = task.unpause(granting: bytes)
        // If what libcurl delivers during this call fails, only this call reports the error.
        if code != CURLE_OK { ended(task, code) }
        scheduleLimits()
    }

    /// Resumes a body whose sink returned `wait`. False if the body is not waiting.
    private func sinkIsReady(_ id: UInt64) -> Bool {
        guard let task = tasks[id], task.state.pause == .sink else { return false }
        unpause(task)
        return true
    }

    private func sourceHasBytes(_ id: UInt64) {
        guard let task = tasks[id], task.outgoing?.pause == .source else { return }
        resumeSending(task)
    }

    func resumeSending(_ task: TransferTask, granting bytes: Int = 0) {
        let code = task.resumeSending(granting: bytes)
        if code != CURLE_OK { ended(task, code) }
        scheduleLimits()
    }
}
