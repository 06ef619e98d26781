import HaulContract
import HaulTerminal

/// A URL of the command line that stands for several: `f[1-9].bin`, `[01-10]`, `[a-z]`, `[0-100:10]` and `{one,two}`, as
/// in curl. Other brackets and braces stand for themselves, so that an IPv6 address does, too.
struct URLPattern {
    /// A URL, and the texts that its patterns stand for.
    struct URL: Equatable {
        var text: String
        var values: [String] = []
    }

    let urls: [URL]

    /// More would hardly be meant.
    private static let maxURLs = 100_000

    /// - Throws: `ExitStatus.usage` if it stands for too many URLs; the reason has been printed.
    init(_ text: String) throws {
        guard text.utf8.contains(where: { $0 == UInt8(ascii: "[") || $0 == UInt8(ascii: "{") }) else {
            urls = [URL(text: text)]
            return
        }
        var urls = [URL(text: "")]
        var rest = text[...]
        while let character = rest.first {
            let close: Character? = character == "[" ? "]" : character == "{" ? "}" : nil
            guard let close, let end = rest.firstIndex(of: close),
                let values = Self.values(rest[rest.index(after: rest.startIndex)..<end], isList: close == "}")
            else {
                for index in urls.indices { urls[index].text.append(character) }
                rest = rest.dropFirst()
                continue
            }
            guard urls.count * values.count <= Self.maxURLs else {
                throw ExitStatus.printing(
                    .usage,
                    "\(MaskedURL.keepingQuery(text)) stands for more than \(Self.maxURLs) URLs: -g takes brackets and braces as they are"
                )
            }
            urls = urls.flatMap { url in
                values.map { URL(text: url.text + $0, values: url.values + [$0]) }
            }
            rest = rest[end...].dropFirst()
        }
        self.urls = urls
    }

    /// nil if the text between the brackets is not a pattern.
    private static func values(_ text: Substring, isList: Bool) -> [String]? {
        if isList {
            let parts = text.split(separator: ",", omittingEmptySubsequences: false).map(String.init)
            return parts.count > 1 ? parts : nil
        }
        let parts = text.split(separator: ":", omittingEmptySubsequences: false)
        let ends = parts[0].split(separator: "-", omittingEmptySubsequences: false).map(String.init)
        guard parts.count <= 2, ends.count == 2, let step = parts.count == 2 ? Int(parts[1]) : 1, step > 0 else {
            return nil
        }
        if let first = Int(ends[0]), let last = Int(ends[1]), first <= last, (last - first) / step < maxURLs {
            // Leading zeros give the width, as in [001-100].
            let width = ends[0].hasPrefix("0") ? ends[0].count : 0
            return stride(from: first, through: last, by: step).map { number in
                let digits = String(number)
                return String(repeating: "0", count: max(0, width - digits.count)) + digits
            }
        }
        let letters = ends.compactMap { $0.utf8.count == 1 ? $0.utf8.first : nil }
        guard letters.count == 2, letters[0] <= letters[1],
            letters.allSatisfy({ 97...122 ~= $0 }) || letters.allSatisfy({ 65...90 ~= $0 })
        else { return nil }
        return stride(from: Int(letters[0]), through: Int(letters[1]), by: step).map {
            String(Unicode.Scalar(UInt8($0)))
        }
    }

    /// `name` with `#1` replaced by what the first pattern of `url` stands for, and so on.
    static func name(_ name: String, of url: URL) -> String {
        var result = ""
        var rest = name[...]
        while let mark = rest.firstIndex(of: "#") {
            result += rest[..<mark]
            rest = rest[mark...].dropFirst()
            let digits = rest.prefix { $0.isASCII && $0.isNumber }
            guard let number = Int(digits), (1...max(1, url.values.count)).contains(number), !url.values.isEmpty else {
                result += "#"
                continue
            }
            result += url.values[number - 1]
            rest = rest.dropFirst(digits.count)
        }
        return result + rest
    }
}
