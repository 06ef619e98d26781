/// The content of a file, generated from a seed: reproducible to the byte, of any size, without memory.
package struct FileBytes: Sendable, Equatable {
    package let seed: UInt64
    package let count: Int64

    package init(seed: UInt64, count: Int64) { (self.seed, self.count) = (seed, count) }

    package func bytes(_ range: Range<Int64>) -> [UInt8] {
        guard !range.isEmpty else { return [] }
        // Generate whole words of 8 bytes, then cut. The loop has only operations that a debug build compiles to
        // instructions, and not to calls: the origins of all tests spend their time here.
        let first = range.lowerBound / 8
        let words = Int((range.upperBound + 7) / 8 - first)
        let start = seed &* 0x9E37_79B9_7F4A_7C15 &+ UInt64(first)
        let values = [UInt64](unsafeUninitializedCapacity: words) { buffer, count in
            let value = buffer.baseAddress!
            var index = 0
            while index < words {
                var z = start &+ UInt64(truncatingIfNeeded: index)
                z = (z ^ (z &>> 30)) &* 0xBF58_476D_1CE4_E5B9
                z = (z ^ (z &>> 27)) &* 0x94D0_49BB_1331_11EB
                value[index] = z ^ (z &>> 31)
                index &+= 1
            }
            count = words
        }
        return values.withUnsafeBytes { Array($0[Int(range.lowerBound % 8)...].prefix(range.count)) }
    }

    package var all: [UInt8] { bytes(0..<count) }

    /// In hexadecimal.
    package var sha256: String { SHA256.hexadecimal(SHA256.digest(all)) }
}
