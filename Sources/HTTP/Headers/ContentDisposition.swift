/// The file name of a Content-Disposition (RFC 6266, RFC 8187), read as browsers do.
package enum ContentDisposition {
    /// The name in `filename*`, or else in `filename`; nil if there is neither. It is not sanitized: it may be hostile.
    package static func fileName(_ header: String) -> String? {
        var plain: String?
        var extended: String?
        for (name, value) in parameters(header) {
            switch name {
            case "filename" where plain == nil: plain = decodePlain(value)
            case "filename*" where extended == nil: extended = decodeExtended(value)
            default: break
            }
        }
        return extended ?? plain
    }

    /// Works on bytes: Swift joins a ";" and a following combining mark into another character.
    private static func parameters(_ header: String) -> [(String, String)] {
        var result: [(String, String)] = []
        var rest = Substring(header).utf8
        while let first = rest.first {
            if first == UInt8(ascii: ";") || isBlank(first) {
                rest.removeFirst()
                continue
            }
            let name = rest.prefix { $0 != UInt8(ascii: "=") && $0 != UInt8(ascii: ";") }
            rest = rest[name.endIndex...]
            // The disposition type has no value, and may be missing.
            guard rest.first == UInt8(ascii: "=") else { continue }
            rest = rest.dropFirst().drop(while: isBlank)
            let value = rest.first == UInt8(ascii: "\"") ? quoted(&rest) : word(&rest)
            result.append((Substring(name).trimmed.lowercased(), value))
        }
        return result
    }

    private static func isBlank(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 }

    private static func word(_ rest: inout Substring.UTF8View) -> String {
        let value = rest.prefix { $0 != UInt8(ascii: ";") }
        rest = rest[value.endIndex...]
        return Substring(value).trimmed
    }

    private static func quoted(_ rest: inout Substring.UTF8View) -> String {
        rest.removeFirst()
        var value: [UInt8] = []
        while let byte = rest.popFirst(), byte != UInt8(ascii: "\"") {
            if byte == UInt8(ascii: "\\"), let next = rest.popFirst() { value.append(next) } else { value.append(byte) }
        }
        return String(decoding: value, as: UTF8.self)
    }

    /// The standard defines no encoding for `filename`, but servers use two, and browsers read both.
    private static func decodePlain(_ value: String) -> String {
        if let decoded = EncodedWords.decode(value) { return decoded }
        // "100%25" is percent-encoded, "100% sure" is not.
        return String(validating: PercentEncoding.bytes(of: value), as: UTF8.self) ?? value
    }

    /// Decodes a value such as `UTF-8''na%C3%AFve.txt`; nil for charsets other than UTF-8 and ISO-8859-1.
    private static func decodeExtended(_ value: String) -> String? {
        let parts = value.split(separator: "'", maxSplits: 2, omittingEmptySubsequences: false)
        guard parts.count == 3 else { return nil }
        return Charset.decode(PercentEncoding.bytes(of: String(parts[2])), String(parts[0]))
    }
}

/// The charsets in which servers send file names.
package enum Charset {
    /// nil for an unknown charset. Bytes that are invalid in UTF-8 are replaced.
    package static func decode(_ bytes: [UInt8], _ charset: String) -> String? {
        switch charset.lowercased() {
        case "utf-8", "utf8", "us-ascii": String(decoding: bytes, as: UTF8.self)
        case "iso-8859-1", "latin1": String(String.UnicodeScalarView(bytes.map { Unicode.Scalar($0) }))
        default: nil
        }
    }
}
