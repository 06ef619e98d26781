import CHaulExpat

/// An element of an object store's XML. Names have no namespace, since some servers leave it out.
struct XMLElement: Sendable, Equatable {
    let name: String
    var text = ""
    var children: [XMLElement] = []

    init(name: String) { self.name = name }

    /// Bytes. No response to a request that is made here is longer.
    static let maxBytes = 8 << 20
    private static let deepest = 32
    /// A page of a listing has a thousand entries, each of some ten elements. An element costs far more memory than the
    /// four bytes that it may have in a response.
    private static let maxElements = 50_000

    /// Parses a response; nil if it is not XML, has a document type declaration, or is too long or too deep, or has too
    /// many elements.
    init?(_ bytes: [UInt8]) {
        guard bytes.count <= Self.maxBytes, let parser = XML_ParserCreateNS(nil, CChar(UInt8(ascii: "|"))) else {
            return nil
        }
        defer { XML_ParserFree(parser) }
        let reader = Reader(parser)
        XML_SetUserData(parser, Unmanaged.passUnretained(reader).toOpaque())
        XML_SetElementHandler(
            parser,
            { data, name, _ in XMLElement.reader(data).begin(name.map { String(cString: $0) } ?? "") },
            { data, _ in XMLElement.reader(data).end() })
        XML_SetCharacterDataHandler(parser) { data, text, count in
            XMLElement.reader(data).append(UnsafeRawBufferPointer(start: text, count: Int(count)))
        }
        XML_SetStartDoctypeDeclHandler(parser) { data, _, _, _, _ in XMLElement.reader(data).stop() }
        let status = withExtendedLifetime(reader) {
            bytes.withUnsafeBytes { XML_Parse(parser, $0.bindMemory(to: CChar.self).baseAddress, Int32($0.count), 1) }
        }
        guard status == XML_STATUS_OK, let root = reader.root else { return nil }
        self = root
    }

    /// The first child of that name.
    subscript(_ name: String) -> XMLElement? { children.first { $0.name == name } }

    func all(_ name: String) -> [XMLElement] { children.filter { $0.name == name } }

    /// The text of the first child of that name.
    func text(_ name: String) -> String? { self[name]?.text }

    /// Escapes a text for XML.
    static func escape(_ text: String) -> String {
        text.replacing("&", with: "&amp;").replacing("<", with: "&lt;").replacing(">", with: "&gt;")
            .replacing("\"", with: "&quot;")
    }

    private static func reader(_ data: UnsafeMutableRawPointer?) -> Reader {
        Unmanaged<Reader>.fromOpaque(data!).takeUnretainedValue()
    }

    /// Builds the tree of elements from the parser's calls.
    private final class Reader {
        private let parser: XML_Parser
        private var open: [XMLElement] = []
        private var texts: [[UInt8]] = []
        private var count = 0
        private(set) var root: XMLElement?

        init(_ parser: XML_Parser) { self.parser = parser }

        func begin(_ name: String) {
            count += 1
            guard open.count < XMLElement.deepest, count <= XMLElement.maxElements else { return stop() }
            open.append(XMLElement(name: name.split(separator: "|").last.map(String.init) ?? ""))
            texts.append([])
        }

        func append(_ bytes: UnsafeRawBufferPointer) { if !texts.isEmpty { texts[texts.count - 1] += bytes } }

        func end() {
            guard var element = open.popLast(), let text = texts.popLast() else { return }
            element.text = element.children.isEmpty ? String(decoding: text, as: UTF8.self) : ""
            if open.isEmpty { root = element } else { open[open.count - 1].children.append(element) }
        }

        func stop() { XML_StopParser(parser, XML_Bool(XML_FALSE)) }
    }
}
