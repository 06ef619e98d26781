extension String {
    func padded(to width: Int) -> String { count >= width ? self : self + String(repeating: " ", count: width - count) }

    /// Without control characters: what servers and producers have written must not steer the reader's terminal.
    var printable: String {
        guard unicodeScalars.contains(where: { $0.properties.generalCategory == .control }) else { return self }
        var result = UnicodeScalarView()
        result.append(
            contentsOf: unicodeScalars.map { $0.properties.generalCategory == .control ? "\u{FFFD}" : $0 })
        return String(result)
    }
}
