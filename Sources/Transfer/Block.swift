import Glibc

/// Memory on its way to a file: aligned, so that it can go past the page cache, and touched before it is used.
final class Block: @unchecked Sendable {
    static let large = 1 << 20
    static let small = 64 << 10
    static let alignment = 4096

    let bytes: UnsafeMutableRawPointer
    let size: Int
    /// Where its first byte belongs.
    var offset: Int64 = 0
    var count = 0
    /// It is handed over when it holds this many bytes: so that it ends at a multiple of its size.
    var limit = 0
    var since = ContinuousClock.Instant.now

    init(size: Int) {
        self.size = size
        var pointer: UnsafeMutableRawPointer?
        posix_memalign(&pointer, Self.alignment, size)
        bytes = pointer!
        memset(bytes, 0, size)
    }

    deinit { free(bytes) }

    func begin(at offset: Int64) {
        self.offset = offset
        count = 0
        limit = size - Int(offset % Int64(size))
        since = .now
    }
}
