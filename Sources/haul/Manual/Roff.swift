/// Text in the macros of man(7).
struct Roff {
    private(set) var text = ""

    /// Appends a line that is roff already.
    mutating func raw(_ line: String) { text += line + "\n" }

    mutating func section(_ name: String) { raw(".SH \(name)") }

    mutating func paragraph(_ words: String) {
        // A paragraph macro right after a heading would begin an empty paragraph.
        let previous = text.split(separator: "\n").last ?? ""
        if !previous.hasPrefix(".SH"), !previous.hasPrefix(".SS") { raw(".PP") }
        raw(Self.escaped(words))
    }

    /// An entry of a list; `label` is roff already.
    mutating func item(_ label: String, _ words: String) {
        raw(".TP\n\(label)\n\(words.isEmpty ? "\\&" : Self.escaped(words))")
    }

    /// Escapes all characters that roff would read as an escape or a request.
    static func escaped(_ words: String) -> String {
        words.split(separator: "\n").flatMap { lines(of: escapedLine($0)) }
            .map { $0.hasPrefix(".") || $0.hasPrefix("'") ? "\\&" + $0 : $0 }.joined(separator: "\n")
    }

    private static func escapedLine(_ line: Substring) -> String {
        line.reduce(into: "") { result, character in
            switch character {
            case "\\": result += "\\e"
            case "-", "\u{2011}": result += "\\-"
            case "\u{2026}": result += "..."
            default: result.append(character)
            }
        }
    }

    /// Lines of at most 72 bytes, unless a word is longer. The program that shows the page breaks lines again.
    private static func lines(of text: String) -> [String] {
        var lines: [String] = []
        for word in text.split(separator: " ") {
            if let last = lines.last, last.utf8.count + word.utf8.count < 72 {
                lines[lines.count - 1] = last + " " + word
            } else {
                lines.append(String(word))
            }
        }
        return lines
    }
}
