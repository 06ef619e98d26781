package import Executors
import Glibc
import Synchronization

/// The way from the network to the disk: a bounded pool of blocks, and threads that write them. One for a process.
///
/// An empty pool holds the readers back: memory stays bounded however slow the disk is.
package final class WritePath: Sendable {
    private struct Pool {
        var large: [Block] = []
        var small: [Block] = []
        var smallMade = 0
        var hungry = false
    }

    private struct Work {
        var queue: [(Block, OutputFile)] = []
        var stopped = false
    }

    private static let smallLimit = 2048
    private let pool: Mutex<Pool>
    private let work = Monitor(Work())
    /// Blocking calls other than writing: opening, syncing, linking, hashing.
    package let blocking = BlockingPool(name: "haul-file", limit: 16)
    /// Called on a writer's thread when a block comes free after somebody found none.
    private let onRoom = Mutex<(@Sendable () -> Void)?>(nil)

    /// `blocks` of 1 MiB, and `writers` threads.
    package init(blocks: Int = 24, writers: Int = 2) {
        pool = Mutex(Pool(large: (0..<blocks).map { _ in Block(size: Block.large) }))
        for index in 0..<writers { startThread(name: "haul-write-\(index)") { [work] in Self.write(work) } }
    }

    deinit { work.withLock { $0.stopped = true } }

    func whenRoom(_ handler: @escaping @Sendable () -> Void) { onRoom.withLock { $0 = handler } }

    /// A block, nil if there is none; `whenRoom` tells when it is worth asking again.
    func take(large: Bool) -> Block? {
        pool.withLock { pool in
            if large, let block = pool.large.popLast() { return block }
            if let block = pool.small.popLast() { return block }
            if !large, pool.smallMade < Self.smallLimit {
                pool.smallMade += 1
                return Block(size: Block.small)
            }
            pool.hungry = true
            return nil
        }
    }

    func give(_ block: Block) {
        let wake = pool.withLock { pool in
            if block.size == Block.large { pool.large.append(block) } else { pool.small.append(block) }
            defer { pool.hungry = false }
            return pool.hungry
        }
        if wake { onRoom.withLock { $0 }?() }
    }

    func submit(_ block: Block, to file: OutputFile) { work.withLock { $0.queue.append((block, file)) } }

    private static func write(_ work: Monitor<Work>) {
        while let (block, file) = work.waitWhile(
            { $0.queue.isEmpty && !$0.stopped }, then: { $0.queue.isEmpty ? nil : $0.queue.removeFirst() })
        {
            file.write(block)
        }
    }
}
