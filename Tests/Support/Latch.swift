import Dispatch

/// Blocks threads until a test opens the latch. A server's handler waits at a latch, so that the test decides when the
/// server responds.
package final class Latch: Sendable {
    private let turnstile = DispatchSemaphore(value: 0)

    package init() {}

    package func open() { turnstile.signal() }

    /// Blocks the calling thread. That thread must not belong to Swift's cooperative pool.
    package func wait() {
        turnstile.wait()
        // Let the next waiting thread pass, too.
        turnstile.signal()
    }
}
