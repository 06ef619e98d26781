import HaulContract

/// A request's decoded query (application/x-www-form-urlencoded).
struct Query: Sendable {
    let pairs: [(name: String, value: String)]

    /// The only parameter that may be repeated: each value is a further resource.
    private static let repeatable = "watch"

    /// - Parameter names: The parameters that may be given.
    /// - Throws: `bad_request` for a broken escape or invalid UTF-8, and for a parameter that is not known or is repeated.
    ///   A filter that is ignored would select more than was meant.
    init(_ text: String, of names: [String]) throws(APIError) {
        var pairs: [(name: String, value: String)] = []
        for part in text.split(separator: "&") {
            let sides = part.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard let name = Self.decoded(sides[0], plusIsSpace: true),
                let value = sides.count > 1 ? Self.decoded(sides[1], plusIsSpace: true) : ""
            else { throw APIError(400, .badRequest, "\(part) in the query is not percent-encoded UTF-8") }
            guard names.contains(name) else {
                let known = names.isEmpty ? "it has none" : "its parameters are \(names.joined(separator: ", "))"
                throw APIError(400, .badRequest, "this path has no parameter \(JSON.quoted(name)): \(known)")
            }
            guard name == Self.repeatable || !pairs.contains(where: { $0.name == name }) else {
                throw APIError(400, .badRequest, "the parameter \(name) is given more than once: give one value")
            }
            pairs.append((name, value))
        }
        self.pairs = pairs
    }

    subscript(name: String) -> String? { pairs.first { $0.name == name }?.value }

    /// A whole number within `range`; `fallback` if it is missing.
    ///
    /// - Throws: `bad_request` for anything else.
    func integer(_ name: String, in range: ClosedRange<Int64>, else fallback: Int64) throws(APIError) -> Int64 {
        guard let text = self[name] else { return fallback }
        guard let number = Int64(text), range.contains(number) else {
            throw APIError(
                400, .badRequest,
                "\(name) must be a whole number from \(range.lowerBound) to \(range.upperBound)")
        }
        return number
    }

    /// `true` or `false`; false if it is missing.
    ///
    /// - Throws: `bad_request` for anything else.
    func flag(_ name: String) throws(APIError) -> Bool {
        switch self[name] {
        case "true": true
        case "false", nil: false
        default: throw APIError(400, .badRequest, "\(name) must be true or false")
        }
    }

    /// Decodes a segment of a path; nil as for `decoded`. URL clients remove the segments "." and ".." from a path, even
    /// when they are percent-encoded. So a job or a batch of such a name has "=" before it, which no name contains.
    static func segment(_ text: some StringProtocol) -> String? {
        decoded(text).map { $0.hasPrefix("=") ? String($0.dropFirst()) : $0 }
    }

    /// Decodes percent-encoding; nil for a broken escape or invalid UTF-8.
    static func decoded(_ text: some StringProtocol, plusIsSpace: Bool = false) -> String? {
        var bytes: [UInt8] = []
        var rest = Array(text.utf8)[...]
        while let byte = rest.popFirst() {
            if byte == UInt8(ascii: "%") {
                guard rest.count >= 2, let value = Hexadecimal.bytes(String(decoding: rest.prefix(2), as: UTF8.self))
                else { return nil }
                bytes.append(value[0])
                rest = rest.dropFirst(2)
            } else {
                bytes.append(plusIsSpace && byte == UInt8(ascii: "+") ? 32 : byte)
            }
        }
        return String(validating: bytes, as: UTF8.self)
    }
}
