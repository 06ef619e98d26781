package import Executors
import Glibc
import Synchronization

/// The way from the network to the disk: a bounded pool of blocks and the threads that write them, one per process.
///
/// Nothing here runs on an event loop but the copy into a block.
package final class WritePath: Sendable {
    /// `pwrite`, or what a test puts in its place. Returns the bytes written, or -1 with `errno` set.
    package typealias Write =
        @Sendable (
            _ descriptor: Int32, _ bytes: UnsafeRawPointer, _ count: Int, _ offset: Int64
        ) -> Int

    /// `fdatasync`, or what a test puts in its place. Returns 0 or an errno.
    package typealias Sync = @Sendable (_ descriptor: Int32) -> Int32

    let pool: BlockPool
    /// For fdatasync, fallocate, reading back and hashing.
    package let blocking = BlockingPool(name: "disk", limit: 16)
    private let writers: BlockingPool
    private let write: Write
    let sync: Sync
    /// The moving average of what one write past the page cache takes, in nanoseconds.
    private let directWrite = Atomic<UInt64>(0)
    private static let slowWrite: UInt64 = 8_000_000

    /// - Parameters:
    ///   - blocks: The largest number of 1 MiB blocks.
    ///   - smallBlocks: The largest number of 128 KiB blocks.
    ///   - writers: The number of threads that write.
    package init(
        blocks: Int = 24, smallBlocks: Int = 192, writers: Int = 2,
        write: @escaping Write = { pwrite($0, $1, $2, Int($3)) },
        sync: @escaping Sync = { fdatasync($0) == 0 ? 0 : errno }
    ) {
        pool = BlockPool(large: blocks, small: smallBlocks)
        (self.write, self.sync) = (write, sync)
        self.writers = BlockingPool(name: "disk-writer", limit: writers)
    }

    /// Whether blocks pile up because the disk takes long, not because there are many.
    var isDiskBehind: Bool {
        directWrite.load(ordering: .relaxed) > Self.slowWrite && writers.backlog > pool.largeLimit / 2
    }

    func noteDirectWrite(_ nanoseconds: UInt64) {
        // Two writers may lose each other's sample, which an average survives.
        directWrite.store((directWrite.load(ordering: .relaxed) * 7 + nanoseconds) / 8, ordering: .relaxed)
    }

    func submit(_ block: Block, of file: OutputFile, from writer: FileWriter) {
        writers.submit {
            file.write(block)
            writer.blockWritten()
        }
    }

    func finish(_ block: Block) {
        if block.release() { pool.give(block) }
    }

    /// Writes all of `count` bytes; nil or an errno.
    func writeAll(_ descriptor: Int32, _ bytes: UnsafeRawPointer, _ count: Int, at offset: Int64) -> Int32? {
        var done = 0
        while done < count {
            let written = write(descriptor, bytes + done, count - done, offset + Int64(done))
            if written > 0 {
                // A short write is followed by the rest: the next one says why it was short.
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
