import CHaulLinux

/// How many columns of a terminal a text takes, as glibc counts them.
package enum Columns {
    /// 0 for a mark that joins the character before it, 2 for a wide one, -1 for what has no glyph.
    package static func of(_ scalar: Unicode.Scalar) -> Int {
        if scalar.value < 0x7F { return scalar.value < 0x20 ? -1 : 1 }
        return Int(clinux_columns(scalar.value))
    }

    /// The columns of a text that is `printable`.
    package static func of(_ text: some StringProtocol) -> Int {
        if text.utf8.allSatisfy({ $0 < 0x80 }) { return text.utf8.count }
        return text.unicodeScalars.reduce(0) { $0 + max(0, of($1)) }
    }

    /// Whether the terminal is told to show more than ASCII.
    package static var showsUnicode: Bool {
        for name in ["LC_ALL", "LC_CTYPE", "LANG"] {
            guard let value = Environment.text(name) else { continue }
            let name = value.uppercased()
            return name.contains("UTF-8") || name.contains("UTF8")
        }
        return false
    }
}
