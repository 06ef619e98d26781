extension String {
    /// The text, or its first `bytes` bytes and "…". What a server sends may be long, and ends in messages and in Redis.
    package func truncated(toBytes bytes: Int) -> String {
        guard utf8.count > bytes else { return self }
        var end = utf8.index(utf8.startIndex, offsetBy: bytes)
        // Not in the middle of a character.
        while utf8[end] & 0xC0 == 0x80 { end = utf8.index(before: end) }
        return String(self[..<end]) + "…"
    }

    /// The text with the letters A to Z in lower case and everything else as it is, as names of headers are compared.
    /// `lowercased()` makes letters of ASCII from others, such as `k` from the Kelvin sign.
    package var lowercasedASCII: String {
        String(decoding: utf8.map { 65...90 ~= $0 ? $0 | 0x20 : $0 }, as: UTF8.self)
    }

    /// The text with another text for each scalar that `replacement` returns one for.
    package func escaped(_ replacement: (Unicode.Scalar) -> String?) -> String {
        var result = ""
        for scalar in unicodeScalars {
            if let text = replacement(scalar) { result += text } else { result.unicodeScalars.append(scalar) }
        }
        return result
    }

    /// The first occurrence of `text`. Compares bytes, so that a combining mark after `text` does not hide it.
    package func byteRange(of text: String) -> Range<Index>? {
        let sought = text.utf8
        return utf8.indices.first { utf8[$0...].starts(with: sought) }
            .map { $0..<utf8.index($0, offsetBy: sought.count) }
    }
}

extension StringProtocol {
    /// The parts of a path, without empty ones. Splits at bytes, as the kernel does: Swift joins "/" and a following
    /// combining mark into one character, at which `split` would not split.
    package var pathParts: [String] {
        utf8.split(separator: UInt8(ascii: "/")).map { String(decoding: $0, as: UTF8.self) }
    }
}

extension Unicode.Scalar {
    /// The escape of JSON, such as `\u001b`. A scalar beyond 16 bits becomes two escapes (a surrogate pair).
    package var escaped: String {
        String(self).utf16.map { unit in
            let digits = String(unit, radix: 16)
            return "\\u" + String(repeating: "0", count: 4 - digits.utf8.count) + digits
        }.joined()
    }
}
