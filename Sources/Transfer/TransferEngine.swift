import CCurl
import Contract
import Executors
import Glibc

/// libcurl on a thread of its own: epoll tells when a socket is ready, libcurl moves the bytes, and the writers' threads
/// take them to disk. It follows no redirects, judges nothing and decodes nothing.
package actor TransferEngine {
    /// What is the same for all transfers of a process.
    package struct Configuration: Sendable {
        package var policy = AddressPolicy.restricted()
        /// The operator's proxy; never the environment's.
        package var proxy: String?
        /// A file of certificates that are trusted besides the system's.
        package var certificateAuthorities: String?
        package init() {}
    }

    package nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    private nonisolated let loop = EventLoop(name: "haul-transfer")
    package nonisolated let path: WritePath
    private let configuration: Configuration
    private nonisolated(unsafe) let multi: UnsafeMutableRawPointer
    private var tasks: [UInt64: TransferTask] = [:]
    private var nextTask: UInt64 = 0
    /// Transfers with a rate limit.
    private var limited = 0
    private var timer: EventLoop.Timer?
    private var watchdog: EventLoop.Timer?
    private var resumption: EventLoop.Timer?

    package init(configuration: Configuration, path: WritePath) {
        self.configuration = configuration
        self.path = path
        curl_global_init(Int(CURL_GLOBAL_ALL))
        multi = curl_multi_init()
    }

    isolated deinit {
        curl_multi_cleanup(multi)
        loop.stop()
    }

    /// Sends the request and returns when the head of the final response is complete. The body waits: libcurl is held at
    /// its first byte until `Transfer.receive`, `collect` or `discard` says where it goes.
    package func start(_ request: Request) async throws(TransferError) -> Transfer {
        if watchdog == nil { begin() }
        let task = try makeTask(request)
        let id = task.id
        let result: Result<ResponseHead, TransferError> = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                var waiting: CheckedContinuation<Result<ResponseHead, TransferError>, Never>? = continuation
                task.onHead = { head in
                    waiting?.resume(returning: .success(head))
                    waiting = nil
                }
                task.onFailure = { error in
                    waiting?.resume(returning: .failure(error))
                    waiting = nil
                }
                tasks[id] = task
                if !request.limits.isEmpty { limited += 1 }
                curl_multi_add_handle(multi, task.easy)
                kick()
                if Task.isCancelled { end(task, .failure(.cancelled)) }
            }
        } onCancel: {
            Task { await self.cancel(id) }
        }
        return Transfer(id: id, head: try result.get(), progress: task.progress, engine: self)
    }

    /// Hands half-filled blocks to the writers: of transfers so slow that theirs is older than `age`.
    package func flush(olderThan age: Duration) {
        for task in tasks.values { task.flush(olderThan: age) }
    }

    // MARK: For Transfer

    func take(_ id: UInt64, into body: TransferTask.Body) async -> Result<TransferEnd, TransferError> {
        guard let task = tasks[id] else { return .failure(.cancelled) }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                task.body = body
                task.onEnd = continuation
                task.progress.touch()
                if let code = task.result { return end(task, task.outcome(of: code)) }
                resume(task)
                if Task.isCancelled { end(task, .failure(.cancelled)) }
            }
        } onCancel: {
            Task { await self.cancel(id) }
        }
    }

    func shorten(_ id: UInt64, to limit: Int64) {
        guard let task = tasks[id], case .file(let file, let position, let end) = task.body else { return }
        task.body = .file(file, position: position, end: max(position, min(limit, end ?? limit)))
        if position >= limit { self.end(task, task.outcome(of: CURLE_OK)) }
    }

    func cancel(_ id: UInt64) {
        guard let task = tasks[id] else { return }
        end(task, .failure(.cancelled))
    }

    // MARK: A transfer's life

    private func makeTask(_ request: Request) throws(TransferError) -> TransferTask {
        guard let easy = curl_easy_init() else {
            throw .failed(Failure(.localLimit, "out of memory for another transfer"))
        }
        nextTask += 1
        let task = TransferTask(id: nextTask, easy: easy, request: request, policy: configuration.policy)
        // Large reads for few transfers, small ones for many: libcurl keeps one buffer for each.
        let bufferSize = tasks.count < 32 ? 256 << 10 : 32 << 10
        let options: [(CURLoption, Int)] = [
            (CURLOPT_NOSIGNAL, 1), (CURLOPT_HTTP_VERSION, Int(CURL_HTTP_VERSION_1_1)), (CURLOPT_FOLLOWLOCATION, 0),
            (CURLOPT_BUFFERSIZE, bufferSize), (CURLOPT_CONNECTTIMEOUT_MS, request.connectTimeout.milliseconds),
            (CURLOPT_QUICK_EXIT, 1), (CURLOPT_TCP_KEEPALIVE, 1), (CURLOPT_PATH_AS_IS, 1),
        ]
        for (option, value) in options { _ = ccurl_set_long(easy, option, value) }
        _ = ccurl_set_string(easy, CURLOPT_URL, request.url)
        _ = ccurl_set_string(easy, CURLOPT_PROTOCOLS_STR, "http,https")
        _ = ccurl_set_string(easy, CURLOPT_PROXY, configuration.proxy ?? "")
        if let file = configuration.certificateAuthorities { _ = ccurl_set_string(easy, CURLOPT_CAINFO, file) }
        if request.method == "HEAD" {
            _ = ccurl_set_long(easy, CURLOPT_NOBODY, 1)
        } else if request.method != "GET" || request.body != nil {
            _ = ccurl_set_string(easy, CURLOPT_CUSTOMREQUEST, request.method)
            if let body = request.body {
                _ = ccurl_set_offset(easy, CURLOPT_POSTFIELDSIZE_LARGE, Int(body.utf8.count))
                _ = ccurl_set_string(easy, CURLOPT_COPYPOSTFIELDS, body)
            }
        }
        for header in request.headers {
            // An empty value wants a semicolon, or libcurl leaves the header out.
            let line = header.value.isEmpty ? "\(header.name);" : "\(header.name): \(header.value)"
            task.headerList = curl_slist_append(task.headerList, line)
        }
        task.headerList = curl_slist_append(task.headerList, "Expect:")
        _ = ccurl_set_pointer(easy, CURLOPT_HTTPHEADER, task.headerList)
        let proxied = configuration.proxy != nil
        ccurl_set_callbacks(
            easy, Unmanaged.passUnretained(task).toOpaque(),
            { bytes, size, count, context in
                TransferTask.from(context).header(UnsafeRawBufferPointer(start: bytes, count: size * count))
            },
            { bytes, size, count, context in
                TransferTask.from(context).write(UnsafeRawBufferPointer(start: bytes, count: size * count))
            },
            proxied ? nil : { context, _, address in TransferTask.from(context).open(address!) },
            proxied
                ? nil
                : { context, ip, _, _, _ in
                    let isAllowed = TransferTask.from(context).mayUse(String(cString: ip!))
                    return isAllowed ? Int32(CURL_PREREQFUNC_OK) : Int32(CURL_PREREQFUNC_ABORT)
                })
        return task
    }

    private func end(_ task: TransferTask, _ result: Result<TransferEnd, TransferError>) {
        guard tasks.removeValue(forKey: task.id) != nil else { return }
        if !task.request.limits.isEmpty { limited -= 1 }
        curl_multi_remove_handle(multi, task.easy)
        task.flush()
        curl_easy_cleanup(task.easy)
        curl_slist_free_all(task.headerList)
        if case .failure(let error) = result { task.onFailure?(error) }
        task.onHead = nil
        task.onFailure = nil
        task.onEnd?.resume(returning: result)
        task.onEnd = nil
    }

    private func resume(_ task: TransferTask) {
        guard task.pause != nil else { return }
        task.pause = nil
        task.progress.touch()
        // It calls the write callback at once; an error of that one is told here and nowhere else.
        let code = curl_easy_pause(task.easy, CURLPAUSE_CONT)
        guard code == CURLE_OK else { return finish(task, code) }
        kick()
    }

    private func resumeHeldBack() {
        resumption = nil
        for task in tasks.values where task.pause == .noBlock || task.pause == .limit { resume(task) }
    }

    // MARK: libcurl's loop

    /// Before the first transfer: an initialiser is not on the loop yet.
    private func begin() {
        ccurl_set_multi_callbacks(
            multi, Unmanaged.passUnretained(self).toOpaque(),
            { _, socket, what, context, _ in
                TransferEngine.from(context).assumeIsolated { $0.watch(socket, what) }
                return 0
            },
            { _, milliseconds, context in
                TransferEngine.from(context).assumeIsolated { $0.setTimer(milliseconds) }
                return 0
            })
        ccurl_set_multi_long(multi, CURLMOPT_MAXCONNECTS, 128)
        path.whenRoom { [weak self] in Task { await self?.resumeHeldBack() } }
        scheduleWatchdog()
    }

    private nonisolated static func from(_ context: UnsafeMutableRawPointer?) -> TransferEngine {
        Unmanaged<TransferEngine>.fromOpaque(context!).takeUnretainedValue()
    }

    private func watch(_ socket: curl_socket_t, _ what: Int32) {
        guard what != CURL_POLL_REMOVE else { return loop.unwatch(socket) }
        var readiness: EventLoop.Readiness = []
        if what & CURL_POLL_IN != 0 { readiness.insert(.readable) }
        if what & CURL_POLL_OUT != 0 { readiness.insert(.writable) }
        loop.watch(socket, for: readiness) { [weak self] readiness in
            self?.assumeIsolated { $0.ready(socket, readiness) }
        }
    }

    private func ready(_ socket: curl_socket_t, _ readiness: EventLoop.Readiness) {
        var mask: Int32 = 0
        if readiness.contains(.readable) { mask |= CURL_CSELECT_IN }
        if readiness.contains(.writable) { mask |= CURL_CSELECT_OUT }
        if !readiness.isDisjoint(with: .failed) { mask |= CURL_CSELECT_ERR }
        act(socket, mask)
    }

    private func setTimer(_ milliseconds: Int) {
        if let timer { loop.cancel(timer) }
        timer = nil
        guard milliseconds >= 0 else { return }
        timer = loop.schedule(at: .now + .milliseconds(milliseconds)) { [weak self] in
            self?.assumeIsolated { $0.kick() }
        }
    }

    private func kick() { act(ccurl_socket_timeout, 0) }

    private func act(_ socket: curl_socket_t, _ mask: Int32) {
        var running: Int32 = 0
        curl_multi_socket_action(multi, socket, mask, &running)
        var left: Int32 = 0
        while let message = curl_multi_info_read(multi, &left) {
            guard message.pointee.msg == CURLMSG_DONE else { continue }
            let task = TransferTask.from(ccurl_context(message.pointee.easy_handle))
            finish(task, message.pointee.data.result)
        }
        scheduleResumption()
    }

    private func finish(_ task: TransferTask, _ code: CURLcode) {
        // A head whose body nobody has asked for yet: the end is kept for whoever asks.
        if task.isHeadComplete, task.onEnd == nil { return task.result = code }
        end(task, task.isHeadComplete ? task.outcome(of: code) : task.failure(of: code))
    }

    /// Transfers that a rate limit holds back go on when its bucket has filled.
    private func scheduleResumption() {
        guard limited > 0, resumption == nil else { return }
        let held = tasks.values.lazy.filter { $0.pause == .limit }
        guard let wait = held.flatMap({ $0.request.limits.map { $0.wait() } }).max() else { return }
        resumption = loop.schedule(at: .now + max(wait, .milliseconds(5))) { [weak self] in
            self?.assumeIsolated { $0.resumeHeldBack() }
        }
    }

    // MARK: Stalls

    private func scheduleWatchdog() {
        watchdog = loop.schedule(at: .now + .milliseconds(500)) { [weak self] in
            self?.assumeIsolated {
                $0.endStalled()
                $0.scheduleWatchdog()
            }
        }
    }

    private func endStalled() {
        let now = monotonicNanoseconds()
        for task in tasks.values where task.pause == nil && task.result == nil {
            let limit = task.request.stallTimeout
            let silent = Double(now &- task.progress.lastActivity) / 1e9
            guard now > task.progress.lastActivity, silent > Double(limit.milliseconds) / 1000 else { continue }
            let message = "no byte from \(MaskedURL.text(task.request.url)) for \(limit)"
            end(task, .failure(.failed(Failure(.stalled, message))))
        }
    }
}

extension TransferTask {
    static func from(_ context: UnsafeMutableRawPointer?) -> TransferTask {
        Unmanaged<TransferTask>.fromOpaque(context!).takeUnretainedValue()
    }

    /// Why there was no head.
    func failure(of code: CURLcode) -> Result<TransferEnd, TransferError> {
        if let objection { return .failure(objection) }
        if code == CURLE_OK { return .failure(.failed(Failure(.badResponse, "the server sent no final response"))) }
        return .failure(.failed(CurlFailure.describe(code, request)))
    }
}
