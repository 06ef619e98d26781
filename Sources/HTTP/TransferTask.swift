import CHaulCurl
import Glibc
import HaulContract
import HaulExecutors

/// One request and its response, on the loop's thread: what libcurl's callbacks read and change.
///
/// libcurl calls `readHead` for each header line and `accept` for each piece of the body (at most 16 KiB). Until somebody
/// says where the body goes it is paused at its first byte.
final class TransferTask {
    enum Sink {
        case undecided
        case stream(any BodySink, offset: Int64)
        case memory(limit: Int)
        /// Reads and drops up to this many bytes, so that the connection can be used again.
        case nowhere(left: Int)
    }

    /// Why libcurl was told to pause.
    enum Pause { case undecided, limits, sink }

    /// How the body came to its end before libcurl's end of the response.
    enum Stop {
        case satisfied
        case shortened
        case failed(TransferError)
    }

    /// Rests up to this long are read and dropped to keep a connection.
    private static let shortRest: Int64 = 128 << 10

    let id: UInt64
    let request: Request
    let configuration: TransferEngine.Configuration
    let easy: EasyHandle
    let progress = TransferProgress()
    private let limited: LimitedTasks
    let slow: SlowTasks
    let connections: ConnectionSockets
    private let stallLimit: UInt64
    let hasLimits: Bool
    let offersHTTP2: Bool

    // Before the head.
    private var parser = HeadParser()
    var hostAddresses: Set<IPAddress> = []
    /// Recorded where libcurl only learns of a failed connect.
    var connectRefusal: TransferError?
    /// Those that were opened for it; none on a connection that is used again.
    var sockets: Set<Int32> = []
    var isConnected = false
    var remoteAddress = ""
    var localPort: UInt16 = 0
    var session: TLSSession?
    var headWaiter: CheckedContinuation<Result<ResponseHead, TransferError>, Never>?
    private(set) var head: ResponseHead?
    private(set) var hasHead = false
    /// The body's length, if the head tells it.
    private(set) var announced: Int64?

    // The body.
    private(set) var sink = Sink.undecided
    /// Exactly so many bytes of the body are wanted; nil if the response says.
    private(set) var demanded: Int64?
    private(set) var taken: Int64 = 0
    private(set) var isOverlong = false
    private(set) var stop: Stop?
    private(set) var collected: [UInt8] = []
    var bodyWaiter: CheckedContinuation<Result<TransferEnd, TransferError>, Never>?
    /// When all that was demanded had come, though libcurl still waits for the response's end.
    private(set) var satisfied: UInt64?

    private(set) var pause: Pause?
    /// When the server was last in duty to send something: the later of the last byte and the end of a pause.
    private(set) var expecting: UInt64
    /// Bytes that it may take although others wait for the same limit.
    private var granted = 0
    /// The bytes of a slow body gather in the socket.
    var pace = Pace()
    var mark = LowWaterMark()

    /// Its connection is looked at when so much of the body has come, or at this time.
    var nextLook: (bytes: Int64, time: UInt64) = (0, .max)
    /// A queue was seen on the way, the last time and ever.
    var (isQueueing, hasQueued) = (false, false)
    /// What the server was last told that it may send.
    var bound = Int64.max

    /// Of its receive buffer.
    var bufferSize = 0
    /// The handle has been given back.
    var isRetired = false
    /// libcurl's result once it has ended.
    var result: CURLcode?
    /// What libcurl said of its failure, before its handle went to another transfer.
    private var lastWords: (message: String, systemError: Int32)?
    /// It failed as with servers that speak nothing but HTTP/2, which it did not offer.
    var needsHTTP2 = false
    /// The connection that it was to use again had input that nobody had asked for. Nothing was sent on it.
    var metStrayInput = false
    /// The caller has what it wanted and only the connection is of interest.
    private(set) var isDetached = false

    init(
        id: UInt64, request: Request, offersHTTP2: Bool, configuration: TransferEngine.Configuration, easy: EasyHandle,
        limited: LimitedTasks, slow: SlowTasks, connections: ConnectionSockets
    ) {
        (self.id, self.request, self.offersHTTP2, self.configuration) = (id, request, offersHTTP2, configuration)
        (self.easy, self.limited, self.slow, self.connections) = (easy, limited, slow, connections)
        stallLimit = request.stallTimeout.nanoseconds
        hasLimits = !request.limits.isEmpty
        expecting = monotonicNanoseconds()
        progress.touch(expecting)
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

    /// Whether the server owes us something and has owed it for too long. Connecting has its own limit.
    func isStalled(_ now: UInt64) -> Bool {
        // With a higher mark there may be bytes that nobody has seen yet.
        isConnected && mark.bytes == 1 && pause == nil && (!hasHead || isDecided) && now > expecting + stallLimit
    }

    // MARK: The head

    private func readHead(_ line: UnsafeRawBufferPointer) -> Int {
        expect()
        switch parser.consume(line) {
        case .more: break
        case .refused(let why):
            guard head == nil else { break }
            stop = .failed(TransferError(.badResponse, why))
            return 0
        case .complete(let status, let headers):
            let head = ResponseHead(
                status: status, headers: headers, url: request.url, method: request.method,
                remoteAddress: remoteAddress, isReused: sockets.isEmpty, isHTTP2: parser.isHTTP2)
            self.head = head
            hasHead = true
            if case .bytes(let length) = head.length { announced = length }
            lookAtPath()
            headWaiter.take()?.resume(returning: .success(head))
        }
        return line.count
    }

    // MARK: The body

    /// Says where the body goes. The caller then ends the pause, if there is one.
    func direct(to sink: Sink, demanding length: Int64?) {
        self.sink = sink
        demanded = length
        expect()
        // A rest is only read for the connection's sake, which is worth a second.
        if case .nowhere = sink { satisfied = expecting }
    }

    /// Gives out what was collected so far; the body waits again, at its next byte.
    func endCollecting() {
        guard case .memory = sink else { return }
        sink = .undecided
        deliver(whole(.shortened))
    }

    var bodySink: (any BodySink)? { if case .stream(let sink, _) = sink { sink } else { nil } }

    private var isDecided: Bool { if case .undecided = sink { false } else { true } }

    /// The bytes that the body must have, if that is known.
    private var expected: Int64? { demanded ?? announced }

    /// Takes all of it, or nothing and pauses; 0 ends the transfer.
    private func accept(_ bytes: UnsafeMutablePointer<CChar>, _ count: Int) -> Int {
        guard count > 0 else { return 0 }
        let now = monotonicNanoseconds()
        expecting = now
        progress.touch(now)
        readWhatWaits()
        guard isDecided else { return hold(.undecided) }
        guard isWithinLimits(now) else { return hold(.limits) }
        switch sink {
        case .undecided: return 0
        case .stream(let sink, let offset): return pass(bytes, count, to: sink, from: offset)
        case .memory(let limit):
            guard collected.count + count <= limit else {
                return end(.failed(TransferError(.tooLarge, "the body is longer than \(limit) bytes")))
            }
            collected.append(contentsOf: UnsafeRawBufferPointer(start: bytes, count: count))
            account(count)
        case .nowhere(let left):
            guard count <= left else { return end(.satisfied) }
            sink = .nowhere(left: left - count)
        }
        return count
    }

    private func pass(_ bytes: UnsafeRawPointer, _ count: Int, to sink: any BodySink, from offset: Int64) -> Int {
        let position = offset + taken
        let end = expected.map { offset + $0 } ?? .max
        let limit = min(end, max(progress.end, position))
        if limit < end, end - limit > Self.shortRest { boundWindow(limit - position) }
        let wanted = Int(min(Int64(count), limit - position))
        if wanted > 0 {
            switch sink.append(bytes, wanted) {
            case .taken: account(wanted)
            case .wait: return hold(.sink)
            case .failed(let error): return self.end(.failed(error))
            }
        }
        if position + Int64(wanted) == end {
            isOverlong = isOverlong || wanted < count
            if satisfied == nil { satisfied = expecting }
            return wanted < count ? self.end(.satisfied) : count
        }
        return position + Int64(wanted) == limit ? endShortened(after: count) : count
    }

    private func account(_ count: Int) {
        taken += Int64(count)
        progress.add(count)
        lookAtPath()
        guard hasLimits else { return }
        granted = max(0, granted - count)
        for bucket in request.limits { bucket.take(count) }
    }

    /// The rest belongs to another transfer. A short rest is read and dropped, which keeps the connection.
    private func endShortened(after count: Int) -> Int {
        guard let length = announced, length - taken <= Self.shortRest else {
            // libcurl would end an HTTP/2 stream alone. What the server has of it in its socket would come first.
            if head?.isHTTP2 == true { easy.forbidReuse() }
            return end(.shortened)
        }
        stop = .shortened
        bodySink?.end()
        isDetached = true
        satisfied = expecting
        deliver(bodyResult(CURLE_OK))
        sink = .nowhere(left: Int(length - taken))
        return count
    }

    private func end(_ stop: Stop) -> Int {
        self.stop = stop
        return 0
    }

    // MARK: Pausing

    private func hold(_ reason: Pause) -> Int {
        if pause == nil {
            progress.hold(reason != .undecided)
            if reason == .limits { limited.join(self) }
        }
        pause = reason
        return Int(CURL_WRITEFUNC_PAUSE)
    }

    private func isWithinLimits(_ now: UInt64) -> Bool {
        guard hasLimits else { return true }
        return request.limits.allSatisfy { $0.isOpen(now) && (granted > 0 || !$0.hasWaiting) }
    }

    /// Ends a pause of libcurl's. It calls `accept` at once, so this is called from the top of the loop only.
    /// - Returns: libcurl's error if what it then delivered ended the transfer.
    func unpause(granting bytes: Int = 0) -> CURLcode {
        guard pause != nil else { return CURLE_OK }
        leavePause()
        granted = bytes
        expect()
        return curl_easy_pause(easy.raw, CURLPAUSE_CONT)
    }

    func leavePause() {
        if pause == .limits { limited.leave(self) }
        pause = nil
        progress.hold(false)
    }

    func expect() { expecting = monotonicNanoseconds() }

    // MARK: The end

    var errorMessage: String { lastWords?.message ?? easy.errorMessage }
    var systemError: Int32 { lastWords?.systemError ?? easy.systemError }

    /// Before the handle is given back. The failure may only be told when somebody asks for the body.
    func keepLastWords() {
        if let result, result != CURLE_OK { lastWords = (easy.errorMessage, easy.systemError) }
    }

    private func whole(_ reason: TransferEnd.Reason) -> Result<TransferEnd, TransferError> {
        let start: Int64 = if case .stream(_, let offset) = sink { offset } else { 0 }
        return .success(TransferEnd(position: start + taken, bytes: taken, reason: reason, isOverlong: isOverlong))
    }

    /// What became of the body, now that libcurl has ended with `code` or we have ended it.
    func bodyResult(_ code: CURLcode) -> Result<TransferEnd, TransferError> {
        switch stop {
        case .failed(let error): return .failure(error)
        case .shortened: return whole(.shortened)
        case .satisfied: return whole(.length)
        case nil: break
        }
        // libcurl has called bodies whole that were not, so our own count decides.
        if let expected {
            guard taken < expected else { return whole(.length) }
            return .failure(.incomplete(self, code, of: expected))
        }
        guard code == CURLE_OK else { return .failure(.failed(self, code)) }
        if head?.length == .chunked { return whole(.length) }
        if session?.isNotified == false { return .failure(.cut(self)) }
        return whole(.close)
    }

    func deliver(_ result: Result<TransferEnd, TransferError>) { bodyWaiter.take()?.resume(returning: result) }
}
