import HaulHTTP
import Synchronization

/// Writes the bytes of one body to the parts that they belong to.
final class PartSink: BodySink {
    private let partial: ObjectPartial
    private let position: Mutex<Int64>
    private let wake: @Sendable () async -> Bool

    init(_ partial: ObjectPartial, at offset: Int64, wake: @escaping @Sendable () async -> Bool) {
        (self.partial, self.wake) = (partial, wake)
        position = Mutex(offset)
    }

    func append(_ bytes: UnsafeRawPointer, _ count: Int) -> SinkResult {
        position.withLock { position in
            let result = partial.take(bytes, count, at: position, wake: wake)
            if case .accepted = result { position += Int64(count) }
            return result
        }
    }

    func releaseMemory() {}
    func handOver() {}
    func end() {}
    func finish() async throws(TransferError) { if let error = partial.error { throw error } }
}
