/// The name of a queue: 1 to 64 characters of A-Z a-z 0-9 . _ -, so that it can be a Redis Cluster hash tag.
package struct QueueName: Sendable, Hashable, CustomStringConvertible {
    package let text: String

    package init?(_ text: String) {
        let allowed = text.utf8.allSatisfy {
            ($0 | 0x20) >= UInt8(ascii: "a") && ($0 | 0x20) <= UInt8(ascii: "z") || (48...57).contains($0)
                || $0 == UInt8(ascii: ".") || $0 == UInt8(ascii: "_") || $0 == UInt8(ascii: "-")
        }
        guard (1...64).contains(text.utf8.count), allowed else { return nil }
        self.text = text
    }

    package static let `default` = QueueName("default")!
    package var description: String { text }
}
