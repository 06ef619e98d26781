import Glibc
import Synchronization

/// A piece of memory on its way to a file: filled by one `FileWriter`, then written (and hashed), then used again.
///
/// One owner at a time may change it; while it is written and hashed both only read it.
final class Block: @unchecked Sendable {
    /// A huge page, where the kernel has them: a direct write pins it at once instead of 512 pages.
    static let largeSize = 2 << 20
    static let smallSize = 128 << 10
    /// What O_DIRECT asks of addresses, offsets and lengths.
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

    /// From now on its memory is a huge page, all of which is taken at the first byte: for streams that fill it.
    func useHugePage() {
        guard isLarge, !isHugePage else { return }
        isHugePage = true
        madvise(memory, size, Int32(MADV_HUGEPAGE))
    }

    /// Made to hold a rest; not counted by the pool.
    var isHolder: Bool { size < Self.smallSize }

    var isLarge: Bool { size == Self.largeSize }

    /// Starts over for bytes from `offset` on, at least `least` of them. A large block ends at a multiple of its size in the
    /// file, unless that is too soon; others at a page.
    func prepare(at offset: Int64, for least: Int = 0) {
        self.offset = offset
        count = 0
        start = Int(offset % Int64(Self.alignment))
        capacity = isLarge ? size - Int(offset % Int64(size)) : size - start
        if capacity < least { capacity = size - start }
        users.store(1, ordering: .relaxed)
    }

    var room: Int { capacity - count }

    var end: Int64 { offset + Int64(count) }

    var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: memory + start, count: count) }

    /// Adds at most `room` bytes.
    func append(_ source: UnsafeRawPointer, _ count: Int) {
        precondition(count >= 0 && count <= room)
        memcpy(memory + start + self.count, source, count)
        self.count += count
    }

    /// Takes out what is not worth a write of its own: everything, or if it is at least `worthwhile` the bytes after the file's
    /// last whole page. It goes into a block just large enough, of `pool`; nil if there is nothing.
    func cutRest(worthwhile: Int, pool: BlockPool) -> Block? {
        let rest = count < worthwhile ? count : Int(end % Int64(Self.alignment))
        guard rest > 0 else { return nil }
        let first = end - Int64(rest)
        let pages = (Int(first % Int64(Self.alignment)) + rest + Self.alignment - 1) / Self.alignment
        let holder = pool.takeHolder(pages: pages)
        holder.prepare(at: first)
        holder.append(bytes.baseAddress! + (count - rest), rest)
        count -= rest
        return holder
    }

    func retain() { users.add(1, ordering: .relaxed) }

    /// True for the last user, who gives the block back.
    func release() -> Bool { users.subtract(1, ordering: .acquiringAndReleasing).newValue == 0 }
}
