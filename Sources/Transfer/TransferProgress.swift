import Executors
import Synchronization

/// How far a transfer is; read from anywhere, written on the loop.
package final class TransferProgress: Sendable {
    private let count = Atomic<Int64>(0)
    private let lastByte: Atomic<UInt64>

    init() { lastByte = Atomic(monotonicNanoseconds()) }

    /// Body bytes taken.
    package var received: Int64 { count.load(ordering: .relaxed) }
    /// Monotonic nanoseconds at which something last arrived, or it began.
    package var lastActivity: UInt64 { lastByte.load(ordering: .relaxed) }

    func add(_ bytes: Int) {
        count.wrappingAdd(Int64(bytes), ordering: .relaxed)
        touch()
    }

    func touch() { lastByte.store(monotonicNanoseconds(), ordering: .relaxed) }
}
