import Dispatch

/// Holds threads until it is opened: what a server's handler waits for, so that a test says when it answers.
package final class Latch: Sendable {
    private let turnstile = DispatchSemaphore(value: 0)

    package init() {}

    package func open() { turnstile.signal() }

    /// Blocks this thread, which must not be one of Swift's cooperative ones.
    package func wait() {
        turnstile.wait()
        // For whoever comes after.
        turnstile.signal()
    }
}
