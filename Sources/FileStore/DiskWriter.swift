import Glibc
package import HaulExecutors
import Synchronization

/// Writes what arrives from the network to the disk: a bounded pool of blocks and the threads that write them, one per
/// process.
///
/// Only the copy into a block runs on an event loop.
package final class DiskWriter: Sendable {
    /// `pwrite`, or what a test uses instead. Returns the bytes written, or -1 with `errno` set.
    package typealias Write =
        @Sendable (
            _ descriptor: Int32, _ bytes: UnsafeRawPointer, _ count: Int, _ offset: Int64
        ) -> Int

    /// `fdatasync`, or what a test uses instead. Returns 0 or an errno.
    package typealias Sync = @Sendable (_ descriptor: Int32) -> Int32

    let pool: BlockPool
    /// For fdatasync, fallocate, reading back and hashing.
    package let blocking = BlockingPool(name: "disk", limit: 16)
    private let writers: BlockingPool
    private let write: Write
    let sync: Sync
    /// The moving average of the time that a write past the page cache takes: nanoseconds.
    private let directWrite = Atomic<UInt64>(0)
    private static let slowWrite: UInt64 = 8_000_000
    /// Blocks that wait for a writer thread.
    private let waiting = Atomic(0)

    /// - Parameters:
    ///   - blocks: The maximum number of 2 MiB blocks.
    ///   - smallBlocks: The maximum number of 128 KiB blocks.
    ///   - writers: The number of threads that write.
    package init(
        blocks: Int = 12, smallBlocks: Int = 192, writers: Int = 2,
        write: @escaping Write = { pwrite($0, $1, $2, Int($3)) },
        sync: @escaping Sync = { fdatasync($0) == 0 ? 0 : errno }
    ) {
        pool = BlockPool(large: blocks, small: smallBlocks)
        (self.write, self.sync) = (write, sync)
        self.writers = BlockingPool(name: "disk-writer", limit: writers)
    }

    /// Whether blocks pile up because the disk is slow, not because there are many blocks.
    var isDiskBehind: Bool { isDiskSlow && waiting.load(ordering: .relaxed) > pool.largeLimit / 2 }

    private var isDiskSlow: Bool { directWrite.load(ordering: .relaxed) > Self.slowWrite }

    /// The number of threads that may write one file at a time. On a fast disk two threads mostly wait for each other
    /// in the kernel, because a write that makes a file longer locks the file. A slow disk needs two to stay busy.
    var threadsForFile: Int { isDiskSlow ? 2 : 1 }

    func recordDirectWrite(_ nanoseconds: UInt64) {
        // Two writers may lose each other's sample. The average tolerates this.
        directWrite.store((directWrite.load(ordering: .relaxed) * 7 + nanoseconds) / 8, ordering: .relaxed)
    }

    /// Records that `count` more blocks wait for a thread, or fewer if `count` is negative.
    func record(waiting count: Int) { waiting.add(count, ordering: .relaxed) }

    /// Runs `work` on a writer thread.
    func submit(_ work: @escaping @Sendable () -> Void) { writers.submit(work) }

    func release(_ block: Block) {
        if block.release() { pool.recycle(block) }
    }

    /// Writes all of `count` bytes; nil or an errno.
    func writeAll(_ descriptor: Int32, _ bytes: UnsafeRawPointer, _ count: Int, at offset: Int64) -> Int32? {
        var done = 0
        while done < count {
            let written = write(descriptor, bytes + done, count - done, offset + Int64(done))
            if written > 0 {
                // After a short write the remainder is written: the next call shows why the write was short.
                done += written
            } else if written == 0 {
                return EIO
            } else if errno != EINTR {
                return errno
            }
        }
        return nil
    }
}
