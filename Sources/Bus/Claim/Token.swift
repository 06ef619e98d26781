import Glibc
import Synchronization

/// A fencing token: 128 random bits in hexadecimal. A counter in Redis would repeat numbers after a failover.
package enum Token {
    /// Random bits for further tokens. One system call brings those of sixteen.
    private static let spare = Mutex<[UInt64]>([])

    package static func make() -> String {
        var bits = spare.withLock { spare in
            if spare.isEmpty { spare = fresh() }
            return (spare.removeLast(), spare.removeLast())
        }
        return String(unsafeUninitializedCapacity: 32) { text in
            for index in 0..<32 {
                let nibble = UInt8(truncatingIfNeeded: bits.0 & 15)
                text[index] = nibble < 10 ? 48 + nibble : 87 + nibble
                bits = (bits.0 >> 4 | (bits.1 & 15) << 60, bits.1 >> 4)
            }
            return 32
        }
    }

    private static func fresh() -> [UInt64] {
        var words = [UInt64](repeating: 0, count: 32)
        let isDone = words.withUnsafeMutableBytes { getentropy($0.baseAddress, $0.count) == 0 }
        precondition(isDone, "the kernel gives no random numbers: \(String(cString: strerror(errno)))")
        return words
    }
}
