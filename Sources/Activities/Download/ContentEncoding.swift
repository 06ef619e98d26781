import HaulHTTP
import HaulStorage

/// The compression of a body that a server sent although the request did not accept any. The file stays compressed, and
/// its name shows that.
enum ContentEncoding {
    /// `name` with the file extensions of `encoding` (a Content-Encoding), except those that it already has.
    static func name(_ name: String, of encoding: String) -> String {
        codings(encoding).reduce(name) { name, coding in
            guard let endings = endings[coding], !endings.contains(where: { hasEnding(name, $0) }) else { return name }
            return FileName.sanitize("\(name).\(endings[0])") ?? name
        }
    }

    /// The codings in their order, without `identity`.
    static func codings(_ encoding: String) -> [String] {
        encoding.split(separator: ",").map { $0.trimmed.lowercased() }.filter { !$0.isEmpty && $0 != "identity" }
    }

    /// Whether the file's name already shows this compression.
    static func isShown(_ encoding: String, in name: String) -> Bool {
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
