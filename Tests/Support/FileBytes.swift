/// Contents of a file, told by a seed: byte for byte reproducible, at any size, without memory.
package struct FileBytes: Sendable, Equatable {
    package let seed: UInt64
    package let count: Int64

    package init(seed: UInt64, count: Int64) { (self.seed, self.count) = (seed, count) }

    package func bytes(_ range: Range<Int64>) -> [UInt8] {
        var result: [UInt8] = []
        result.reserveCapacity(Int(range.upperBound - range.lowerBound))
        var position = range.lowerBound
        while position < range.upperBound {
            let word = Self.mix(seed &* 0x9E37_79B9_7F4A_7C15 &+ UInt64(position / 8))
            for index in Int(position % 8)..<8 where position < range.upperBound {
                result.append(UInt8(truncatingIfNeeded: word >> (UInt64(index) * 8)))
                position += 1
            }
        }
        return result
    }

    package var all: [UInt8] { bytes(0..<count) }

    private static func mix(_ value: UInt64) -> UInt64 {
        var z = value
        z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
        z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
        return z ^ (z >> 31)
    }
}
