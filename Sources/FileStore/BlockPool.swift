import Glibc
import Synchronization

/// The memory between the network and the disk, and its bound: when it is used up, readers wait.
///
/// Fast streams get large blocks, which are worth a direct write each; slow ones small blocks, which they give back between
/// two readings: a thousand of them need a few hundred. Blocks are made as they are needed, and never given back.
final class BlockPool: Sendable {
    private struct State: Sendable {
        var large: [Block] = []
        var largeMade = 0
        var small: [Block] = []
        var smallMade = 0
        /// Holders of one page: as many as slow streams have had at once.
        var pages: [Block] = []
        /// Those who found no block, in order; each is called once when there is one.
        var waitingForLarge: [@Sendable () -> Void] = []
        var waitingForSmall: [@Sendable () -> Void] = []

        /// A large block also serves who wants a small one; who wants a large one may have come to need a small one.
        mutating func next(large: Bool) -> (@Sendable () -> Void)? {
            let preferLarge = large ? !waitingForLarge.isEmpty : waitingForSmall.isEmpty
            if preferLarge { return waitingForLarge.isEmpty ? nil : waitingForLarge.removeFirst() }
            return waitingForSmall.isEmpty ? nil : waitingForSmall.removeFirst()
        }
    }

    let largeLimit: Int
    private let smallLimit: Int
    private let state: Mutex<State>

    /// The largest numbers of blocks.
    init(large: Int, small: Int) {
        (largeLimit, smallLimit) = (large, small)
        state = Mutex(State())
    }

    deinit {
        // Blocks in use hold no pool, so all have come back when the last user of the pool is gone, or are lost with it.
        state.withLock { state in
            for block in state.large + state.small + state.pages { free(block.memory) }
        }
    }

    /// Memory of the blocks that were made.
    var bytes: Int {
        state.withLock {
            $0.largeMade * Block.largeSize + $0.smallMade * Block.smallSize + $0.pages.count * Block.alignment
        }
    }

    /// A block that is just large enough for a rest.
    func takeHolder(pages: Int) -> Block {
        let used = pages == 1 ? state.withLock { $0.pages.popLast() } : nil
        return used ?? .make(pages * Block.alignment)
    }

    /// A block of the size asked for, or nil; then `wake` is called once when one has come back.
    func take(large: Bool, orCall wake: @escaping @Sendable () -> Void) -> Block? {
        let block = state.withLock { state -> Block? in
            if let block = large ? takeLarge(&state) : takeSmall(&state) ?? takeLarge(&state) { return block }
            if large { state.waitingForLarge.append(wake) } else { state.waitingForSmall.append(wake) }
            return nil
        }
        // One that stands in for a small block holds little, and should take no more memory than that.
        if large { block?.useHugePage() }
        return block
    }

    /// A large block if one is free; nobody is called otherwise.
    func takeLarge() -> Block? {
        let block = state.withLock { takeLarge(&$0) }
        block?.useHugePage()
        return block
    }

    func give(_ block: Block) {
        if block.isHolder {
            guard block.size == Block.alignment else { return free(block.memory) }
            return state.withLock { $0.pages.append(block) }
        }
        let wake = state.withLock { state in
            if block.isLarge { state.large.append(block) } else { state.small.append(block) }
            return state.next(large: block.isLarge)
        }
        wake?()
    }

    /// Calls the next of those who wait: one who was called had no use for the block any more.
    func passOn() {
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
