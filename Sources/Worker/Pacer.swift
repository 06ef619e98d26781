import HaulBus
import Synchronization

/// Calls `pace()` between the ticks, so that jobs begin on time that are due, or that wait for a limit of starts
/// (Lua/tick/pacer.lua). Redis appoints one worker at a time. If that worker fails, the tick of another one
/// replaces it.
final class Pacer: Sendable {
    private let queue: Queue
    /// When the next call is made; nil if none is planned.
    private let next = Mutex<ContinuousClock.Instant?>(nil)
    private let (wakes, wake) = AsyncStream<ContinuousClock.Instant>.makeStream()

    init(_ queue: Queue) { self.queue = queue }

    /// Makes a call after this duration, unless one is planned before.
    func begin(after duration: Duration) {
        let time = ContinuousClock.now + duration
        let isFirst = next.withLock { next in
            if let next, next <= time { return false }
            next = time
            return true
        }
        if isFirst { wake.yield(time) }
    }

    /// Runs until the task is cancelled.
    func run(as worker: @escaping @Sendable () -> WorkerIdentity) async {
        await withDiscardingTaskGroup { group in
            for await time in wakes {
                group.addTask {
                    try? await Task.sleep(until: time, tolerance: .zero)
                    // An earlier call may have replaced this one.
                    let isNext = self.next.withLock { next in
                        defer { if next == time { next = nil } }
                        return next == time
                    }
                    guard isNext, !Task.isCancelled else { return }
                    if let wait = try? await self.queue.pace(worker()) { self.begin(after: wait) }
                }
            }
            group.cancelAll()
        }
    }
}
