import Glibc
import Synchronization

/// The memory between the network and the disk. When it is used up, readers wait (back-pressure).
///
/// Fast streams get large blocks, each of which is worth a direct write. Slow streams get small blocks and return them
/// between two reads, so that a thousand streams need a few hundred blocks. Blocks are made on demand and retained
/// until the pool ends.
final class BlockPool: Sendable {
    private struct State: Sendable {
        var large: [Block] = []
        var largeMade = 0
        var small: [Block] = []
        var smallMade = 0
        /// Free blocks of one page for remainders. There are as many as slow streams have used at the same time.
        var pages: [Block] = []
        /// Callers that found no block, in order. Each is called once when there is a block.
        var waitingForLarge: [@Sendable () -> Void] = []
        var waitingForSmall: [@Sendable () -> Void] = []

        /// The next caller to wake. A large block also serves a caller that waits for a small one. A caller that waited
        /// for a large block may need only a small one by now.
        mutating func next(large: Bool) -> (@Sendable () -> Void)? {
            let preferLarge = large ? !waitingForLarge.isEmpty : waitingForSmall.isEmpty
            if preferLarge { return waitingForLarge.isEmpty ? nil : waitingForLarge.removeFirst() }
            return waitingForSmall.isEmpty ? nil : waitingForSmall.removeFirst()
        }
    }

    let largeLimit: Int
    private let smallLimit: Int
    private let state: Mutex<State>

    /// - Parameters:
    ///   - large: The maximum number of large blocks.
    ///   - small: The maximum number of small blocks.
    init(large: Int, small: Int) {
        (largeLimit, smallLimit) = (large, small)
        state = Mutex(State())
    }

    deinit {
        // Blocks in use do not retain the pool, but its users do. Without a user, a block that was not returned is lost.
        state.withLock { state in
            for block in state.large + state.small + state.pages { free(block.memory) }
        }
    }

    /// The memory of the blocks that were made: bytes.
    var bytes: Int {
        state.withLock {
            $0.largeMade * Block.largeSize + $0.smallMade * Block.smallSize + $0.pages.count * Block.alignment
        }
    }

    /// A block that is just large enough for a remainder of `pages` pages.
    func takeRemainderBlock(pages: Int) -> Block {
        let used = pages == 1 ? state.withLock { $0.pages.popLast() } : nil
        return used ?? .make(pages * Block.alignment)
    }

    /// A block of the requested size, or a large one instead of a small one. If there is none: nil, and `wake` is
    /// called once when a block has been returned.
    func take(large: Bool, orCall wake: @escaping @Sendable () -> Void) -> Block? {
        let block = state.withLock { state -> Block? in
            if let block = large ? takeLarge(&state) : takeSmall(&state) ?? takeLarge(&state) { return block }
            if large { state.waitingForLarge.append(wake) } else { state.waitingForSmall.append(wake) }
            return nil
        }
        // A large block that replaces a small one holds little, so it takes no huge page.
        if large { block?.useHugePage() }
        return block
    }

    /// A large block if one is free. Otherwise nil, and there is no call later.
    func takeLarge() -> Block? {
        let block = state.withLock { takeLarge(&$0) }
        block?.useHugePage()
        return block
    }

    func recycle(_ block: Block) {
        if block.isForRemainder {
            guard block.size == Block.alignment else { return free(block.memory) }
            return state.withLock { $0.pages.append(block) }
        }
        let wake = state.withLock { state in
            if block.isLarge { state.large.append(block) } else { state.small.append(block) }
            return state.next(large: block.isLarge)
        }
        wake?()
    }

    /// Calls the next waiting caller, because the one that was called needs no block any more.
    func wakeNext() {
        let wake = state.withLock { state in
            if !state.large.isEmpty || state.largeMade < largeLimit { return state.next(large: true) }
            return !state.small.isEmpty || state.smallMade < smallLimit ? state.next(large: false) : nil
        }
        wake?()
    }

    private func takeLarge(_ state: inout State) -> Block? {
        if let block = state.large.popLast() { return block }
        guard state.largeMade < largeLimit else { return nil }
        state.largeMade += 1
        return .make(Block.largeSize)
    }

    private func takeSmall(_ state: inout State) -> Block? {
        if let block = state.small.popLast() { return block }
        guard state.smallMade < smallLimit else { return nil }
        state.smallMade += 1
        return .make(Block.smallSize)
    }
}
