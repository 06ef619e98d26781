package import HaulContract

/// Header fields in the order of arrival, with duplicates. Names are compared without regard to ASCII case.
package struct HeaderFields: Sendable {
    /// Values have no surrounding white space and are otherwise as sent. Bytes that are not UTF-8 count as ISO 8859-1.
    package private(set) var fields: [HeaderField]

    package init(_ fields: [HeaderField] = []) { self.fields = fields }

    /// The first value of `name`.
    package subscript(_ name: String) -> String? { fields.first { Self.equal($0.name, name) }?.value }

    /// Every value of `name`, in order, one for each field line. They could be joined by commas (RFC 9110 section 5.3).
    package func all(_ name: String) -> [String] {
        fields.compactMap { Self.equal($0.name, name) ? $0.value : nil }
    }

    /// Whether field lines with this name have different values.
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
    /// The text without the spaces and tabs around it.
    package var trimmed: String {
        // Works on bytes, which is much faster, and correct where a combining mark follows a space.
        var bytes = utf8
        while let first = bytes.first, first == 0x20 || first == 0x09 { bytes.removeFirst() }
        while let last = bytes.last, last == 0x20 || last == 0x09 { bytes.removeLast() }
        return String(Substring(bytes))
    }
}
