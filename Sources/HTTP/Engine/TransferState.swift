import HaulContract

/// The phases of one request and its response. A value that knows counts and times, but neither libcurl nor a socket.
/// Each event changes the phase, and returns what to do.
///
///     head ─▶ undecided ─▶ receiving ─▶ complete
///                 ▲            │ │
///                 └─ memory ───┘ └───▶ draining
///
/// Every phase may end in `stopping`. Times are monotonic nanoseconds.
struct TransferState {
    enum Phase: Equatable {
        /// The head is not complete.
        case head
        /// The destination of the body is not known yet: libcurl pauses at its next byte.
        case undecided
        case receiving(Destination)
        /// Everything that was required had arrived at this time. libcurl still waits for the end of the response.
        case complete(since: UInt64)
        /// The remainder, at most `left` bytes, is read and dropped since this time, so that the connection can be
        /// reused.
        case draining(left: Int, since: UInt64)
        /// We end the transfer, and libcurl learns of it at its next callback.
        case stopping(Stop)
    }

    /// Where the bytes of a body go.
    enum Destination: Equatable {
        /// To a sink. The first byte of the body has this offset in the file.
        case sink(offset: Int64)
        /// To memory, up to this many bytes.
        case memory(limit: Int)
    }

    /// Why we end a transfer before libcurl does.
    enum Stop: Equatable {
        /// Everything that was required has arrived, and more.
        case complete
        /// Another transfer fetches the remainder.
        case shortened
        case failed(TransferError)
    }

    /// Why libcurl has to pause.
    enum Pause { case undecided, limits, sink }

    /// How libcurl ended the transfer.
    enum CurlEnd: Equatable {
        /// Without an error. `isTruncated`: the TLS connection ended without close_notify.
        case closed(isTruncated: Bool)
        case failed(TransferError)
    }

    /// How long the remainder of a response may take once everything that was required has arrived: nanoseconds.
    private static let endLimit: UInt64 = 1_000_000_000

    /// Parses the header lines.
    var parser = HeadParser()
    var phase = Phase.head
    private(set) var head: ResponseHead?
    var count = BodyCount()
    private(set) var pause: Pause?
    /// Since when the server has had something to send: the later of the last byte and the end of a pause.
    private(set) var expectingSince: UInt64
    /// Bytes that may be taken although other transfers wait for the same rate limit.
    var granted = 0
    /// nil until libcurl has ended the transfer.
    private(set) var curlEnd: CurlEnd?

    init(begun now: UInt64) { expectingSince = now }

    // MARK: The head

    mutating func headIsComplete(_ head: ResponseHead) {
        self.head = head
        if case .bytes(let length) = head.length { count.announced = length }
        phase = .undecided
    }

    /// The head or the trailers are refused, so libcurl must end the transfer. What has arrived completely stays so.
    mutating func fieldsAreRefused(_ why: String) {
        switch phase {
        case .complete, .draining, .stopping: break
        case .head, .undecided, .receiving: phase = .stopping(.failed(TransferError(.badResponse, why)))
        }
    }

    // MARK: The required part of the body

    /// - Parameter length: The exact number of bytes that are required; nil to accept what the response announces.
    mutating func receive(into destination: Destination, length: Int64?, now: UInt64) {
        phase = .receiving(destination)
        if case .sink(let offset) = destination { count.offset = offset }
        count.required = length
        expectingSince = now
    }

    /// Nothing more is required. The remainder is read if it has at most `limit` bytes.
    mutating func discard(limit: Int, now: UInt64) {
        phase = .draining(left: limit, since: now)
        expectingSince = now
    }

    /// Stops collecting in memory, and pauses the body at its next byte. nil if the body is not being collected.
    mutating func endCollecting() -> TransferEnd? {
        guard case .receiving(.memory) = phase else { return nil }
        phase = .undecided
        return count.end(.shortened)
    }

    // MARK: Time

    mutating func expect(at now: UInt64) { expectingSince = now }

    /// Whether the server has had something to send for longer than `limit`, but sent nothing.
    func isStalled(_ now: UInt64, limit: UInt64) -> Bool {
        pause == nil && phase != .undecided && now > expectingSince + limit
    }

    /// Everything that was required has arrived, but the end of the response takes too long.
    func isOverdue(_ now: UInt64) -> Bool {
        switch phase {
        case .complete(let since), .draining(_, let since): now > since + Self.endLimit
        default: false
        }
    }

    // MARK: Pausing

    /// Returns false if it was paused already.
    mutating func pause(for reason: Pause) -> Bool {
        defer { pause = reason }
        return pause == nil
    }

    /// Returns the reason of the pause that ends; nil if there was none.
    mutating func endPause() -> Pause? { pause.take() }

    /// The pause has ended. This many bytes may be taken although others wait.
    mutating func resume(granting bytes: Int, now: UInt64) {
        granted = bytes
        expectingSince = now
    }

    // MARK: The end

    /// Returns false if libcurl had ended it before.
    mutating func curlEnded(_ end: CurlEnd) -> Bool {
        guard curlEnd == nil else { return false }
        curlEnd = end
        return true
    }

    mutating func stop(_ reason: Stop) { phase = .stopping(reason) }

    /// The outcome of the body, once libcurl has ended or nothing more is expected.
    func result(_ end: CurlEnd) -> Result<TransferEnd, TransferError> {
        switch phase {
        case .stopping(.failed(let error)): .failure(error)
        case .stopping(.shortened): .success(count.end(.shortened))
        case .stopping(.complete) where isChunked && count.isOverlong:
            // The sizes of the chunks are wrong, so some of the bytes may belong to the framing.
            .failure(TransferError(.badResponse, "the server sent a broken chunk: the body is longer than announced"))
        case .stopping(.complete): .success(count.end(.length))
        default: count.result(end, isChunked: isChunked)
        }
    }

    private var isChunked: Bool { head?.length == .chunked }
}
