import HaulBus

/// Calls `pace()` between the ticks, so that jobs that wait for a limit of starts can begin (Lua/limits/starts.lua).
/// Redis appoints one worker at a time. If that worker fails, another one's tick takes its place.
final class StartPacer: Sendable {
    private let queue: Queue
    private let (waits, wait) = AsyncStream<Duration>.makeStream(bufferingPolicy: .bufferingNewest(1))

    init(_ queue: Queue) { self.queue = queue }

    /// Begins to call after this duration, as a tick's reply asks.
    func begin(after duration: Duration) { wait.yield(duration) }

    /// Runs until the task is cancelled.
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
