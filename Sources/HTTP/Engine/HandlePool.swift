/// Spare handles of libcurl, with what libcurl has allocated for them, and the memory budget of receive buffers.
struct HandlePool {
    private static let maxSpare = 64
    /// The budget of all receive buffers together: bytes.
    private static let bufferMemory = 32 << 20
    /// The largest receive buffer of a transfer: bytes.
    static let maxBuffer = 512 << 10

    private var spare: [EasyHandle] = []
    /// The receive buffers in use: bytes.
    private(set) var bufferBytes = 0

    /// A handle that is configured for `request`.
    ///
    /// - Throws: `bad_job` or `local_limit`, as `EasyHandle.configure` does, or `local_limit` if there is no memory.
    mutating func take(
        for request: HTTPRequest, _ configuration: TransferEngine.Configuration, offeringHTTP2: Bool
    ) throws(TransferError) -> EasyHandle {
        guard let easy = spare.popLast() ?? EasyHandle() else { throw EasyHandle.outOfMemory }
        let rate = request.limits.map(\.bytesPerSecond).min()
        let size = Self.bufferSize(used: bufferBytes, rate: rate)
        try easy.configure(request, configuration, bufferSize: size, offeringHTTP2: offeringHTTP2)
        bufferBytes += size
        return easy
    }

    /// Returns a handle that was removed from the multi handle.
    mutating func giveBack(_ easy: EasyHandle) {
        bufferBytes -= easy.bufferSize
        easy.reset()
        if spare.count < Self.maxSpare { spare.append(easy) }
    }

    /// The size of the receive buffer for one more transfer, while others use `used` bytes. Large buffers save calls on
    /// fast connections, but share 32 MiB; when these are used up, buffers are small. A transfer with a limit of `rate`
    /// bytes per second gets a small buffer, which keeps its flow even.
    static func bufferSize(used: Int, rate: Int64?) -> Int {
        let share = (bufferMemory - used) / 8
        let even = rate.map { Int($0 / 20) } ?? .max
        return min(max(min(share, even), 32 << 10), maxBuffer)
    }
}
