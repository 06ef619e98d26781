import CHaulLinux

/// The width of a text in columns of a terminal, as glibc counts them (wcwidth(3)).
package enum Columns {
    /// 0 for a combining mark, 2 for a wide character, -1 for a character without a glyph.
    package static func of(_ scalar: Unicode.Scalar) -> Int {
        if scalar.value < 0x7F { return scalar.value < 0x20 ? -1 : 1 }
        return Int(clinux_columns(scalar.value))
    }

    /// The width of a text that has gone through `printable`.
    package static func of(_ text: some StringProtocol) -> Int {
        if text.utf8.allSatisfy({ $0 < 0x80 }) { return text.utf8.count }
        return text.unicodeScalars.reduce(0) { $0 + max(0, of($1)) }
    }

    /// Whether the locale is a UTF-8 one, by the first of its variables that is set.
    package static var showsUnicode: Bool {
        for name in ["LC_ALL", "LC_CTYPE", "LANG"] {
            guard let value = Environment.text(name) else { continue }
            let name = value.uppercased()
            return name.contains("UTF-8") || name.contains("UTF8")
        }
        return false
    }
}
