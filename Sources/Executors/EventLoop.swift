import CHaulLinux
import Glibc
import Synchronization

/// One thread with epoll and timers. It is an executor for actors and for tasks.
///
/// An actor that names this loop as its `unownedExecutor` runs on the loop's thread. So the actor may own sockets and C
/// libraries that are not thread-safe, and the handlers that the actor registers are already isolated to the actor
/// (`assumeIsolated`). Code on the loop's thread must not block; blocking calls belong on a `BlockingPool`.
///
/// A task that prefers the loop (`withTaskExecutorPreference`) runs on the loop's thread wherever it is not isolated to
/// an actor with another executor. So the task reaches the loop's actors without waking a thread.
///
/// The loop's own thread uses the descriptors and tables alone; other threads only fill the inbox and read the atomics.
/// The loop runs until `stop()`. Call `stop()` in the owning actor's deinit: no job can arrive after that.
package final class EventLoop: SerialExecutor, TaskExecutor, @unchecked Sendable {
    /// The epoll events for which a file descriptor is watched, or that epoll reports for the descriptor.
    package struct Readiness: OptionSet, Sendable {
        package let rawValue: UInt32
        package init(rawValue: UInt32) { self.rawValue = rawValue }

        package static let readable = Readiness(rawValue: EPOLLIN.rawValue)
        package static let writable = Readiness(rawValue: EPOLLOUT.rawValue)
        /// An error or a hang-up. epoll reports these events without being asked for them.
        package static let failed = Readiness(rawValue: EPOLLERR.rawValue | EPOLLHUP.rawValue)
    }

    /// A scheduled timer. To cancel a timer that has fired or was cancelled has no effect.
    package struct Timer: Hashable, Sendable { fileprivate let id: UInt64 }

    private struct Watch {
        let readiness: Readiness
        /// Distinguishes this watch from an earlier watch of the same descriptor number. An event of a descriptor that
        /// was closed may still be in the current batch after the number has been reused.
        let generation: UInt32
        let handler: (Readiness) -> Void
    }

    private let name: String
    private let epoll: Int32
    private let wakeup: Int32
    private let inbox = Mutex<[UnownedJob]>([])
    /// Whether the loop will read its inbox before it sleeps. If so, a thread that adds a job does not need to wake it.
    private let awake = Atomic(true)
    private let stopped = Atomic(false)
    private let thread = Atomic<UInt>(0)

    // Used on the loop's thread only.
    private var watches: [Int32: Watch] = [:]
    /// The watches that have ended, and that epoll still has.
    private var resting: [Int32: Watch] = [:]
    private var generation: UInt32 = 0
    private var timers = TimerQueue()
    private var endOfTurnHandlers: [() -> Void] = []
    /// The jobs of this turn. The array is swapped with the inbox, so that both keep their memory.
    private var batch: [UnownedJob] = []

    /// With this many watches or more, an idle loop lets events collect for a few milliseconds before it reads them.
    /// Otherwise a thousand slow sockets would wake it ten thousand times a second. A loop that finds events ready does
    /// not wait, and a new job ends the wait.
    private static let gatheringThreshold = 64
    private static let gatheringMilliseconds: Int32 = 5
    /// How many batches of jobs a turn runs before it reads epoll's events, so that jobs cannot starve descriptors.
    private static let maxBatchesPerTurn = 16

    /// Starts the loop's thread. Debuggers show `name` (15 bytes).
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

    /// Ends the loop's thread after the current turn. Callable from any thread.
    package func stop() {
        stopped.store(true, ordering: .sequentiallyConsistent)
        wake()
    }

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

    /// Calls `handler` whenever `descriptor` is ready (level-triggered). Replaces an earlier watch of `descriptor`.
    package func watch(_ descriptor: Int32, for readiness: Readiness, handler: @escaping (Readiness) -> Void) {
        checkIsolated()
        let rested = resting.removeValue(forKey: descriptor)
        if let rested, rested.readiness == readiness {
            watches[descriptor] = Watch(readiness: readiness, generation: rested.generation, handler: handler)
            return
        }
        generation &+= 1
        let watch = Watch(readiness: readiness, generation: generation, handler: handler)
        let isKnown = watches.updateValue(watch, forKey: descriptor) != nil || rested != nil
        control(isKnown ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, descriptor, readiness)
    }

    /// Changes the events for which a descriptor is watched. Ignores a descriptor that is not watched.
    package func change(_ descriptor: Int32, to readiness: Readiness) {
        checkIsolated()
        guard let watch = watches[descriptor] else { return }
        watches[descriptor] = Watch(readiness: readiness, generation: watch.generation, handler: watch.handler)
        control(EPOLL_CTL_MOD, descriptor, readiness)
    }

    /// Ends a watch. Must be called before the descriptor is closed. Ignores a descriptor that is not watched.
    package func unwatch(_ descriptor: Int32) {
        checkIsolated()
        let isKnown = watches.removeValue(forKey: descriptor) != nil
        guard resting.removeValue(forKey: descriptor) != nil || isKnown else { return }
        remove(descriptor)
    }

    /// Ends a watch of a descriptor that is likely to be watched again soon, for the same events. epoll keeps the
    /// descriptor until it reports an event that no task waits for. `forget` must be called before the descriptor is
    /// closed.
    package func rest(_ descriptor: Int32) {
        checkIsolated()
        resting[descriptor] = watches.removeValue(forKey: descriptor)
    }

    /// Forgets a descriptor that is about to be closed, by which epoll loses it, too.
    package func forget(_ descriptor: Int32) {
        checkIsolated()
        resting[descriptor] = nil
    }

    private func remove(_ descriptor: Int32) {
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

    /// Calls `handler` once, after the current batch of jobs or after the turn's events and timers, and always before
    /// the loop sleeps. So the output of many jobs and events can be written in one system call.
    package func atEndOfTurn(_ handler: @escaping () -> Void) {
        checkIsolated()
        endOfTurnHandlers.append(handler)
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
            // -1 is EINTR: there are no events, and the next turn calls epoll_wait again.
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
        if resting.removeValue(forKey: descriptor) != nil { return remove(descriptor) }
        guard let watch = watches[descriptor], watch.generation == UInt32(truncatingIfNeeded: event.data.u64 >> 32)
        else {
            return
        }
        watch.handler(Readiness(rawValue: event.events))
    }

    /// Runs the jobs of the inbox, and the jobs that these enqueue, for at most `maxBatchesPerTurn` batches.
    private func runJobs() {
        for _ in 0..<Self.maxBatchesPerTurn {
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
        // If a handler schedules a timer for the past, its id is higher than `last`, so it fires in the next turn.
        let (now, last) = (ContinuousClock.now, timers.lastID)
        while let handler = timers.popDue(at: now, upTo: last) { handler() }
    }

    private func endTurn() {
        while !endOfTurnHandlers.isEmpty {
            for handler in exchange(&endOfTurnHandlers, with: []) { handler() }
        }
    }

    /// Milliseconds for which epoll may sleep, -1 for no limit. The time until the next timer is rounded up, so that
    /// the timer is due on wake-up. To be called while `awake` is false: then a job that arrives later wakes the loop.
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
            // libcurl closed the descriptor, so the kernel removed its watch. A new descriptor got the same number.
            epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event)
        }
    }
}
