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
