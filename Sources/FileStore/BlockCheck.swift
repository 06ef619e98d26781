import Glibc
import HaulContract

/// The crc32c of the last bytes of each durable interval. If the file has other bytes there, its volume was cloned or
/// restored after the checkpoint.
enum BlockCheck {
    static let size: Int64 = 4096

    static func compute(_ offsets: ByteIntervals, _ descriptor: Int32) -> [Int64: UInt32] {
        var result: [Int64: UInt32] = [:]
        for interval in offsets.intervals { result[interval.upperBound] = crc(of: interval, descriptor) }
        return result
    }

    static func matches(_ resume: ResumePoint, _ descriptor: Int32) -> Bool {
        resume.offsets.intervals.allSatisfy { interval in
            guard let expected = resume.blockChecks[interval.upperBound] else { return true }
            return crc(of: interval, descriptor) == expected
        }
    }

    private static func crc(of interval: Range<Int64>, _ descriptor: Int32) -> UInt32? {
        let start = max(interval.lowerBound, interval.upperBound - size)
        var bytes = [UInt8](repeating: 0, count: Int(interval.upperBound - start))
        guard pread(descriptor, &bytes, bytes.count, off_t(start)) == bytes.count else { return nil }
        return ~bytes.reduce(~0) { table[Int(UInt8(truncatingIfNeeded: $0) ^ $1)] ^ ($0 >> 8) }
    }

    private static let table: [UInt32] = (0..<256).map { index in
        (0..<8).reduce(UInt32(index)) { value, _ in value & 1 == 1 ? 0x82f6_3b78 ^ (value >> 1) : value >> 1 }
    }
}
