/// The body of a request, in memory that stays and does not change while the request is sent: libcurl reads it where it is.
package final class RequestMemory: @unchecked Sendable {
    package let bytes: UnsafeRawBufferPointer
    /// Keeps the memory; nil: it is this object's own.
    private let owner: AnyObject?

    /// Memory that `owner` keeps.
    package init(_ bytes: UnsafeRawBufferPointer, of owner: AnyObject) {
        (self.bytes, self.owner) = (bytes, owner)
    }

    /// A copy.
    package init(_ bytes: [UInt8]) {
        // Never empty: libcurl takes no address for a body that it is to ask for.
        let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: max(1, bytes.count), alignment: 16)
        memory.copyBytes(from: bytes)
        self.bytes = UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(memory)[..<bytes.count])
        owner = nil
    }

    deinit { if owner == nil { bytes.deallocate() } }
}
