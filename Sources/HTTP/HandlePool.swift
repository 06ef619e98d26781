/// libcurl's handles: what libcurl has allocated for one is kept for the next transfer. And the memory of all receive buffers.
struct HandlePool {
    private static let most = 64
    /// The receive buffers of all transfers together: bytes.
    private static let bufferMemory = 32 << 20

    private var spare: [EasyHandle] = []
    /// The receive buffers in use: bytes.
    private(set) var bufferBytes = 0

    /// A handle for `request`.
    ///
    /// - Throws: That libcurl refuses something of the request, or that there is no memory.
    mutating func take(
        for request: Request, _ configuration: TransferEngine.Configuration, offeringHTTP2: Bool
    ) throws(TransferError) -> EasyHandle {
        guard let easy = spare.popLast() ?? EasyHandle() else { throw EasyHandle.outOfMemory }
        let rate = request.limits.map(\.bytesPerSecond).min()
        let size = Self.bufferSize(used: bufferBytes, rate: rate)
        try easy.configure(request, configuration, bufferSize: size, offeringHTTP2: offeringHTTP2)
        bufferBytes += size
        return easy
    }

    /// Takes it back, out of the multi handle.
    mutating func giveBack(_ easy: EasyHandle) {
        bufferBytes -= easy.bufferSize
        easy.reset()
        if spare.count < Self.most { spare.append(easy) }
    }

    /// The receive buffer for one more transfer, while others use `used` bytes: large ones save calls on fast connections,
    /// but all of them together get 32 MiB, and small ones beyond that. With a limit of `rate` bytes per second a small one keeps
    /// the flow even.
    static func bufferSize(used: Int, rate: Int64?) -> Int {
        let share = (bufferMemory - used) / 8
        let even = rate.map { Int($0 / 20) } ?? .max
        return min(max(min(share, even), 32 << 10), 512 << 10)
    }
}
