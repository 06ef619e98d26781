/// Texts in columns of a terminal.
extension String {
    /// How many columns it takes: letters of East Asia take two, combining marks none.
    var columns: Int { unicodeScalars.reduce(0) { $0 + Self.columns(of: $1) } }

    private static func columns(of scalar: Unicode.Scalar) -> Int {
        if scalar.isASCII { return 1 }
        switch scalar.properties.generalCategory {
        case .nonspacingMark, .enclosingMark, .format: return 0
        default: return wide.contains { $0.contains(scalar.value) } ? 2 : 1
        }
    }

    /// The blocks of Unicode's East Asian Width "W" and "F" (UAX 11), in rough.
    private static let wide: [ClosedRange<UInt32>] = [
        0x1100...0x115F, 0x2E80...0x303E, 0x3041...0xA4CF, 0xA960...0xA97C, 0xAC00...0xD7A3, 0xF900...0xFAFF,
        0xFE30...0xFE6F, 0xFF00...0xFF60, 0xFFE0...0xFFE6, 0x1F300...0x1F64F, 0x1F680...0x1F6FF, 0x1F900...0x1F9FF,
        0x20000...0x3FFFD,
    ]

    /// At most so many columns: what is too much is taken from the middle, so that the ending stays.
    func shortened(to width: Int) -> String {
        guard columns > width else { return self }
        guard width > 1 else { return width == 1 ? "…" : "" }
        let tail = (width - 1) / 2
        var (end, count) = (String.UnicodeScalarView(), 0)
        for scalar in unicodeScalars.reversed() {
            count += Self.columns(of: scalar)
            if count > tail { break }
            end.insert(scalar, at: end.startIndex)
        }
        var (begin, room) = (String.UnicodeScalarView(), width - 1 - tail)
        for scalar in unicodeScalars {
            room -= Self.columns(of: scalar)
            if room < 0 { break }
            begin.append(scalar)
        }
        return String(begin) + "…" + String(end)
    }

    /// With blanks behind it, or before it.
    func filled(to width: Int, right: Bool = false) -> String {
        let blanks = String(repeating: " ", count: max(0, width - columns))
        return right ? blanks + self : self + blanks
    }
}
