import Synchronization

/// A value that a test shares with its servers' handlers.
package final class Shared<Value: Sendable>: Sendable {
    private let mutex: Mutex<Value>

    package init(_ value: Value) { mutex = Mutex(value) }

    package var value: Value {
        get { mutex.withLock { $0 } }
        set { mutex.withLock { $0 = newValue } }
    }

    package func change<T: Sendable>(_ body: (inout Value) -> T) -> T {
        var result: T?
        mutex.withLock { value in
            var copy = value
            result = body(&copy)
            value = copy
        }
        return result!
    }
}
