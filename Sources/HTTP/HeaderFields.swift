package import HaulContract

/// Header fields in the order they came, duplicates kept; names compare without regard to ASCII case.
package struct HeaderFields: Sendable {
    /// Values are without surrounding white space and otherwise as sent (bytes that are not UTF-8 read as ISO 8859-1).
    package private(set) var fields: [HeaderField]

    package init(_ fields: [HeaderField] = []) { self.fields = fields }

    /// The first value of `name`.
    package subscript(_ name: String) -> String? { fields.first { Self.equal($0.name, name) }?.value }

    /// Every value of `name`, in order, one per field line (RFC 9110 section 5.3: they could be joined by commas).
    package func all(_ name: String) -> [String] {
        fields.compactMap { Self.equal($0.name, name) ? $0.value : nil }
    }

    /// Whether there are lines of this name that differ.
    package func contradict(_ name: String) -> Bool {
        let values = all(name)
        return values.contains { $0 != values[0] }
    }

    mutating func append(name: Substring, value: Substring) { fields.append(HeaderField(name.trimmed, value.trimmed)) }

    /// Continues the last field with a folded line (RFC 9112 section 5.2).
    mutating func extendLast(_ more: Substring) {
        guard !fields.isEmpty else { return }
        fields[fields.count - 1].value += " " + more.trimmed
    }

    private static func equal(_ a: String, _ b: String) -> Bool {
        let (a, b) = (a.utf8, b.utf8)
        return a.count == b.count && zip(a, b).allSatisfy { lower($0) == lower($1) }
    }

    private static func lower(_ byte: UInt8) -> UInt8 { (0x41...0x5A).contains(byte) ? byte | 0x20 : byte }
}

extension Substring {
    /// Without the spaces and tabs around it.
    package var trimmed: String {
        // By bytes, which is much quicker, and right where a combining mark follows a space.
        var bytes = utf8
        while let first = bytes.first, first == 0x20 || first == 0x09 { bytes.removeFirst() }
        while let last = bytes.last, last == 0x20 || last == 0x09 { bytes.removeLast() }
        return String(Substring(bytes))
    }
}
