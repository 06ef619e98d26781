/// The content of a file, generated from a seed: reproducible to the byte, of any size, without memory.
package struct FileBytes: Sendable, Equatable {
    package let seed: UInt64
    package let count: Int64

    package init(seed: UInt64, count: Int64) { (self.seed, self.count) = (seed, count) }

    package func bytes(_ range: Range<Int64>) -> [UInt8] {
        // Generate whole words of 8 bytes, then cut. Single bytes would slow the origins down in debug builds.
        let first = range.lowerBound / 8
        let last = (range.upperBound + 7) / 8
        let words = Int(last - first)
        guard !range.isEmpty else { return [] }
        let bytes = [UInt8](unsafeUninitializedCapacity: words * 8) { buffer, count in
            let raw = UnsafeMutableRawPointer(buffer.baseAddress!)
            for index in 0..<words {
                let word = Self.mix(seed &* 0x9E37_79B9_7F4A_7C15 &+ UInt64(first + Int64(index)))
                raw.storeBytes(of: word.littleEndian, toByteOffset: index * 8, as: UInt64.self)
            }
            count = words * 8
        }
        let start = Int(range.lowerBound - first * 8)
        return Array(bytes[start..<(start + range.count)])
    }

    package var all: [UInt8] { bytes(0..<count) }

    /// In hexadecimal.
    package var sha256: String { SHA256.hexadecimal(SHA256.digest(all)) }

    private static func mix(_ value: UInt64) -> UInt64 {
        var z = value
        z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
        z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
        return z ^ (z >> 31)
    }
}
