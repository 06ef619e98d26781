import CHaulCurl
import Glibc
import HaulContract
import HaulExecutors

/// One request and its response, on the loop's thread: libcurl's callbacks and the engine's calls meet here.
///
/// libcurl calls `readHead` for each header line and `accept` for each piece of the body (at most 16 KiB). Three values
/// decide what to do, and are tested alone: `TransferState`, `TransferConnection`, `SocketReading`. This class carries
/// it out.
final class TransferTask {
    /// What all transfers of an engine share.
    struct Shared {
        let configuration: TransferEngine.Configuration
        let limited: LimitedTasks
        let slow: SlowTasks
        let connections: ConnectionSockets
        /// The addresses of this host's own interfaces.
        let hostAddresses: Set<IPAddress>
    }

    /// The caller that waits for the transfer, and the destination of the body.
    struct Caller {
        enum Waiter {
            case head(CheckedContinuation<Result<ResponseHead, HeadFailure>, Never>)
            case body(CheckedContinuation<Result<TransferEnd, TransferError>, Never>)
        }

        var waiter: Waiter?
        var sink: (any BodySink)?
        var collected: [UInt8] = []
    }

    let id: UInt64
    let request: HTTPRequest
    let shared: Shared
    let progress = TransferProgress()
    /// A streamed body of the request.
    let outgoing: OutgoingBody?
    /// nil after `retire`.
    private(set) var easy: EasyHandle?
    private(set) var state = TransferState(begun: monotonicNanoseconds())
    var connection = TransferConnection()
    var reading = SocketReading()
    var caller = Caller()

    /// - Parameter wake: Resumes sending when the source has bytes again.
    init(
        id: UInt64, request: HTTPRequest, easy: EasyHandle, shared: Shared, wake: @escaping @Sendable () async -> Void
    ) {
        (self.id, self.request, self.easy, self.shared) = (id, request, easy, shared)
        outgoing =
            if case .stream(let supply) = request.body {
                OutgoingBody(supply, progress: request.sending, wake: wake)
            } else {
                nil
            }
        setCallbacks(of: easy)
        setSource(of: easy)
    }

    private func setCallbacks(of easy: EasyHandle) {
        ccurl_set_callbacks(
            easy.raw, Unmanaged.passUnretained(self).toOpaque(),
            { bytes, size, count, context in
                TransferTask.of(context).readHead(UnsafeRawBufferPointer(start: bytes, count: size * count))
            },
            { bytes, size, count, context in TransferTask.of(context).accept(bytes!, size * count) },
            { context, _, address in TransferTask.of(context).openSocket(address!) },
            { context, address, _, remotePort, port in
                TransferTask.of(context).mayUse(
                    String(cString: address!), UInt16(truncatingIfNeeded: remotePort),
                    from: UInt16(truncatingIfNeeded: port))
            })
    }

    static func of(_ context: UnsafeMutableRawPointer?) -> TransferTask {
        Unmanaged<TransferTask>.fromOpaque(context!).takeUnretainedValue()
    }

    var configuration: TransferEngine.Configuration { shared.configuration }
    var hasLimits: Bool { request.limits.contains { !$0.isUnlimited } }
    var isRetired: Bool { easy == nil }
    /// The caller has its result. The transfer goes on only so that the connection can be reused.
    var isDetached: Bool {
        guard case .draining = state.phase else { return false }
        return caller.waiter == nil
    }

    /// Whether the server has neither sent nor accepted anything for too long. Connecting has its own limit.
    func isStalled(_ now: UInt64) -> Bool {
        // With a higher mark, bytes may have arrived that were not read yet.
        connection.isConnected && reading.mark.bytes == 1 && outgoing?.pause == nil
            && state.isStalled(now, limit: request.stallTimeout.nanoseconds)
    }

    func expect() { state.expect(at: monotonicNanoseconds()) }

    // MARK: The head

    private func readHead(_ line: UnsafeRawBufferPointer) -> Int {
        // A trailer does not end a stall, because the whole body has arrived.
        if state.head == nil { expect() }
        // Otherwise a server could send any number of large heads with hardly a body, past every limit.
        for bucket in request.limits { bucket.take(line.count) }
        switch state.parser.consume(line) {
        case .more: break
        case .refused(let why):
            state.fieldsAreRefused(why)
            return 0
        case .complete(let status, let headers):
            var head = ResponseHead(
                status: status, headers: headers, url: request.url, method: request.method,
                remoteAddress: connection.peer?.address ?? "", isReused: connection.sockets.isEmpty,
                isHTTP2: state.parser.isHTTP2)
            if request.isObserved, let easy { head.facts = ConnectionFacts(easy, proxy: configuration.proxy) }
            if status == 417, request.expectsContinue, let outgoing {
                // libcurl would repeat the request by itself, and deliver a second head.
                outgoing.isExpectationRefused = true
                return 0
            }
            state.headIsComplete(head)
            // At the end, the connection may already have the head of another request, whose bytes would count.
            if let left = unacknowledgedBody { request.sending?.responded(unacknowledged: left) }
            samplePath()
            beginBufferLimit()
            beginFraming(isHTTP2: head.isHTTP2)
            deliver(head: .success(head))
        }
        return line.count
    }

    func deliver(head: Result<ResponseHead, HeadFailure>) {
        guard case .head(let waiter) = caller.waiter else { return }
        caller.waiter = nil
        waiter.resume(returning: head)
    }

    // MARK: The body

    /// Sets where the body goes. The caller must then end the pause, if there is one.
    func receive(into destination: TransferState.Destination, sink: (any BodySink)? = nil, length: Int64? = nil) {
        caller.sink = sink
        state.receive(into: destination, length: length, now: monotonicNanoseconds())
    }

    func discard(limit: Int) { state.discard(limit: limit, now: monotonicNanoseconds()) }

    /// Delivers what was collected so far. The body is paused again at its next byte.
    func endCollecting() {
        if let end = state.endCollecting() { deliver(body: .success(end)) }
    }

    /// Accepts the whole piece, or accepts nothing and pauses; 0 ends the transfer.
    private func accept(_ bytes: UnsafeMutablePointer<CChar>, _ count: Int) -> Int {
        guard count > 0 else { return 0 }
        let now = monotonicNanoseconds()
        state.expect(at: now)
        readWhatWaits()
        if reading.framing.isDue(now) { countFraming(besides: count) }
        switch state.action(forPiece: count, shortenedTo: progress.end, isOpen: isWithinLimits(now)) {
        case .pause(let reason): return pause(for: reason)
        case .stop: return 0
        case .drop: return count
        case .collect:
            caller.collected.append(contentsOf: UnsafeRawBufferPointer(start: bytes, count: count))
            account(count)
            return count
        case .append(let chunk): return append(bytes, chunk)
        }
    }

    private func append(_ bytes: UnsafeRawPointer, _ chunk: TransferState.Chunk) -> Int {
        if let wanted = chunk.window(from: state.count.position) { boundWindow(wanted) }
        if chunk.wanted > 0 {
            switch caller.sink!.append(bytes, chunk.wanted) {
            case .accepted: account(chunk.wanted)
            case .wait: return pause(for: .sink)
            case .failed(let error):
                state.stop(.failed(error))
                return 0
            }
        }
        switch state.action(after: chunk) {
        case .proceed: return chunk.piece
        case .deliver(let end):
            caller.sink?.end()
            deliver(body: .success(end))
            return chunk.piece
        case .stop(let isShortened):
            // libcurl would end only the HTTP/2 stream. Its bytes on the way would precede the next response.
            if isShortened, state.head?.isHTTP2 == true { easy?.forbidReuse() }
            return 0
        }
    }

    private func account(_ bytes: Int) {
        state.recordAccepted(bytes)
        progress.add(bytes)
        samplePath()
        for bucket in request.limits { bucket.take(bytes) }
    }

    // MARK: Pausing

    private func pause(for reason: TransferState.Pause) -> Int {
        if state.pause(for: reason) {
            progress.hold(reason != .undecided)
            if reason == .limits, outgoing?.pause != .limits { shared.limited.join(self) }
        }
        return Int(CURL_WRITEFUNC_PAUSE)
    }

    /// Framing of so many bytes in a tick is held up by the rate limits even without a body. Less must not be, because
    /// the end of a pause restarts the stall timeout.
    private static let flood = 16 << 10

    /// To be called at each tick. Framing without a body brings no callback that could pause libcurl, so it is paused
    /// from here while a rate limit is exceeded. No callback of libcurl's may call this.
    func pauseForFraming(_ now: UInt64) {
        guard let easy, state.pause == nil, case .receiving = state.phase, countFraming() > Self.flood,
            !isWithinLimits(now)
        else { return }
        _ = pause(for: .limits)
        curl_easy_pause(easy.raw, outgoing?.pause == nil ? CURLPAUSE_RECV : CURLPAUSE_ALL)
    }

    private func isWithinLimits(_ now: UInt64) -> Bool {
        request.limits.allSatisfy { $0.isOpen(now) && (state.granted > 0 || !$0.hasWaiting) }
    }

    /// Ends a pause of receiving. libcurl calls `accept` at once, so no callback of libcurl's may call this.
    /// - Returns: libcurl's error, if one has ended the transfer during the call.
    func unpause(granting bytes: Int = 0) -> CURLcode {
        guard let easy, state.pause != nil else { return CURLE_OK }
        endPause()
        state.resume(granting: bytes, now: monotonicNanoseconds())
        return curl_easy_pause(easy.raw, outgoing?.pause == nil ? CURLPAUSE_CONT : CURLPAUSE_SEND)
    }

    /// The request body cannot be sent to its end.
    func stopSending(_ error: TransferError) { state.stop(.failed(error)) }

    private func endPause() {
        guard let reason = state.endPause() else { return }
        if reason == .limits, outgoing?.pause != .limits { shared.limited.leave(self) }
        progress.hold(false)
    }

    // MARK: The end

    /// Records that libcurl has ended the transfer; nil if it had ended before.
    func curlEnded(_ code: CURLcode) -> TransferState.CurlEnd? {
        let end: TransferState.CurlEnd =
            code == CURLE_OK
            ? .closed(isTruncated: connection.peer?.session?.hasReceivedCloseNotify == false)
            : .failed(.failed(self, code))
        guard state.curlEnded(end) else { return nil }
        countFraming(isEnd: true)
        if let left = unacknowledgedBody { request.sending?.ended(unacknowledged: left) }
        return end
    }

    /// How many bytes of a streamed body the server's machine has not acknowledged, at most.
    private var unacknowledgedBody: Int64? {
        guard outgoing != nil, reading.mark.socket >= 0 else { return nil }
        let left = shared.connections.unacknowledged(on: reading.mark.socket)
        // Frames of HTTP/2 that need no reply may still be on their way.
        return state.head?.isHTTP2 == true && left <= Self.frames ? 0 : Int64(left)
    }

    /// Bytes of HTTP/2 frames without a body, as TLS sends them.
    private static let frames = 4 << 10

    func deliver(body result: Result<TransferEnd, TransferError>) {
        guard case .body(let waiter) = caller.waiter else { return }
        caller.waiter = nil
        waiter.resume(returning: result)
    }

    /// Hands over the handle for another transfer; nil if that was done before.
    func retire() -> EasyHandle? {
        endPause()
        endSendingPause()
        outgoing?.end()
        if state.curlEnd == nil { easy?.forbidReuse() }
        return easy.take()
    }
}
