import HaulContract
import HaulHTTP
import Synchronization

/// A digest of the whole that runs along while parts become whole in order. It is given up when one comes out of order: then the
/// object is read back.
final class InOrderDigest: Sendable {
    private struct State {
        var hash: RunningHash?
        var position: Int64 = 0
    }

    let algorithm: Job.Checksum.Algorithm
    private let state: Mutex<State>

    init(_ algorithm: Job.Checksum.Algorithm) {
        self.algorithm = algorithm
        state = Mutex(State(hash: RunningHash(algorithm.method, size: algorithm.hexadecimalDigits / 2)))
    }

    /// Blocks for as long as hashing takes.
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

    /// In hexadecimal, once all of `size` bytes have come in order; nil otherwise.
    func result(of size: Int64) -> String? {
        state.withLock { state in
            guard state.position == size, let hash = state.hash.take() else { return nil }
            return hash.result().hexadecimal
        }
    }
}
