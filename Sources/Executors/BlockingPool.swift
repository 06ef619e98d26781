import Glibc
import Synchronization

/// Threads for calls that may block (pwrite, fdatasync, link, getaddrinfo), so that Swift's cooperative threads and the
/// event loops never block. The pool starts threads on demand, up to `limit`. The threads end after the pool is
/// dropped, as soon as no work is left.
///
/// The pool hands each piece of work directly to one idle thread, the one that went idle last, so that each piece
/// causes exactly one wake-up.
package final class BlockingPool: Sendable {
    package typealias Work = @Sendable () -> Void

    private struct State: Sendable {
        /// Work for which no thread was idle.
        var waiting = Deque<Work>()
        var idle: [Sleeper] = []
        var threads = 0
        var isStopped = false
    }

    private let name: String
    private let limit: Int
    /// The threads hold this box and not the pool, so that the pool can be dropped while they run.
    private let state: Box

    private typealias Box = UnfairMutex<State>

    /// - Parameters:
    ///   - name: The name of the threads in debuggers (15 bytes are shown).
    ///   - limit: The maximum number of threads, and so of calls that run at once.
    package init(name: String, limit: Int) {
        (self.name, self.limit) = (name, limit)
        state = Box(State())
    }

    deinit {
        let idle = state.withLock { state in
            state.isStopped = true
            return state.idle
        }
        for sleeper in idle { sleeper.wake(nil) }
    }

    /// Runs `body` on one of the pool's threads. Cancellation has no effect: a blocking call cannot be interrupted.
    ///
    /// - Throws: The error of `body`.
    package func run<T: Sendable, E: Error>(_ body: @escaping @Sendable () throws(E) -> T) async throws(E) -> T {
        let result: Result<T, E> = await withCheckedContinuation { continuation in
            submit { continuation.resume(returning: Result { () throws(E) in try body() }) }
        }
        return try result.get()
    }

    /// Runs `work` on one of the pool's threads. A pool with a `limit` of 1 runs its work in the order of submission.
    package func submit(_ work: @escaping Work) {
        let (sleeper, isNew) = state.withLock { state -> (Sleeper?, Bool) in
            if let sleeper = state.idle.popLast() { return (sleeper, false) }
            state.waiting.append(work)
            guard state.threads < limit else { return (nil, false) }
            state.threads += 1
            return (nil, true)
        }
        sleeper?.wake(work)
        if isNew { startThread(name: name) { [state] in Self.serve(state) } }
    }

    /// Runs all of `bodies` and returns their results in order. The calling thread runs bodies as well, and blocks
    /// until all are done. To be called on a thread that may block.
    package func runAll<T: Sendable>(_ bodies: [@Sendable () -> T]) -> [T] {
        guard !bodies.isEmpty else { return [] }
        let batch = Batch(bodies)
        for _ in 1..<max(1, min(limit, bodies.count)) { submit(batch.work) }
        batch.work()
        return batch.results()
    }

    /// Runs `work` at once if the calling thread belongs to the pool, and submits `work` otherwise. For work that must
    /// run on a thread of the pool, no matter which.
    package func perform(_ work: @escaping Work) {
        if pthread_getspecific(Self.current) == UnsafeMutableRawPointer(Unmanaged.passUnretained(state).toOpaque()) {
            work()
        } else {
            submit(work)
        }
    }

    /// A thread-local value: the box of the pool to which the thread belongs.
    private static let current: pthread_key_t = {
        var key = pthread_key_t()
        pthread_key_create(&key, nil)
        return key
    }()

    private static func serve(_ state: Box) {
        pthread_setspecific(current, Unmanaged.passUnretained(state).toOpaque())
        let sleeper = Sleeper()
        // The scope of `work` is the loop's body, so a sleeping thread does not keep the last closure alive.
        while let work = next(state, sleeper) { work() }
    }

    /// Waits for the next piece of work. nil once the pool is dropped and no work is left: the thread ends.
    private static func next(_ state: Box, _ sleeper: Sleeper) -> Work? {
        let (work, isLast) = state.withLock { state -> (Work?, Bool) in
            if let work = state.waiting.popFirst() { return (work, false) }
            if !state.isStopped { state.idle.append(sleeper) }
            return (nil, state.isStopped)
        }
        return isLast ? nil : work ?? sleeper.sleep()
    }
}

/// Bodies that several threads share: each thread takes the next body until none is left.
private final class Batch<T: Sendable>: Sendable {
    private let bodies: [@Sendable () -> T]
    private let state = Mutex((next: 0, values: [Int: T]()))
    private let finished = Sleeper()

    init(_ bodies: [@Sendable () -> T]) { self.bodies = bodies }

    func work() {
        while true {
            let index = state.withLock { state in
                defer { state.next += 1 }
                return state.next
            }
            guard index < bodies.count else { return }
            let value = bodies[index]()
            let isLast = state.withLock { state in
                state.values[index] = value
                return state.values.count == bodies.count
            }
            if isLast { finished.wake(nil) }
        }
    }

    /// Blocks until the last body is done. To be called once.
    func results() -> [T] {
        _ = finished.sleep()
        return state.withLock { state in bodies.indices.map { state.values[$0]! } }
    }
}

/// A semaphore on which one thread sleeps, and the work with which another thread wakes it.
private final class Sleeper: @unchecked Sendable {
    private let semaphore = UnsafeMutablePointer<sem_t>.allocate(capacity: 1)
    private var work: BlockingPool.Work?

    init() { sem_init(semaphore, 0, 0) }

    deinit {
        sem_destroy(semaphore)
        semaphore.deallocate()
    }

    /// Wakes the sleeping thread. Must be called exactly once for each sleep: then `work` needs no lock, because the
    /// semaphore orders this write before the read.
    func wake(_ work: BlockingPool.Work?) {
        self.work = work
        sem_post(semaphore)
    }

    /// Blocks until `wake`, and returns the work that was passed to it.
    func sleep() -> BlockingPool.Work? {
        while sem_wait(semaphore) != 0 {}
        return work.take()
    }
}

/// A mutex for a lock that many threads contend for.
///
/// `Mutex` is fair: its holder hands it to the next waiting thread (FUTEX_LOCK_PI). Until that thread has woken up no
/// thread runs in the lock, and all others queue behind it (a lock convoy). An `UnfairMutex` goes to any thread that
/// requests it while it is free.
final class UnfairMutex<Value: Sendable>: @unchecked Sendable {
    private let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
    private var value: Value

    init(_ value: Value) {
        self.value = value
        pthread_mutex_init(mutex, nil)
    }

    deinit {
        pthread_mutex_destroy(mutex)
        mutex.deallocate()
    }

    func withLock<Result>(_ body: (inout Value) -> Result) -> Result {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        return body(&value)
    }
}
