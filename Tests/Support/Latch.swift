import Executors

/// Holds threads until it is opened: what a server's handler waits for, so that a test says when it answers.
package final class Latch: Sendable {
    private let isOpen = Monitor(false)

    package init() {}

    package func open() { isOpen.withLock { $0 = true } }

    /// Blocks this thread, which must not be one of Swift's cooperative ones.
    package func wait() { isOpen.waitWhile({ !$0 }, then: { _ in }) }
}
