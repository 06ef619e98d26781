import HaulContract

/// The byte sequences in a dictionary of HTTP structured fields (RFC 9651), such as `sha-256=:…:, sha-512=:…:`.
///
/// Members of other types are skipped. As the RFC requires, one syntax error makes the whole field count as absent.
struct ByteDictionary {
    private(set) var members: [String: [UInt8]] = [:]
    private var rest: Substring.UTF8View

    init?(_ text: String) {
        rest = Substring(text).utf8
        guard readMembers() else { return nil }
    }

    private mutating func readMembers() -> Bool {
        skipBlanks()
        while !rest.isEmpty {
            guard let key = readKey() else { return false }
            var value: [UInt8]?
            if take("=") {
                guard let item = readItem() else { return false }
                if case .bytes(let bytes) = item { value = bytes }
            }
            while take(";") {
                skipBlanks()
                guard readKey() != nil else { return false }
                if take("="), readItem() == nil { return false }
            }
            // If a key is repeated, its last member counts.
            members[key] = value
            skipBlanks()
            if rest.isEmpty { return true }
            guard take(",") else { return false }
            skipBlanks()
            if rest.isEmpty { return false }
        }
        return true
    }

    private mutating func readKey() -> String? {
        let key = rest.prefix { 97...122 ~= $0 || 48...57 ~= $0 || "*_-.".utf8.contains($0) }
        guard let first = key.first, 97...122 ~= first || first == UInt8(ascii: "*") else { return nil }
        rest = rest[key.endIndex...]
        return String(Substring(key))
    }

    private enum Item { case bytes([UInt8]), other }

    private mutating func readItem() -> Item? {
        if take(":") {
            let text = rest.prefix { $0 != UInt8(ascii: ":") }
            rest = rest[text.endIndex...]
            guard take(":"), let bytes = Base64.decode(text) else { return nil }
            return .bytes(bytes)
        }
        if take("\"") { return skipString() ? .other : nil }
        let token = rest.prefix { !" \t,;\":()".utf8.contains($0) }
        guard !token.isEmpty else { return nil }
        rest = rest[token.endIndex...]
        return .other
    }

    /// Skips to the byte after the closing quote; false if there is none.
    private mutating func skipString() -> Bool {
        while let byte = rest.popFirst() {
            if byte == UInt8(ascii: "\"") { return true }
            if byte == UInt8(ascii: "\\") { _ = rest.popFirst() }
        }
        return false
    }

    private mutating func take(_ character: Unicode.Scalar) -> Bool {
        guard rest.first == UInt8(ascii: character) else { return false }
        rest.removeFirst()
        return true
    }

    private mutating func skipBlanks() { rest = rest.drop { $0 == 32 || $0 == 9 } }
}
