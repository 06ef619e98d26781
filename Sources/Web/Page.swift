import CHaulPage
import HaulContract
import HaulHTTPServer

/// The page's files. They are compiled in, so the page needs no files beside the binary and no other server.
struct Page: Sendable {
    struct File: Sendable {
        let type: String
        let bytes: [UInt8]
        let tag: String

        init(_ name: String, _ bytes: [UInt8]) {
            self.bytes = bytes
            type = Page.types[String(name.split(separator: ".").last ?? "")] ?? "application/octet-stream"
            tag = "\"\(Hexadecimal.text(SHA256.digest(bytes).prefix(8)))\""
        }
    }

    private static let types = [
        "html": "text/html; charset=utf-8", "css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8",
        "json": "application/json", "svg": "image/svg+xml",
        "webmanifest": "application/manifest+json",
    ]

    private let files: [String: File]

    init() {
        files = Dictionary(uniqueKeysWithValues: PageFiles.all.map { ($0.name, File($0.name, $0.bytes)) })
    }

    /// The file of this name, or 304 if the browser has it; nil if there is none. An empty name means index.html.
    func response(_ name: String, to request: ServerRequest) -> ServerResponse? {
        guard let file = files[name.isEmpty ? "index.html" : name] else { return nil }
        let fields = [("Content-Type", file.type), ("ETag", file.tag), ("Cache-Control", "no-cache")]
        let isKnown = request["if-none-match"]?.contains(file.tag) ?? false
        return ServerResponse(isKnown ? 304 : 200, fields: fields, body: .bytes(isKnown ? [] : file.bytes))
    }
}

/// The files of Page/ that CPage embeds, with the names under which they are served.
enum PageFiles {
    static var all: [(name: String, bytes: [UInt8])] {
        var files: [(name: String, bytes: [UInt8])] = []
        var next = chaul_page_files()
        while let file = next?.pointee, let name = file.name, let text = file.text {
            files.append((String(cString: name), Array(String(cString: text).utf8)))
            next = next?.successor()
        }
        return files
    }
}
