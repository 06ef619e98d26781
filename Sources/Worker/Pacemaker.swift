import HaulBus

/// Asks Redis, between the ticks, to let jobs begin that wait for a start (Lua/starts.lua). Redis wants it of one worker at a time; where that
/// one fails, a tick finds the next.
final class Pacemaker: Sendable {
    private let queue: Queue
    private let (waits, wait) = AsyncStream<Duration>.makeStream(bufferingPolicy: .bufferingNewest(1))

    init(_ queue: Queue) { self.queue = queue }

    /// Notes what a tick says.
    func begin(after duration: Duration) { wait.yield(duration) }

    /// Asks until the task is cancelled.
    func run(as worker: WorkerIdentity) async {
        for await first in waits {
            var next: Duration? = first
            while let wait = next, !Task.isCancelled {
                try? await Task.sleep(for: wait)
                next = try? await queue.pace(worker)
            }
        }
    }
}
