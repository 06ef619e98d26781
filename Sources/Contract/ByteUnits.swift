/// Numbers of bytes as people write them.
package enum ByteUnits {
    /// Reads `500`, `64k`, `1.5G`, `5MiB` (units of 1024) and `5MB` (units of 1000). A `/s` may follow.
    /// nil for any other text, and if an `Int64` cannot hold the number.
    package static func count(_ text: String) -> Int64? {
        var text = text.lowercased()[...]
        if text.hasSuffix("/s") { text = text.dropLast(2) }
        let digits = text.prefix { $0.isASCII && $0.isNumber || $0 == "." }
        let unit = text.dropFirst(digits.count).drop { $0 == " " }
        guard let factor = factors[String(unit)] else { return nil }
        if let whole = Int64(digits) {
            let (product, isTooLarge) = whole.multipliedReportingOverflow(by: factor)
            return isTooLarge ? nil : product
        }
        guard let value = Double(digits), factor > 1 else { return nil }
        return Int64(exactly: (value * Double(factor)).rounded())
    }

    private static let factors: [String: Int64] = {
        var factors: [String: Int64] = ["": 1, "b": 1]
        var (binary, decimal): (Int64, Int64) = (1, 1)
        for letter in ["k", "m", "g", "t", "p"] {
            (binary, decimal) = (binary * 1024, decimal * 1000)
            (factors[letter], factors[letter + "i"], factors[letter + "ib"]) = (binary, binary, binary)
            factors[letter + "b"] = decimal
        }
        return factors
    }()
}
