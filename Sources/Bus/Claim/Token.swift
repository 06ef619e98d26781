/// A fencing token: 128 random bits in hexadecimal. A counter in Redis would repeat numbers after a failover.
package enum Token {
    package static func make() -> String {
        var generator = SystemRandomNumberGenerator()
        var bits = (generator.next() as UInt64, generator.next() as UInt64)
        return String(unsafeUninitializedCapacity: 32) { text in
            for index in 0..<32 {
                let nibble = UInt8(truncatingIfNeeded: bits.0 & 15)
                text[index] = nibble < 10 ? 48 + nibble : 87 + nibble
                bits = (bits.0 >> 4 | (bits.1 & 15) << 60, bits.1 >> 4)
            }
            return 32
        }
    }
}
