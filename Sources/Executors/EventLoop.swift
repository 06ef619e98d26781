import CHaulLinux
import Glibc
import Synchronization

/// One thread with epoll and timers, as an actor's executor, or a task's.
///
/// An actor that names this loop as its `unownedExecutor` runs on the loop's thread: it may own sockets and C libraries
/// that are not thread-safe, and the handlers that it registers are already isolated to it (`assumeIsolated`). Nothing
/// that blocks may run here; `BlockingPool` is for that.
///
/// A task that prefers the loop (`withTaskExecutorPreference`) runs here wherever it is not on another actor, so that it
/// reaches the loop's actors without waking a thread.
///
/// It has more than eight properties because a loop is two descriptors, an inbox that other threads fill, four atomics that
/// they read, and its thread's own tables.
///
/// The loop runs until `stop()`. An actor's deinit is the place to call it: no job can arrive after that.
package final class EventLoop: SerialExecutor, TaskExecutor, @unchecked Sendable {
    /// What a file descriptor is ready for, or is asked to be.
    package struct Readiness: OptionSet, Sendable {
        package let rawValue: UInt32
        package init(rawValue: UInt32) { self.rawValue = rawValue }

        package static let readable = Readiness(rawValue: EPOLLIN.rawValue)
        package static let writable = Readiness(rawValue: EPOLLOUT.rawValue)
        /// An error or a hang-up; reported whether asked for or not.
        package static let failed = Readiness(rawValue: EPOLLERR.rawValue | EPOLLHUP.rawValue)
    }

    /// A timer that has been scheduled; an unknown or fired one may be cancelled without effect.
    package struct Timer: Hashable, Sendable { fileprivate let id: UInt64 }

    private struct Watch {
        /// Tells a descriptor from an earlier, closed one of the same number whose event is still in the batch.
        let generation: UInt32
        let handler: (Readiness) -> Void
    }

    private let name: String
    private let epoll: Int32
    private let wakeup: Int32
    private let inbox = Mutex<[UnownedJob]>([])
    /// Whether the loop will look at its inbox before it sleeps: then nobody needs to wake it.
    private let awake = Atomic(true)
    private let stopped = Atomic(false)
    private let thread = Atomic<UInt>(0)
    private let turned = Atomic<UInt64>(0)

    // Touched on the loop's thread only.
    private var watches: [Int32: Watch] = [:]
    private var generation: UInt32 = 0
    private var timers = TimerQueue()
    private var endings: [() -> Void] = []
    /// The jobs of this turn; changes places with the inbox, so that neither is made anew.
    private var batch: [UnownedJob] = []

    /// From so many watches on, an idle loop lets events gather for a moment before it looks at them: a thousand slow
    /// sockets would wake it ten thousand times a second otherwise. A busy loop never waits, and jobs never do.
    private static let gatheringThreshold = 64
    private static let gatheringMilliseconds: Int32 = 5
    private static let rounds = 16

    /// Starts the loop's thread. `name` is shown by debuggers (15 bytes).
    package init(name: String) {
        self.name = name
        epoll = epoll_create1(Int32(EPOLL_CLOEXEC))
        wakeup = eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK))
        precondition(epoll >= 0 && wakeup >= 0, "no file descriptors left to start the \(name) loop")
        var event = epoll_event(events: EPOLLIN.rawValue, data: epoll_data_t(u64: UInt64(UInt32(bitPattern: wakeup))))
        epoll_ctl(epoll, EPOLL_CTL_ADD, wakeup, &event)
        startThread(name: name) { self.run() }
    }

    deinit {
        close(epoll)
        close(wakeup)
    }

    /// Ends the loop's thread after the turn that is running. Callable from any thread.
    package func stop() {
        stopped.store(true, ordering: .sequentiallyConsistent)
        wake()
    }

    /// The monotonic time in nanoseconds at which the loop last turned: its health is how long ago that was while it
    /// has work, which a ping cannot tell.
    package var lastTurn: UInt64 { turned.load(ordering: .relaxed) }

    // MARK: Executor

    package func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        inbox.withLock { $0.append(job) }
        wake()
    }

    package func isIsolatingCurrentContext() -> Bool? { isCurrent }

    package func checkIsolated() { precondition(isCurrent, "not on the \(name) loop's thread") }

    private var isCurrent: Bool { thread.load(ordering: .relaxed) == UInt(pthread_self()) }

    // MARK: Descriptors and timers, on the loop's thread only

    /// Calls `handler` whenever `descriptor` is ready (level-triggered). Replaces an earlier watch of it.
    package func watch(_ descriptor: Int32, for readiness: Readiness, handler: @escaping (Readiness) -> Void) {
        checkIsolated()
        generation &+= 1
        let known = watches.updateValue(Watch(generation: generation, handler: handler), forKey: descriptor) != nil
        control(known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, descriptor, readiness)
    }

    /// Changes what a watched descriptor is watched for.
    package func change(_ descriptor: Int32, to readiness: Readiness) {
        checkIsolated()
        guard watches[descriptor] != nil else { return }
        control(EPOLL_CTL_MOD, descriptor, readiness)
    }

    /// Ends a watch; must be called before the descriptor is closed. An unwatched descriptor is ignored.
    package func unwatch(_ descriptor: Int32) {
        checkIsolated()
        guard watches.removeValue(forKey: descriptor) != nil else { return }
        var event = epoll_event()
        epoll_ctl(epoll, EPOLL_CTL_DEL, descriptor, &event)
    }

    /// Calls `handler` once, at `deadline` or soon after.
    package func schedule(at deadline: ContinuousClock.Instant, handler: @escaping () -> Void) -> Timer {
        checkIsolated()
        return Timer(id: timers.schedule(at: deadline, handler: handler))
    }

    package func cancel(_ timer: Timer) {
        checkIsolated()
        timers.cancel(timer.id)
    }

    /// Calls `handler` once, when all of this turn's events, jobs and timers are done and before the loop sleeps: what a
    /// turn gathers can then be done at once.
    package func atEndOfTurn(_ handler: @escaping () -> Void) {
        checkIsolated()
        endings.append(handler)
    }

    // MARK: The thread

    private func run() {
        thread.store(UInt(pthread_self()), ordering: .relaxed)
        var events = [epoll_event](repeating: epoll_event(), count: 256)
        while !stopped.load(ordering: .acquiring) {
            runJobs()
            runTimers()
            endTurn()
            awake.store(false, ordering: .sequentiallyConsistent)
            let count = wait(&events)
            awake.store(true, ordering: .sequentiallyConsistent)
            turned.store(monotonicNanoseconds(), ordering: .relaxed)
            // EINTR is no failure: there are no events, and the next turn asks again.
            for event in events.prefix(Int(max(count, 0))) { dispatch(event) }
        }
        runJobs()
    }

    private func wait(_ events: inout [epoll_event]) -> Int32 {
        let timeout = timeout()
        guard watches.count >= Self.gatheringThreshold, timeout != 0 else {
            return epoll_wait(epoll, &events, Int32(events.count), timeout)
        }
        let ready = epoll_wait(epoll, &events, Int32(events.count), 0)
        guard ready == 0 else { return ready }
        var job = pollfd(fd: wakeup, events: Int16(POLLIN), revents: 0)
        poll(&job, 1, timeout < 0 ? Self.gatheringMilliseconds : min(timeout, Self.gatheringMilliseconds))
        return epoll_wait(epoll, &events, Int32(events.count), self.timeout())
    }

    private func dispatch(_ event: epoll_event) {
        let descriptor = Int32(bitPattern: UInt32(truncatingIfNeeded: event.data.u64))
        if descriptor == wakeup {
            var count: UInt64 = 0
            read(wakeup, &count, 8)
            return
        }
        guard let watch = watches[descriptor], watch.generation == UInt32(truncatingIfNeeded: event.data.u64 >> 32)
        else {
            return
        }
        watch.handler(Readiness(rawValue: event.events))
    }

    /// Runs what has come in, and what that brings in its turn; after some rounds the descriptors have theirs.
    private func runJobs() {
        for _ in 0..<Self.rounds {
            inbox.withLock { swap(&$0, &batch) }
            if batch.isEmpty { return }
            for job in batch {
                job.runSynchronously(isolatedTo: asUnownedSerialExecutor(), taskExecutor: asUnownedTaskExecutor())
            }
            batch.removeAll(keepingCapacity: true)
            endTurn()
        }
    }

    private func runTimers() {
        guard timers.count > 0 else { return }
        // A handler may schedule for the past: that is for the next turn.
        let (now, last) = (ContinuousClock.now, timers.lastID)
        while let handler = timers.popDue(at: now, upTo: last) { handler() }
    }

    private func endTurn() {
        while !endings.isEmpty {
            for handler in exchange(&endings, with: []) { handler() }
        }
    }

    /// Milliseconds that epoll may sleep: until the next timer, rounded up so that it is due when we wake. To be asked
    /// after `awake` was cleared: what arrives from then on wakes us.
    private func timeout() -> Int32 {
        if stopped.load(ordering: .sequentiallyConsistent) || inbox.withLock({ !$0.isEmpty }) { return 0 }
        guard let nextDeadline = timers.nextDeadline else { return -1 }
        let (seconds, attoseconds) = (nextDeadline - .now).components
        guard seconds >= 0, attoseconds >= 0 else { return 0 }
        return Int32(clamping: seconds * 1000 + attoseconds / 1_000_000_000_000_000 + 1)
    }

    private func wake() {
        guard !awake.exchange(true, ordering: .sequentiallyConsistent) else { return }
        var one: UInt64 = 1
        write(wakeup, &one, 8)
    }

    private func control(_ operation: Int32, _ descriptor: Int32, _ readiness: Readiness) {
        let generation = watches[descriptor]?.generation ?? 0
        let tag = UInt64(generation) << 32 | UInt64(UInt32(bitPattern: descriptor))
        var event = epoll_event(events: readiness.rawValue, data: epoll_data_t(u64: tag))
        if epoll_ctl(epoll, operation, descriptor, &event) != 0, operation == EPOLL_CTL_MOD, errno == ENOENT {
            // libcurl closed the descriptor and a new one got its number: the kernel forgot the old watch.
            epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event)
        }
    }
}
