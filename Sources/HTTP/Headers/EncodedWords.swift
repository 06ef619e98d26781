import HaulContract

/// Encoded words such as `=?UTF-8?B?w6Q=?=` and `=?ISO-8859-1?Q?=E4?=` (RFC 2047). They belong to mail, but some
/// servers send them as a file's name.
enum EncodedWords {
    /// Decodes all encoded words in `text`; nil if there is none, or one that cannot be decoded.
    static func decode(_ text: String) -> String? {
        var result = ""
        var rest = text[...]
        // The bytes of adjacent words are decoded together: a character may be split between them.
        var pending: (charset: String, bytes: [UInt8])?
        func flush() -> Bool {
            guard let (charset, bytes) = pending else { return true }
            pending = nil
            guard let decoded = Charset.decode(bytes, charset) else { return false }
            result += decoded
            return true
        }
        var count = 0
        while let start = rest.firstRange(of: "=?") {
            let before = rest[..<start.lowerBound]
            guard let (charset, bytes, after) = word(rest[start.upperBound...]) else { return nil }
            // Blanks between two encoded words are not part of the text.
            let isAdjacent = pending != nil && before.utf8.allSatisfy { $0 == 0x20 || $0 == 0x09 }
            if !isAdjacent || pending?.charset != charset {
                guard flush() else { return nil }
                if !isAdjacent { result += before }
                pending = (charset, [])
            }
            pending?.bytes += bytes
            rest = after
            count += 1
        }
        guard count > 0, flush() else { return nil }
        return result + rest
    }

    /// Reads an encoded word whose "=?" has been read; nil if it cannot be decoded.
    private static func word(_ text: Substring) -> (charset: String, bytes: [UInt8], rest: Substring)? {
        let parts = text.split(separator: "?", maxSplits: 3, omittingEmptySubsequences: false)
        guard parts.count == 4, parts[3].utf8.first == UInt8(ascii: "=") else { return nil }
        let bytes: [UInt8]?
        switch parts[1] {
        case "B", "b": bytes = Base64.decode(parts[2].utf8)
        case "Q", "q": bytes = quoted(parts[2])
        default: bytes = nil
        }
        // A language may follow the charset (RFC 2231 section 5).
        let charset = parts[0].prefix { $0 != "*" }.lowercased()
        guard let bytes else { return nil }
        let rest = parts[3].utf8.dropFirst()
        return (charset, bytes, Substring(rest))
    }

    private static func quoted(_ text: Substring) -> [UInt8]? {
        var bytes: [UInt8] = []
        var rest = text.utf8
        while let byte = rest.popFirst() {
            switch byte {
            case UInt8(ascii: "_"): bytes.append(0x20)
            case UInt8(ascii: "="):
                guard let code = PercentEncoding.byte(fromHex: rest) else { return nil }
                bytes.append(code)
                rest = rest.dropFirst(2)
            default: bytes.append(byte)
            }
        }
        return bytes
    }
}
