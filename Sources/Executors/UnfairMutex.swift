import Glibc

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
