/// Names that others choose for files, made harmless.
enum FileName {
    /// At most 255 bytes of valid UTF-8, without a path, control characters, leading dots or spaces, or a name that
    /// means something to this or another system; nil if nothing is left.
    static func sanitise(_ name: String) -> String? {
        // What looks like a path keeps its last component, by the rules of any system.
        let base = name.split(whereSeparator: { $0 == "/" || $0 == "\\" }).last.map(String.init) ?? ""
        var scalars = String.UnicodeScalarView()
        for scalar in base.unicodeScalars where !isUnwanted(scalar) { scalars.append(scalar) }
        var result = String(scalars)[...]
        while let first = result.first, first == "." || first == " " { result.removeFirst() }
        while let last = result.last, last == " " || last == "." { result.removeLast() }
        guard !result.isEmpty else { return nil }
        let stem = result.prefix { $0 != "." }.lowercased()
        return shorten(reserved.contains(stem) ? "_" + result : String(result))
    }

    /// `name (1).ext`, `name (2).ext`, … within 255 bytes.
    static func numbered(_ name: String, _ number: Int) -> String {
        let (stem, suffix) = split(name)
        return shorten(stem + " (\(number))" + suffix)
    }

    private static let reserved: Set<String> = Set(
        ["con", "prn", "aux", "nul"] + (1...9).flatMap { ["com\($0)", "lpt\($0)"] })

    private static func isUnwanted(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.properties.generalCategory {
        // Control characters, and the invisible ones that turn a name around (RFC 6266 section 4.3).
        case .control, .format, .lineSeparator, .paragraphSeparator, .surrogate: true
        default: scalar == "\u{FFFD}"
        }
    }

    private static func split(_ name: String) -> (stem: String, suffix: String) {
        guard let dot = name.lastIndex(of: "."), dot != name.startIndex else { return (name, "") }
        return (String(name[..<dot]), String(name[dot...]))
    }

    private static func shorten(_ name: String) -> String {
        guard name.utf8.count > 255 else { return name }
        var (stem, suffix) = split(name)
        if suffix.utf8.count > 64 { (stem, suffix) = (name, "") }
        while stem.utf8.count + suffix.utf8.count > 255 { stem.removeLast() }
        return stem + suffix
    }
}
