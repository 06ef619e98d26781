import Glibc

/// A value behind a mutex with one condition: `Synchronization.Mutex` has none, and a thread that waits for work needs it.
package final class Monitor<Value>: @unchecked Sendable {
    private let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
    private let condition = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)
    private var value: Value

    package init(_ value: sending Value) {
        self.value = value
        pthread_mutex_init(mutex, nil)
        pthread_cond_init(condition, nil)
    }

    deinit {
        pthread_cond_destroy(condition)
        pthread_mutex_destroy(mutex)
        condition.deallocate()
        mutex.deallocate()
    }

    /// Changes the value and wakes every thread that waits for a change.
    package func withLock<T>(_ body: (inout Value) throws -> T) rethrows -> T {
        pthread_mutex_lock(mutex)
        defer {
            pthread_cond_broadcast(condition)
            pthread_mutex_unlock(mutex)
        }
        return try body(&value)
    }

    /// Blocks this thread while `condition` holds, then runs `then` under the lock. `waiting` is told +1 before the
    /// thread sleeps and -1 after, so that a pool can count its idle threads.
    package func waitWhile<T>(
        _ blocked: (Value) -> Bool, waiting: (inout Value, Int) -> Void = { _, _ in }, then: (inout Value) -> T
    ) -> T {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        waiting(&value, 1)
        while blocked(value) { pthread_cond_wait(condition, mutex) }
        waiting(&value, -1)
        return then(&value)
    }
}

extension Monitor {
    /// Looks at the value, waking nobody.
    package func read<T>(_ body: (Value) -> T) -> T { waitWhile({ _ in false }, then: { body($0) }) }
}
