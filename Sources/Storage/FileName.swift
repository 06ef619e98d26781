/// Sanitizes file names that servers and producers have chosen.
package enum FileName {
    /// A safe form of `name`: at most 255 bytes of valid UTF-8, without a path, control characters, leading or trailing
    /// dots and spaces, and not a name that this or another system reserves. nil if nothing is left.
    package static func sanitize(_ name: String) -> String? {
        if isPlain(name) { return name }
        // Works on scalars: Swift joins a "/" and a combining or invisible scalar into another character.
        let wanted = name.unicodeScalars.filter { !isUnwanted($0) }.map { $0 == "\u{FFFD}" ? "_" : $0 }
        // If the name looks like a path by the rules of any system, its last component is kept.
        let base = wanted.split(whereSeparator: { $0 == "/" || $0 == "\\" }).last ?? []
        let result = trimmed(String(String.UnicodeScalarView(base.drop { $0 == "." || $0 == " " })))
        guard !result.isEmpty else { return nil }
        let stem = String(result.unicodeScalars.prefix { $0 != "." }).lowercased()
        return shorten(reserved.contains(stem) ? "_" + result : result)
    }

    /// Whether `name` is ASCII that no rule changes. Most names are, and the rules would take longer than everything
    /// else that is done for a small file's name.
    private static func isPlain(_ name: String) -> Bool {
        let bytes = name.utf8
        let edges = [UInt8(ascii: "."), UInt8(ascii: " ")]
        guard let first = bytes.first, let last = bytes.last, bytes.count <= 255, !edges.contains(first),
            !edges.contains(last),
            bytes.allSatisfy({ 0x20...0x7E ~= $0 && $0 != UInt8(ascii: "/") && $0 != UInt8(ascii: "\\") })
        else { return false }
        // Reserved names have three or four bytes before the dot.
        let stem = name.prefix { $0 != "." }
        return !(3...4 ~= stem.utf8.count && reserved.contains(stem.lowercased()))
    }

    /// Whether the name ends with an extension that says what the file is: `.zip`, but not the `.2` of a version, nor the
    /// name of a program that made the response.
    package static func hasExtension(_ name: String) -> Bool {
        let bytes = name.utf8
        guard let dot = bytes.lastIndex(of: UInt8(ascii: ".")), dot != bytes.startIndex else { return false }
        let last = bytes[dot...].dropFirst()
        let isWord = last.allSatisfy { 48...57 ~= $0 || 65...90 ~= $0 || 97...122 ~= $0 }
        return (1...10).contains(last.count) && isWord && last.contains { $0 > 57 }
            && !["php", "asp", "aspx", "jsp", "cgi"].contains(String(Substring(last)).lowercased())
    }

    /// `name (1).ext`, `name (2).ext`, … within 255 bytes.
    package static func numbered(_ name: String, _ number: Int) -> String {
        let (stem, suffix) = split(name)
        let ending = " (\(number))" + suffix
        return truncated(stem, to: 255 - ending.utf8.count) + ending
    }

    /// Whether `name` is `original` with a number.
    package static func isNumbered(_ name: String, of original: String) -> Bool {
        let ending = name.utf8.dropLast(split(original).suffix.utf8.count + 1)
        let digits = ending.reversed().prefix { 48...57 ~= $0 }.reversed()
        guard digits.count <= 5, let number = Int(String(decoding: digits, as: UTF8.self)), number > 0 else {
            return false
        }
        return numbered(original, number).utf8.elementsEqual(name.utf8)
    }

    /// Whether `name` looks as if it were another name with a number.
    package static func hasNumber(_ name: String) -> Bool {
        let stem = split(name).stem.utf8
        guard stem.last == UInt8(ascii: ")") else { return false }
        let digits = stem.dropLast().reversed().prefix { 48...57 ~= $0 }
        return 1...5 ~= digits.count && stem.dropLast(digits.count + 1).reversed().starts(with: "( ".utf8)
    }

    private static let reserved: Set<String> = Set(
        ["con", "prn", "aux", "nul"] + (1...9).flatMap { ["com\($0)", "lpt\($0)"] })

    private static func isUnwanted(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.properties.generalCategory {
        // Control characters, and invisible ones that reverse the direction of text (RFC 6266 section 4.3).
        case .control, .format, .lineSeparator, .paragraphSeparator, .surrogate: true
        // XML cannot carry these, so no listing of an object store can contain them.
        default: !isXMLCharacter(scalar)
        }
    }

    /// Whether XML 1.0 can carry the character. The listings of an object store are XML.
    package static func isXMLCharacter(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        case 0x9, 0xA, 0xD, 0x20...0xD7FF, 0xE000...0xFFFD, 0x10000...0x10FFFF: true
        default: false
        }
    }

    /// Splits off the extension. An ending of more than 64 bytes is not an extension.
    private static func split(_ name: String) -> (stem: String, suffix: String) {
        guard let dot = name.unicodeScalars.lastIndex(of: "."), dot != name.startIndex, name.utf8[dot...].count <= 64
        else { return (name, "") }
        return (String(name[..<dot]), String(name[dot...]))
    }

    private static func shorten(_ name: String) -> String {
        guard name.utf8.count > 255 else { return name }
        let (stem, suffix) = split(name)
        let short = truncated(stem, to: 255 - suffix.utf8.count)
        return suffix.isEmpty ? trimmed(short) : short + suffix
    }

    /// Works on scalars: combining marks can make the whole name one character.
    private static func truncated(_ text: String, to count: Int) -> String {
        var (kept, remaining) = (String.UnicodeScalarView(), count)
        for scalar in text.unicodeScalars {
            remaining -= UTF8.width(scalar)
            guard remaining >= 0 else { break }
            kept.append(scalar)
        }
        return String(kept)
    }

    private static func trimmed(_ name: String) -> String {
        var scalars = name.unicodeScalars
        while let last = scalars.last, last == " " || last == "." { scalars.removeLast() }
        return String(scalars)
    }
}
