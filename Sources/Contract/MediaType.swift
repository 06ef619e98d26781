/// Media types (RFC 9110 section 8.3.1): `text/html; charset=utf-8`.
package enum MediaType {
    /// Whether `text` is a type and a subtype, perhaps with parameters, of at most 255 bytes.
    static func isValid(_ text: String) -> Bool {
        let bytes = text.utf8
        guard bytes.count <= 255 else { return false }
        let parameters = bytes.firstIndex(of: UInt8(ascii: ";")) ?? bytes.endIndex
        guard bytes[parameters...].allSatisfy({ $0 >= 32 && $0 != 127 }) else { return false }
        var type = bytes[..<parameters]
        while let last = type.last, last == UInt8(ascii: " ") || last == UInt8(ascii: "\t") { type.removeLast() }
        let parts = type.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
        return parts.count == 2 && parts.allSatisfy { !$0.isEmpty && $0.allSatisfy(isTokenCharacter) }
    }

    /// The type and the subtype in lower case, without parameters. Media types are equal if their essences are equal.
    package static func essence(_ text: String) -> String {
        let type = text.unicodeScalars.prefix { $0 != ";" }
        return type.split { $0 == " " || $0 == "\t" }.map(String.init).joined(separator: " ").lowercased()
    }

    /// The types of Metalink files: version 4 (RFC 5854) and version 3.
    package static let metalinks: Set = ["application/metalink4+xml", "application/metalink+xml"]

    /// Whether a token may contain `byte` (RFC 9110 section 5.6.2).
    private static func isTokenCharacter(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"):
            true
        default: "!#$%&'*+-.^_`|~".utf8.contains(byte)
        }
    }
}
