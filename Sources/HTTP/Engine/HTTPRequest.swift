package import HaulContract

/// A request to a server. Header fields, ranges and conditions are sent as they are. No redirect is followed.
package struct HTTPRequest: Sendable {
    /// http or https; other schemes are refused.
    package var url: String
    package var method = "GET"
    package var headers: [HeaderField] = []
    package var body: RequestBody?
    /// Asks the server whether it accepts a streamed body of more than 1 MiB before the body is sent (RFC 9110 section
    /// 10.1.1). A server that does not respond gets the body after a second.
    package var expectsContinue = false
    /// Uses a new connection, because libcurl repeats a request by itself if a kept connection turns out to be dead.
    package var isSentOnce = false
    /// Counts what has been sent.
    package var sending: SendingProgress?
    /// A body that libcurl reads in place, without a copy. It takes precedence over `body`.
    package var memory: RequestMemory?
    /// Covers name resolution, connecting and the TLS handshake together.
    package var connectTimeout: Duration = .seconds(15)
    /// After this long without a byte, the transfer fails with `stalled`. Time in which our own limits or the disk hold
    /// the reader back does not count.
    package var stallTimeout: Duration = .seconds(60)
    /// The rate limits. All of them apply to what is received, and to a streamed body that is sent.
    package var limits: [TokenBucket] = []

    /// The buckets of hosts: a redirect or a mirror obeys the bucket of its own host.
    package var hostBuckets: HostBuckets?

    /// A `ResponseObserver` reads the head.
    var isObserved = false

    package init(url: String) { self.url = url }
}

/// The body of a request in memory that stays and does not change while the request is sent. libcurl reads it in place.
package final class RequestMemory: @unchecked Sendable {
    package let bytes: UnsafeRawBufferPointer
    /// Retains the memory; nil if this object owns the memory.
    private let owner: AnyObject?

    /// Uses memory that `owner` retains.
    package init(_ bytes: UnsafeRawBufferPointer, of owner: AnyObject) {
        (self.bytes, self.owner) = (bytes, owner)
    }

    /// Copies `bytes`.
    package init(_ bytes: [UInt8]) {
        // Never empty: with a null address, libcurl would ask the read callback for the bytes.
        let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: max(1, bytes.count), alignment: 16)
        memory.copyBytes(from: bytes)
        self.bytes = UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(memory)[..<bytes.count])
        owner = nil
    }

    deinit { if owner == nil { bytes.deallocate() } }
}
