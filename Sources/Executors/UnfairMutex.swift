import Glibc

/// A mutex for what many threads want at once.
///
/// `Mutex` is handed from its holder to the next that waits (FUTEX_LOCK_PI). Until that one has woken up all others wait too,
/// each in its turn (a lock convoy), though nobody does anything. This one may be taken by whoever comes.
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
