import Synchronization

/// The time that a worker has for its shutdown. All services of the worker share it.
final class Grace: Sendable {
    private let deadline = Mutex<ContinuousClock.Instant?>(nil)

    /// The shutdown begins, and ends at `deadline`.
    func begin(until deadline: ContinuousClock.Instant) { self.deadline.withLock { $0 = deadline } }

    var isEnding: Bool { deadline.withLock { $0 != nil } }

    var isOver: Bool { deadline.withLock { $0.map { $0 < .now } ?? false } }

    /// Sleeps, but not beyond the end of the grace time. Also in a cancelled task, which would spin otherwise.
    func sleep(for duration: Duration) async {
        let end = ContinuousClock.now + duration
        let limit = deadline.withLock { $0 } ?? end
        await Task { try? await Task.sleep(until: min(end, limit), clock: .continuous) }.value
    }
}
