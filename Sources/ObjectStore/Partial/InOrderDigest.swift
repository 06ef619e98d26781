import HaulContract
import HaulHTTP
import Synchronization

/// A digest of the whole object that is computed while its parts are uploaded. It needs the parts in order: after the
/// first one out of order it has no result, and the object is read back instead.
final class InOrderDigest: Sendable {
    private struct State {
        var hash: StreamDigest?
        var position: Int64 = 0
    }

    let algorithm: Job.Checksum.Algorithm
    private let state: Mutex<State>

    init(_ algorithm: Job.Checksum.Algorithm) {
        self.algorithm = algorithm
        state = Mutex(State(hash: StreamDigest(algorithm)))
    }

    /// Adds the bytes at `offset`. Blocks while it computes.
    func update(_ bytes: UnsafeRawBufferPointer, at offset: Int64) {
        state.withLock { state in
            guard state.position == offset else {
                state.hash = nil
                return
            }
            state.hash?.update(bytes)
            state.position += Int64(bytes.count)
        }
    }

    /// The digest in hexadecimal digits if all of `size` bytes have arrived in order, else nil. It is returned only
    /// once.
    func result(of size: Int64) -> String? {
        state.withLock { state in
            guard state.position == size, let hash = state.hash.take() else { return nil }
            return hash.hexadecimal()
        }
    }
}
