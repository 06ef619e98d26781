/// The bytes of a response besides its head and its body: chunk sizes and extensions, records of TLS, frames of HTTP/2.
/// libcurl reads and drops them without a callback, so only the socket shows them. They count against the rate limits
/// and against a limit of their own, like all else that a server sends.
struct FramingOverhead {
    /// Nanoseconds between two looks at the socket of a body that has a rate limit.
    private static let interval: UInt64 = 10_000_000
    /// A body of one byte per chunk, each part in a TLS record of its own, has 72 bytes of framing for each of its own.
    private static let perByte: Int64 = 128
    /// Bytes that are allowed for any body. They include what libcurl has read and not delivered yet.
    private static let allowance: Int64 = 1 << 20
    /// A paused stream of HTTP/2 buffers up to 32 MiB.
    private static let bufferOfHTTP2: Int64 = 32 << 20

    /// The bytes that had been read from the connection when the body began.
    private let before: Int64
    /// The maximum number of bytes that libcurl may have read and not delivered yet.
    private let buffered: Int64
    private let isHTTP2: Bool
    /// The bytes that were counted against the rate limits.
    private var counted: Int64 = 0
    private var checked: UInt64 = 0

    /// - Parameters:
    ///   - read: The bytes that were read from the connection before the body.
    ///   - buffer: The size of libcurl's receive buffer.
    init(read: Int64 = 0, buffer: Int = 0, isHTTP2: Bool = false) {
        (before, self.isHTTP2) = (read, isHTTP2)
        buffered = Int64(buffer) + (isHTTP2 ? Self.bufferOfHTTP2 : 0)
    }

    /// Whether the rate limits should learn of new framing.
    mutating func isDue(_ now: UInt64) -> Bool {
        guard now >= checked + Self.interval else { return false }
        checked = now
        return true
    }

    /// The bytes of framing that are to be counted against the rate limits now. Negative if bytes that were counted have
    /// proved to be of the body, which has been counted as well.
    ///
    /// - Parameters:
    ///   - read: The bytes that were read from the connection.
    ///   - accepted: The bytes of the body among them.
    ///   - isEnd: libcurl has delivered everything that it has read.
    mutating func uncounted(read: Int64, accepted: Int64, isEnd: Bool = false) -> Int {
        let framing = max(0, read - before - accepted - (isEnd && !isHTTP2 ? 0 : buffered))
        defer { counted = framing }
        return Int(framing - counted)
    }

    /// Whether the server sends far more framing than a body needs.
    func isExcessive(read: Int64, accepted: Int64) -> Bool {
        let allowed = Self.allowance + (isHTTP2 ? Self.bufferOfHTTP2 : 0) + min(accepted, .max / 256) * Self.perByte
        return read - before - accepted > allowed
    }
}
