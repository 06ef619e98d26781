/// Percent-encoding (%XX) of bytes in URLs and header fields (RFC 3986 section 2.1).
package enum PercentEncoding {
    /// Encodes spaces, control characters and bytes that are not ASCII, as browsers do. The result is ASCII. Otherwise
    /// a combining mark could join a "/" or an "@" into one Swift `Character`, and hide it.
    package static func encode(_ text: String) -> String {
        guard text.utf8.contains(where: { $0 <= 32 || $0 >= 127 }) else { return text }
        return text.utf8.map {
            $0 <= 32 || $0 >= 127
                ? "%" + ($0 < 16 ? "0" : "") + String($0, radix: 16, uppercase: true)
                : String(Unicode.Scalar($0))
        }.joined()
    }

    /// Encodes everything but the unreserved characters of RFC 3986 section 2.3 and the bytes in `kept`, with
    /// upper-case digits. The result is safe as a component of a URL.
    package static func component(_ text: String, keeping kept: Set<UInt8> = []) -> String {
        var result: [UInt8] = []
        for byte in text.utf8 {
            if isUnreserved(byte) || kept.contains(byte) {
                result.append(byte)
            } else {
                result += [UInt8(ascii: "%"), digits[Int(byte >> 4)], digits[Int(byte & 15)]]
            }
        }
        return String(decoding: result, as: UTF8.self)
    }

    private static func isUnreserved(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
            UInt8(ascii: "~"):
            true
        default: false
        }
    }

    private static let digits = Array("0123456789ABCDEF".utf8)

    /// Decodes %XX. What is not valid UTF-8 becomes U+FFFD.
    package static func decode(_ text: String) -> String { String(decoding: bytes(of: text), as: UTF8.self) }

    package static func bytes(of text: String) -> [UInt8] {
        var bytes: [UInt8] = []
        var rest = Substring(text).utf8
        while let byte = rest.popFirst() {
            if byte == UInt8(ascii: "%"), let decoded = Self.byte(fromHex: rest) {
                bytes.append(decoded)
                rest = rest.dropFirst(2)
            } else {
                bytes.append(byte)
            }
        }
        return bytes
    }

    /// The byte that two hexadecimal digits at the start of `text` encode; nil if there are no two digits.
    package static func byte(fromHex text: Substring.UTF8View) -> UInt8? {
        let digits = text.prefix(2)
        guard digits.count == 2, digits.allSatisfy({ Character(Unicode.Scalar($0)).isHexDigit }) else { return nil }
        return UInt8(Substring(digits), radix: 16)
    }
}
