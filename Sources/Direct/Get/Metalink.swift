import CHaulExpat
import HaulContract
import HaulTerminal

/// Metalink 4 (RFC 5854): files, each with its mirrors, its size and its checksums.
enum Metalink {
    /// Whether a file or URL is one by its name.
    static func isNamed(_ text: String) -> Bool {
        let path = text.utf8.prefix { $0 != UInt8(ascii: "?") && $0 != UInt8(ascii: "#") }
        // Most names are decided by their last letter. To make another text of each URL takes longer.
        guard let last = path.last, last == UInt8(ascii: "4") || last | 0x20 == UInt8(ascii: "k") else { return false }
        let name = String(Substring(path)).lowercased()
        return name.hasSuffix(".meta4") || name.hasSuffix(".metalink")
    }

    /// - Parameter advice: The end of the message if it is not a Metalink.
    /// - Throws: `ExitStatus.usage` if it is not a Metalink, or has a file without an http or https URL; the reason has
    ///   been printed.
    static func entries(of path: String, _ lists: GetLists, advice: String = "") throws -> [GetPlan.Entry] {
        let origin = TextFile.name(path)
        let files: [File]
        let bytes = try lists.bytes(of: path)
        do throws(Malformed) { files = try read(bytes) } catch {
            throw ExitStatus.printing(.usage, "\(origin): \(error.why)\(advice)")
        }
        if TextFile.isURL(path) { try RemoteList.admit(files.count, "files", of: path) }
        guard !files.isEmpty else {
            throw ExitStatus.printing(
                .usage, "\(origin) names no file: it is not a Metalink 4 file (RFC 5854)\(advice)")
        }
        return try files.map { file in
            let location = "\(origin), \(file.name)"
            // Other URLs are torrents, or have schemes that Haul does not support.
            let urls = file.urls.filter { $0.url.lowercased().hasPrefix("http") }.sorted { $0.priority < $1.priority }
            guard !urls.isEmpty else { throw ExitStatus.printing(.usage, "\(location): no http or https URL") }
            if file.checksum == nil, file.hasHashes {
                throw ExitStatus.printing(
                    .usage,
                    "\(location): haul verifies sha-256, sha-512, sha-1 and md5 of whole files, and this file has only other checksums or checksums of pieces"
                )
            }
            var entry = GetPlan.Entry(origin: location, server: TextFile.isURL(path) ? path : nil)
            entry.urls = urls.prefix(16).map(\.url)
            entry.path = file.name
            if let size = file.size { entry.members.append(("size", String(size))) }
            if let checksum = file.checksum { entry.members.append(("checksum", JSON.quoted(checksum.description))) }
            return entry
        }
    }

    struct File {
        var name = ""
        var size: Int64?
        var checksums: [Job.Checksum] = []
        /// There are checksums, of whatever algorithm, of the file or of its pieces.
        var hasHashes = false
        var urls: [(url: String, priority: Int)] = []

        /// The checksum to verify: of the first of these algorithms that the file has one for.
        var checksum: Job.Checksum? {
            [.sha256, .sha512, .sha1, .md5].lazy.compactMap { algorithm in
                checksums.first { $0.algorithm == algorithm }
            }.first
        }
    }

    struct Malformed: Error { let why: String }

    static func read(_ bytes: [UInt8]) throws(Malformed) -> [File] {
        guard let parser = XML_ParserCreateNS(nil, CChar(UInt8(ascii: "|"))) else {
            throw Malformed(why: "out of memory")
        }
        defer { XML_ParserFree(parser) }
        let reader = Reader(parser)
        XML_SetUserData(parser, Unmanaged.passUnretained(reader).toOpaque())
        XML_SetElementHandler(
            parser,
            { data, name, attributes in Metalink.reader(data).begin(Metalink.text(name), attributes) },
            { data, name in Metalink.reader(data).end(Metalink.text(name)) })
        XML_SetCharacterDataHandler(parser) { data, text, count in
            Metalink.reader(data).append(UnsafeRawBufferPointer(start: text, count: Int(count)))
        }
        // Entities could make a text of gigabytes out of a short document.
        XML_SetStartDoctypeDeclHandler(parser) { data, _, _, _, _ in
            Metalink.reader(data).stop("a document type declaration is not supported")
        }
        let status = withExtendedLifetime(reader) {
            bytes.withUnsafeBytes { XML_Parse(parser, $0.bindMemory(to: CChar.self).baseAddress, Int32($0.count), 1) }
        }
        guard status == XML_STATUS_OK else {
            let line = XML_GetCurrentLineNumber(parser)
            if let refusal = reader.refusal { throw Malformed(why: "line \(line): \(refusal)") }
            let words = XML_ErrorString(XML_GetErrorCode(parser)).map { String(cString: $0) } ?? "no XML"
            throw Malformed(why: "line \(line): \(words)")
        }
        return reader.files
    }

    private static func reader(_ data: UnsafeMutableRawPointer?) -> Reader {
        Unmanaged<Reader>.fromOpaque(data!).takeUnretainedValue()
    }

    private static func text(_ name: UnsafePointer<CChar>?) -> String { name.map { String(cString: $0) } ?? "" }

    /// Collects the files from the parser's callbacks.
    private final class Reader {
        /// Each open element costs memory. A Metalink has four of them, one in the other.
        private static let maxDepth = 32
        /// Bytes of a URL, a checksum or a size.
        private static let maxText = 64 << 10

        private let parser: XML_Parser
        /// Why the document is not read to its end.
        private(set) var refusal: String?
        private(set) var files: [File] = []
        private var file: File?
        private var attributes: [String: String] = [:]
        private var text: [UInt8] = []
        private var path: [String] = []

        private static let space = "urn:ietf:params:xml:ns:metalink|"

        init(_ parser: XML_Parser) { self.parser = parser }

        func begin(_ name: String, _ pairs: UnsafeMutablePointer<UnsafePointer<CChar>?>?) {
            guard path.count < Self.maxDepth else { return stop("nested deeper than \(Self.maxDepth)") }
            path.append(name.hasPrefix(Self.space) ? String(name.dropFirst(Self.space.count)) : "?" + name)
            (attributes, text) = ([:], [])
            var next = pairs
            while let pair = next, let key = pair[0] {
                attributes[Metalink.text(key)] = Metalink.text(pair[1])
                next = pair + 2
            }
            if path == ["metalink", "file"] { file = File(name: attributes["name"] ?? "") }
        }

        func append(_ bytes: UnsafeRawBufferPointer) {
            // Other texts, such as descriptions, may be long, and are not used.
            guard path.count == 3, ["size", "hash", "url"].contains(path[2]) else { return }
            guard text.count + bytes.count <= Self.maxText else {
                return stop("the text of \(path[2]) is longer than \(Self.maxText) bytes")
            }
            text += bytes
        }

        func stop(_ why: String) {
            refusal = why
            XML_StopParser(parser, XML_Bool(XML_FALSE))
        }

        func end(_ name: String) {
            defer {
                path.removeLast()
                text = []
            }
            guard path.starts(with: ["metalink", "file"]) else { return }
            let value = String(decoding: text, as: UTF8.self).filter { !$0.isWhitespace }
            switch path.dropFirst(2) {
            case []:
                if let file { files.append(file) }
                file = nil
            case ["size"]: file?.size = Int64(value)
            case ["pieces"]: file?.hasHashes = true
            case ["hash"]:
                file?.hasHashes = true
                let algorithm = (attributes["type"] ?? "").lowercased().replacing("-", with: "")
                if let checksum = Job.Checksum("\(algorithm):\(value)") { file?.checksums.append(checksum) }
            case ["url"]:
                // A mirror without a priority is the last choice (RFC 5854 section 4.2.16.1).
                file?.urls.append((value, attributes["priority"].flatMap(Int.init) ?? 999_999))
            default: break
            }
        }
    }
}
