/// The name of a queue: 1 to 64 characters of A-Z a-z 0-9 . _ -, so that it can be a Redis Cluster hash tag.
///
/// `films#8` is a queue of eight partitions, and `films#3of8` is one of these: an ordinary queue, whose name is the hash
/// tag of its keys. Partitions are counted from 0. See Sources/Bus/README.md.
package struct QueueName: Sendable, Hashable, CustomStringConvertible {
    package let text: String
    /// The name without its partitions.
    package let base: String
    /// How many partitions `base` has; nil if the queue has none.
    package let partitionCount: Int?
    /// The number of this partition; nil for a whole queue.
    package let partition: Int?

    package static let maxPartitions = 64
    package static let rule =
        "1 to 64 of the characters A-Z a-z 0-9 . _ -, and #8 behind them for a queue of 8 partitions, from 2 to \(maxPartitions)"

    package init?(_ text: String) {
        let parts = text.split(separator: "#", maxSplits: 1, omittingEmptySubsequences: false)
        let base = parts[0]
        let allowed = base.utf8.allSatisfy {
            ($0 | 0x20) >= UInt8(ascii: "a") && ($0 | 0x20) <= UInt8(ascii: "z") || (48...57).contains($0)
                || $0 == UInt8(ascii: ".") || $0 == UInt8(ascii: "_") || $0 == UInt8(ascii: "-")
        }
        guard (1...64).contains(base.utf8.count), allowed else { return nil }
        (self.text, self.base) = (text, String(base))
        guard parts.count > 1 else {
            (partitionCount, partition) = (nil, nil)
            return
        }
        let numbers = parts[1].split(separator: "of", maxSplits: 1, omittingEmptySubsequences: false)
        guard let count = Self.number(numbers[numbers.count - 1]), (2...Self.maxPartitions).contains(count) else {
            return nil
        }
        partitionCount = count
        if numbers.count > 1 {
            guard let number = Self.number(numbers[0]), (0..<count).contains(number) else { return nil }
            partition = number
        } else {
            partition = nil
        }
    }

    /// A number as it is printed, so that a queue has one name only.
    private static func number(_ text: Substring) -> Int? { Int(text).flatMap { String($0) == text ? $0 : nil } }

    package static let `default` = QueueName("default")!
    package var description: String { text }

    /// The names of the partitions of a whole queue; empty if it has none.
    package var partitions: [QueueName] {
        guard let partitionCount, partition == nil else { return [] }
        return (0..<partitionCount).map { QueueName("\(base)#\($0)of\(partitionCount)")! }
    }

    /// The queue of which this is a partition, or this queue.
    package var whole: QueueName { partition == nil ? self : QueueName("\(base)#\(partitionCount ?? 0)")! }

    /// The number of the partition for a job's id, or for the name of a batch or a schedule.
    package func partition(of name: String) -> Int { Int(Self.crc16(name)) % max(1, partitionCount ?? 1) }

    /// The checksum that gives a key its slot in a Redis Cluster: CRC-16/XMODEM.
    static func crc16(_ text: String) -> UInt16 {
        var checksum: UInt16 = 0
        for byte in text.utf8 {
            checksum ^= UInt16(byte) << 8
            for _ in 0..<8 { checksum = checksum & 0x8000 == 0 ? checksum << 1 : checksum << 1 ^ 0x1021 }
        }
        return checksum
    }
}
