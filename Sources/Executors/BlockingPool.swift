import Glibc
import Synchronization

/// Threads for calls that may block (pwrite, fdatasync, link, getaddrinfo), so that Swift's cooperative threads and the
/// event loops never do. Threads start as they are needed, up to `limit`, and stay until the pool is dropped and nothing
/// is left to do.
///
/// Work is handed to an idle thread directly, the one that slept last first: one wake-up for each piece, and nobody else
/// wakes to find it gone.
package final class BlockingPool: Sendable {
    package typealias Work = @Sendable () -> Void

    private struct State: Sendable {
        /// What waits for a thread.
        var waiting = Deque<Work>()
        var idle: [Sleeper] = []
        var threads = 0
        var isStopped = false
    }

    private let name: String
    private let limit: Int
    /// A box of its own: the threads hold it, not the pool.
    private let state: Box

    private typealias Box = UnfairMutex<State>

    /// `limit` is the largest number of threads, and so of calls that run at once.
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

    /// Runs `body` on one of the pool's threads. Not cancellable: a blocking call cannot be taken back.
    package func run<T: Sendable, E: Error>(_ body: @escaping @Sendable () throws(E) -> T) async throws(E) -> T {
        let result: Result<T, E> = await withCheckedContinuation { continuation in
            submit { continuation.resume(returning: Result { () throws(E) in try body() }) }
        }
        return try result.get()
    }

    /// Runs `work` on one of the pool's threads; with one thread, in the order submitted.
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

    /// Runs all of `bodies` and returns their results in order. The calling thread does what no other has begun, and blocks
    /// until they are done.
    package func runAll<T: Sendable>(_ bodies: [@Sendable () -> T]) -> [T] {
        guard !bodies.isEmpty else { return [] }
        let batch = Batch(bodies)
        for _ in 1..<max(1, min(limit, bodies.count)) { submit(batch.work) }
        batch.work()
        return batch.results()
    }

    /// Runs `work` at once if this is a thread of the pool, and submits it otherwise: for what merely must not run elsewhere.
    package func perform(_ work: @escaping Work) {
        if pthread_getspecific(Self.current) == UnsafeMutableRawPointer(Unmanaged.passUnretained(state).toOpaque()) {
            work()
        } else {
            submit(work)
        }
    }

    /// Of each thread of a pool: its box.
    private static let current: pthread_key_t = {
        var key = pthread_key_t()
        pthread_key_create(&key, nil)
        return key
    }()

    private static func serve(_ state: Box) {
        pthread_setspecific(current, Unmanaged.passUnretained(state).toOpaque())
        let sleeper = Sleeper()
        // Nothing of what is done is held while the thread sleeps.
        while let work = next(state, sleeper) { work() }
    }

    /// What is to be done, once there is something; nil when there will be nothing any more.
    private static func next(_ state: Box, _ sleeper: Sleeper) -> Work? {
        let (work, isLast) = state.withLock { state -> (Work?, Bool) in
            if let work = state.waiting.popFirst() { return (work, false) }
            if !state.isStopped { state.idle.append(sleeper) }
            return (nil, state.isStopped)
        }
        return isLast ? nil : work ?? sleeper.sleep()
    }
}

/// Work of which several threads take their share.
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

    /// Waits for them.
    func results() -> [T] {
        _ = finished.sleep()
        return state.withLock { state in bodies.indices.map { state.values[$0]! } }
    }
}

/// A thread of the pool that has nothing to do.
private final class Sleeper: @unchecked Sendable {
    private let semaphore = UnsafeMutablePointer<sem_t>.allocate(capacity: 1)
    private var work: BlockingPool.Work?

    init() { sem_init(semaphore, 0, 0) }

    deinit {
        sem_destroy(semaphore)
        semaphore.deallocate()
    }

    /// Called once for each time that it was idle, by who took it from the idle ones.
    func wake(_ work: BlockingPool.Work?) {
        self.work = work
        sem_post(semaphore)
    }

    /// What it was woken with; nil if there is nothing to do any more.
    func sleep() -> BlockingPool.Work? {
        while sem_wait(semaphore) != 0 {}
        return work.take()
    }
}
