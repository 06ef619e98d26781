/// The bytes of a response besides its head and its body: chunk extensions, records of TLS, frames of HTTP/2. libcurl
/// reads and drops them without a callback, so only the socket shows them. They count against a limit like all else
/// that a server sends.
struct FramingOverhead {
    /// Nanoseconds between two checks.
    private static let interval: UInt64 = 1_000_000_000
    /// A body of one byte per chunk, each part in a TLS record of its own, has 72 bytes of framing for each of its own.
    private static let perByte: Int64 = 128
    /// Bytes that are allowed for any body. They include what libcurl has read and not delivered yet.
    private static let allowance: Int64 = 1 << 20
    /// A paused stream of HTTP/2 buffers up to 32 MiB.
    private static let bufferOfHTTP2: Int64 = 32 << 20

    /// The bytes that the connection had received when the body began.
    private let before: Int64
    private var checked: UInt64

    init(received: Int64 = 0, at now: UInt64 = 0) { (before, checked) = (received, now) }

    /// Whether another check is due.
    mutating func isDue(_ now: UInt64) -> Bool {
        guard now >= checked + Self.interval else { return false }
        checked = now
        return true
    }

    /// - Parameters:
    ///   - read: The bytes that were read from the connection.
    ///   - taken: The bytes of the body among them.
    func isExcessive(read: Int64, taken: Int64, isHTTP2: Bool) -> Bool {
        let allowed = Self.allowance + (isHTTP2 ? Self.bufferOfHTTP2 : 0) + min(taken, .max / 256) * Self.perByte
        return read - before - taken > allowed
    }
}
