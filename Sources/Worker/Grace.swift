import Synchronization

/// The time that a worker has for its shutdown. All services of the worker share it.
final class Grace: Sendable {
    private let time: Duration
    private let deadline = Mutex<ContinuousClock.Instant?>(nil)

    init(_ time: Duration) { self.time = time }

    /// The shutdown begins. Returns when it has to end.
    func begin() -> ContinuousClock.Instant {
        let end = ContinuousClock.now + time
        deadline.withLock { $0 = end }
        return end
    }

    var isEnding: Bool { deadline.withLock { $0 != nil } }

    var hasEnded: Bool { deadline.withLock { $0.map { $0 < .now } ?? false } }

    /// Returns when a run that is being stopped has to be settled, so that Redis can still receive that.
    func sleepUntilSettling() async {
        // Tasks are cancelled shortly before the shutdown begins.
        let end = deadline.withLock { $0 } ?? .now + time
        try? await Task.sleep(until: end - min(.seconds(1), time / 4), clock: .continuous)
    }

    /// Sleeps, but not beyond the end of the grace time. Also in a cancelled task, which would spin otherwise.
    func sleep(for duration: Duration) async {
        let end = ContinuousClock.now + duration
        let limit = deadline.withLock { $0 } ?? end
        await Task { try? await Task.sleep(until: min(end, limit), clock: .continuous) }.value
    }
}
