import Glibc
import Synchronization

/// The memory between the network and the disk, and its bound: when it is used up, readers wait.
///
/// Fast streams get large blocks, which are worth a direct write each; slow ones small blocks, of which a thousand cost
/// 64 MiB. Memory is never given back, and small blocks are made as they are needed.
final class BlockPool: Sendable {
    private struct State: Sendable {
        var large: [Block] = []
        var small: [Block] = []
        var smallMade = 0
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

    let largeCount: Int
    private let smallLimit: Int
    private let state: Mutex<State>

    /// Large blocks are touched here, so that no page fault happens on the loop.
    init(large: Int, small: Int) {
        largeCount = large
        smallLimit = small
        let blocks = Self.make(large, size: Block.largeSize, touch: true)
        state = Mutex(State(large: blocks))
    }

    deinit {
        // Blocks in use hold no pool, so all have come back when the last user of the pool is gone, or are lost with it.
        state.withLock { state in
            for block in state.large { free(block.memory) }
            for block in state.small { free(block.memory) }
        }
    }

    /// A block of the size asked for, or nil; then `wake` is called once when one has come back.
    func take(large: Bool, orCall wake: @escaping @Sendable () -> Void) -> Block? {
        state.withLock { state in
            if let block = large ? state.large.popLast() : takeSmall(&state) ?? state.large.popLast() { return block }
            if large { state.waitingForLarge.append(wake) } else { state.waitingForSmall.append(wake) }
            return nil
        }
    }

    /// A large block if one is free; nobody is called otherwise.
    func takeLarge() -> Block? { state.withLock { $0.large.popLast() } }

    func give(_ block: Block) {
        let wake = state.withLock { state in
            if block.isLarge { state.large.append(block) } else { state.small.append(block) }
            return state.next(large: block.isLarge)
        }
        wake?()
    }

    /// Calls the next of those who wait: one who was called had no use for the block any more.
    func passOn() {
        let wake = state.withLock { state in
            if !state.large.isEmpty { return state.next(large: true) }
            return !state.small.isEmpty || state.smallMade < smallLimit ? state.next(large: false) : nil
        }
        wake?()
    }

    var hasWaiting: Bool { state.withLock { !$0.waitingForLarge.isEmpty || !$0.waitingForSmall.isEmpty } }

    private func takeSmall(_ state: inout State) -> Block? {
        if state.small.isEmpty, state.smallMade < smallLimit {
            state.small = Self.make(1, size: Block.smallSize, touch: false)
            state.smallMade += 1
        }
        return state.small.popLast()
    }

    private static func make(_ count: Int, size: Int, touch: Bool) -> [Block] {
        (0..<count).map { _ in
            let memory = aligned_alloc(Block.alignment, size)!
            if touch { memset(memory, 0, size) }
            return Block(memory: memory, size: size)
        }
    }
}
