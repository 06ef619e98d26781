import Glibc
import Synchronization

/// A piece of memory on its way to a file. One `FileWriter` fills it, then it is written (and hashed), then reused.
///
/// One owner at a time may change it. While it is both written and hashed, it is only read.
final class Block: @unchecked Sendable {
    /// A huge page, if the kernel has them: then a direct write pins one page instead of 512.
    static let largeSize = 2 << 20
    static let smallSize = 128 << 10
    /// What O_DIRECT requires of addresses, offsets and lengths.
    static let alignment = 4096

    let memory: UnsafeMutableRawPointer
    let size: Int
    /// The file offset of the first byte.
    private(set) var offset: Int64 = 0
    private(set) var count = 0
    /// Where the bytes start in `memory`: as far from a page's start as they are in the file, so that whole pages of
    /// the file are whole pages of memory.
    private var start = 0
    private var capacity = 0
    private let users = Atomic(0)
    private(set) var isHugePage = false

    init(memory: UnsafeMutableRawPointer, size: Int) { (self.memory, self.size) = (memory, size) }

    static func make(_ size: Int) -> Block {
        Block(memory: aligned_alloc(size == largeSize ? size : alignment, size)!, size: size)
    }

    /// Makes the memory a huge page, all of which is allocated at the first byte: for streams that fill it.
    func useHugePage() {
        guard isLarge, !isHugePage else { return }
        isHugePage = true
        madvise(memory, size, Int32(MADV_HUGEPAGE))
    }

    /// Whether the block was made to hold a remainder. Such a block does not count towards the pool's limits.
    var isForRemainder: Bool { size < Self.smallSize }

    var isLarge: Bool { size == Self.largeSize }

    /// Prepares the block for bytes from `offset` on, at least `minBytes` of them. A large block ends at a multiple of its
    /// size in the file, unless that is too soon. Other blocks end at a page.
    func prepare(at offset: Int64, for minBytes: Int = 0) {
        self.offset = offset
        count = 0
        start = Int(offset % Int64(Self.alignment))
        capacity = isLarge ? size - Int(offset % Int64(size)) : size - start
        if capacity < minBytes { capacity = size - start }
        users.store(1, ordering: .relaxed)
    }

    var free: Int { capacity - count }

    var end: Int64 { offset + Int64(count) }

    var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: memory + start, count: count) }

    /// Adds at most `free` bytes.
    func append(_ source: UnsafeRawPointer, _ count: Int) {
        precondition(count >= 0 && count <= free)
        memcpy(memory + start + self.count, source, count)
        self.count += count
    }

    /// Moves bytes that are not worth a write of their own into a block of `pool` that is just large enough. If the
    /// block has fewer than `minBytes` bytes, these are all of its bytes; otherwise the bytes after the file's last
    /// whole page. nil if there are none.
    func cutRemainder(minBytes: Int, pool: BlockPool) -> Block? {
        let rest = count < minBytes ? count : Int(end % Int64(Self.alignment))
        guard rest > 0 else { return nil }
        let first = end - Int64(rest)
        let pages = (Int(first % Int64(Self.alignment)) + rest + Self.alignment - 1) / Self.alignment
        let holder = pool.takeRemainderBlock(pages: pages)
        holder.prepare(at: first)
        holder.append(bytes.baseAddress! + (count - rest), rest)
        count -= rest
        return holder
    }

    func retain() { users.add(1, ordering: .relaxed) }

    /// True for the last user, who must return the block to the pool.
    func release() -> Bool { users.subtract(1, ordering: .acquiringAndReleasing).newValue == 0 }
}
