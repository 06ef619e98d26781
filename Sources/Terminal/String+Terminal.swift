extension String {
    /// Followed by spaces, so that it is at least `width` columns wide.
    package func padded(to width: Int) -> String { self + Self.spaces(width - Columns.of(self)) }

    /// Preceded by spaces, so that it is at least `width` columns wide.
    package func aligned(to width: Int) -> String { Self.spaces(width - Columns.of(self)) + self }

    package static func spaces(_ count: Int) -> String { String(repeating: " ", count: Swift.max(0, count)) }

    /// Safe to print on a terminal. Text from servers and producers must not send control sequences, be invisible, or
    /// reorder the text beside it. Control and format characters, line separators and characters without a glyph are
    /// replaced.
    package var printable: String {
        if utf8.allSatisfy({ 0x20 <= $0 && $0 < 0x7F }) { return self }
        var result = UnicodeScalarView()
        for scalar in unicodeScalars { result.append(Self.isHarmless(scalar) ? scalar : "\u{FFFD}") }
        return String(result)
    }

    private static func isHarmless(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator, .surrogate: false
        default: Columns.of(scalar) >= 0
        }
    }

    /// Its beginning, in at most `width` columns. A cut is marked with an ellipsis.
    package func truncated(to width: Int) -> String {
        guard Columns.of(self) > width else { return self }
        return Self.fitting(unicodeScalars, width - 1) + (width > 0 ? "…" : "")
    }

    /// Its end, in at most `width` columns: the end of a path or a URL says more than its beginning.
    package func truncatedAtStart(to width: Int) -> String {
        guard Columns.of(self) > width else { return self }
        return (width > 0 ? "…" : "") + Self.fittingEnd(unicodeScalars, width - 1)
    }

    /// At most `width` columns. The middle is cut out, so that the file name extension stays.
    package func shortened(to width: Int) -> String {
        guard Columns.of(self) > width else { return self }
        guard width > 1 else { return width == 1 ? "…" : "" }
        let tail = (width - 1) / 2
        return Self.fitting(unicodeScalars, width - 1 - tail) + "…" + Self.fittingEnd(unicodeScalars, tail)
    }

    /// Cut into pieces of at most `width` columns.
    package func pieces(of width: Int) -> [String] {
        var pieces: [String] = []
        var rest = unicodeScalars[...]
        while !rest.isEmpty {
            // A character that is wider than `width` is a piece by itself.
            let count = Swift.max(1, Self.fitting(rest, width).unicodeScalars.count)
            pieces.append(String(rest.prefix(count)))
            rest = rest.dropFirst(count)
        }
        return pieces
    }

    private static func fittingEnd(_ scalars: UnicodeScalarView, _ width: Int) -> String {
        var result = UnicodeScalarView()
        result.append(contentsOf: fitting(scalars.reversed(), width).unicodeScalars.reversed())
        return String(result)
    }

    private static func fitting(_ scalars: some Collection<Unicode.Scalar>, _ width: Int) -> String {
        var result = UnicodeScalarView()
        var available = Swift.max(0, width)
        for scalar in scalars {
            available -= Swift.max(0, Columns.of(scalar))
            guard available >= 0 else { break }
            result.append(scalar)
        }
        return String(result)
    }
}
