import HaulContract

/// The phases of one request and its response: a value that knows counts and times, and neither libcurl nor a socket. Each
/// event changes the phase, and returns what is to be done.
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
        /// Nobody has said where the body goes: libcurl pauses at its next byte.
        case undecided
        case receiving(Destination)
        /// All that was wanted is there since this time. libcurl still waits for the end of the response.
        case complete(since: UInt64)
        /// What is left, at most so many bytes, is read and dropped since this time: then the connection can be used again.
        case draining(left: Int, since: UInt64)
        /// We end the transfer: libcurl is told when it next asks.
        case stopping(Stop)
    }

    /// Where the bytes of a body go.
    enum Destination: Equatable {
        /// To a sink; the body's first byte has this offset in the file.
        case sink(offset: Int64)
        /// To memory, which takes so many bytes.
        case memory(limit: Int)
    }

    /// Why we end a transfer before libcurl does.
    enum Stop: Equatable {
        /// All that was wanted came, and more.
        case complete
        /// The rest belongs to another transfer.
        case shortened
        case failed(TransferError)
    }

    /// Why libcurl was told to pause.
    enum Pause { case undecided, limits, sink }

    /// How libcurl ended the transfer.
    enum LibraryEnd: Equatable {
        /// Without complaint. `isCut`: the end of the connection is not a proper end of its TLS.
        case closed(isCut: Bool)
        case failed(TransferError)
    }

    /// How long the rest of a response may take after everything that was wanted has come.
    private static let endLimit: UInt64 = 1_000_000_000

    /// Of the header lines.
    var parser = HeadParser()
    var phase = Phase.head
    private(set) var head: ResponseHead?
    var count = BodyCount()
    private(set) var pause: Pause?
    /// When the server last had to send something: the later of the last byte and the end of a pause.
    private(set) var expecting: UInt64
    /// Bytes that it may take though others wait for the same limit of rate.
    var granted = 0
    /// nil until libcurl has ended the transfer.
    private(set) var libraryEnd: LibraryEnd?

    init(begun now: UInt64) { expecting = now }

    // MARK: The head

    mutating func headIsComplete(_ head: ResponseHead) {
        self.head = head
        if case .bytes(let length) = head.length { count.announced = length }
        phase = .undecided
    }

    mutating func headIsRefused(_ why: String) { phase = .stopping(.failed(TransferError(.badResponse, why))) }

    // MARK: What is wanted of the body

    /// - Parameter length: Exactly so many bytes are wanted; nil if the response says how many.
    mutating func receive(into destination: Destination, length: Int64?, now: UInt64) {
        phase = .receiving(destination)
        if case .sink(let offset) = destination { count.offset = offset }
        count.demanded = length
        expecting = now
    }

    /// Nothing more is wanted. The rest is read if it has at most `limit` bytes.
    mutating func discard(limit: Int, now: UInt64) {
        phase = .draining(left: limit, since: now)
        expecting = now
    }

    /// Ends what memory takes; the body waits again, at its next byte. nil if it goes elsewhere.
    mutating func endCollecting() -> TransferEnd? {
        guard case .receiving(.memory) = phase else { return nil }
        phase = .undecided
        return count.end(.shortened)
    }

    // MARK: Time

    mutating func expect(at now: UInt64) { expecting = now }

    /// Whether the server has had something to send for longer than `limit`.
    func isStalled(_ now: UInt64, limit: UInt64) -> Bool {
        pause == nil && phase != .undecided && now > expecting + limit
    }

    /// Everything that was wanted is here, and the end of the response takes too long.
    func isOverdue(_ now: UInt64) -> Bool {
        switch phase {
        case .complete(let since), .draining(_, let since): now > since + Self.endLimit
        default: false
        }
    }

    // MARK: Pausing

    /// Returns whether it was not paused before.
    mutating func pause(for reason: Pause) -> Bool {
        defer { pause = reason }
        return pause == nil
    }

    /// Returns what it was paused for.
    mutating func endPause() -> Pause? { pause.take() }

    /// The pause has ended, and so many bytes may be taken though others wait.
    mutating func resume(granting bytes: Int, now: UInt64) {
        granted = bytes
        expecting = now
    }

    // MARK: The end

    /// Returns whether libcurl had not ended it before.
    mutating func libraryEnded(_ end: LibraryEnd) -> Bool {
        guard libraryEnd == nil else { return false }
        libraryEnd = end
        return true
    }

    mutating func stop(_ reason: Stop) { phase = .stopping(reason) }

    /// What became of the body, now that libcurl has ended or nothing more is waited for.
    func result(_ end: LibraryEnd) -> Result<TransferEnd, TransferError> {
        switch phase {
        case .stopping(.failed(let error)): .failure(error)
        case .stopping(.shortened): .success(count.end(.shortened))
        case .stopping(.complete): .success(count.end(.length))
        default: count.result(end, isChunked: head?.length == .chunked)
        }
    }
}
