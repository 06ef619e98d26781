import HaulHTTP
import HaulStorage

/// What a body was compressed with though nobody asked for it: the file keeps it, and its name should say so.
enum ContentEncoding {
    /// `name` with the endings of `encoding` (a Content-Encoding), but for those that it has.
    static func name(_ name: String, of encoding: String) -> String {
        codings(encoding).reduce(name) { name, coding in
            guard let endings = endings[coding], !endings.contains(where: { hasEnding(name, $0) }) else { return name }
            return FileName.sanitise("\(name).\(endings[0])") ?? name
        }
    }

    /// Without those that change nothing.
    static func codings(_ encoding: String) -> [String] {
        encoding.split(separator: ",").map { $0.trimmed.lowercased() }.filter { !$0.isEmpty && $0 != "identity" }
    }

    /// Whether a file of that name is expected to be compressed so.
    static func isSaid(_ encoding: String, by name: String) -> Bool {
        codings(encoding).allSatisfy { coding in endings[coding]?.contains { hasEnding(name, $0) } ?? false }
    }

    private static let endings: [String: [String]] = [
        "gzip": ["gz", "tgz", "svgz"], "x-gzip": ["gz", "tgz", "svgz"], "br": ["br"], "zstd": ["zst", "tzst"],
        "deflate": ["zz"], "compress": ["Z"], "x-compress": ["Z"],
    ]

    private static func hasEnding(_ name: String, _ ending: String) -> Bool {
        name.lowercased().hasSuffix("." + ending.lowercased())
    }
}
