/// Header fields in the order received; names compare without regard to case.
package struct HeaderFields: Sendable {
    package private(set) var fields: [(name: String, value: String)] = []

    package init(_ fields: [(name: String, value: String)] = []) { self.fields = fields }

    /// The first value of a field.
    package subscript(name: String) -> String? { fields.first { $0.name == name.lowercased() }?.value }

    package func all(_ name: String) -> [String] { fields.filter { $0.name == name }.map(\.value) }

    /// Adds a line as it came off the wire; what has no colon is ignored, as is what continues an earlier line.
    mutating func append(line: Substring) {
        guard let colon = line.firstIndex(of: ":"), !line.hasPrefix(" "), !line.hasPrefix("\t") else { return }
        let value = line[line.index(after: colon)...]
        fields.append((name: line[..<colon].lowercased(), value: value.trimmed))
    }
}

extension Substring {
    /// Without spaces and tabs at both ends.
    package var trimmed: String {
        var rest = self[...]
        while let first = rest.first, first == " " || first == "\t" { rest.removeFirst() }
        while let last = rest.last, last == " " || last == "\t" { rest.removeLast() }
        return String(rest)
    }
}
