import Glibc
import HaulContract
import HaulDirect
import HaulHTTP
import HaulTerminal

/// The body of a call, from options that are named as in curl.
struct CallBody {
    /// The texts of `--data`, which are joined by "&" and sent as they are.
    var data: [String] = []
    /// The fields of `--data-urlencode`, which are encoded.
    var encoded: [String] = []
    /// The pieces of `--json`.
    var json: [String] = []
    var binary: String?
    /// The parts of `--form`.
    var form: [String] = []
    /// Bytes that a body may have.
    let limit: Int

    enum Content {
        case text(String)
        case json(String)
        case fields([(String, String)])
        case bytes([UInt8], type: String)
    }

    private var given: [Bool] { [!data.isEmpty || !encoded.isEmpty, !json.isEmpty, binary != nil, !form.isEmpty] }

    /// Whether an option names a body.
    var isGiven: Bool { given.contains(true) }

    /// nil without a body.
    ///
    /// - Throws: `ExitStatus.usage`; the reason has been printed.
    func content() throws -> Content? {
        if given.count(where: { $0 }) > 1 {
            throw Self.wrong("only one of --data or --data-urlencode, --json, --data-binary and --form may be given")
        }
        if !json.isEmpty {
            let text = String(decoding: try json.flatMap(bytes), as: UTF8.self)
            guard (try? JSON(text)) != nil else { throw Self.wrong("--json must be JSON, not \(text)") }
            return .json(text)
        }
        if let binary { return .bytes(try bytes(binary), type: "application/octet-stream") }
        if !form.isEmpty {
            let form = try FormBody(form) { try bytes($0) }
            return .bytes(form.bytes, type: form.type)
        }
        if data.isEmpty, !encoded.isEmpty {
            // The form of a job has only fields with names, which occur once, and whose values are texts.
            let fields = encoded.compactMap { text in
                text.firstIndex(of: "=").map { (String(text[..<$0]), String(text[text.index(after: $0)...])) }
            }
            let names = Set(fields.map { Array($0.0.utf8) })
            let isForm = names.count == encoded.count && !names.contains([])
            return isForm ? .fields(fields) : .text(try encodedText(space: "+"))
        }
        guard !data.isEmpty else { return nil }
        var pieces = try lines()
        if !encoded.isEmpty { pieces.append(Array(try encodedText(space: "+").utf8)) }
        let whole = Array(pieces.joined(separator: [UInt8(ascii: "&")]))
        guard let text = String(validating: whole, as: UTF8.self) else {
            return .bytes(whole, type: "application/x-www-form-urlencoded")
        }
        return .text(text)
    }

    /// The texts of `--data` and `--data-urlencode` for the query of a URL.
    func query() throws -> String {
        // A URL is a text, so other bytes than those of a text are sent encoded.
        let texts = try lines().map { (line: [UInt8]) -> String in
            if let text = String(validating: line, as: UTF8.self) { return text }
            return line.map { $0 < 0x80 ? String(UnicodeScalar($0)) : Self.encode([$0], "") }.joined()
        }
        return (texts + (encoded.isEmpty ? [] : [try encodedText(space: "%20")])).joined(separator: "&")
    }

    /// The texts of `--data`. As in curl, whose -d sends one line of a form, a file is read without its line ends;
    /// --data-binary sends it as it is.
    private func lines() throws -> [[UInt8]] {
        try data.map { text in
            try text.hasPrefix("@") ? bytes(text).filter { ![0, 10, 13].contains($0) } : Array(text.utf8)
        }
    }

    /// The texts of `--data-urlencode`, encoded and joined by "&". Without a name a field is its value alone.
    ///
    /// - Parameter space: What stands for a space.
    private func encodedText(space: String) throws -> String {
        try encoded.map { text in
            guard let mark = text.firstIndex(of: "=") ?? text.firstIndex(of: "@") else {
                return Self.encode(Array(text.utf8), space)
            }
            let (name, rest) = (text[..<mark], text[text.index(after: mark)...])
            let value = try text[mark] == "=" ? Array(rest.utf8) : bytes("@" + rest)
            return (name.isEmpty ? "" : Self.encode(Array(name.utf8), space) + "=") + Self.encode(value, space)
        }.joined(separator: "&")
    }

    private static func encode(_ bytes: [UInt8], _ space: String) -> String {
        bytes.map { byte in
            switch byte {
            case 32: space
            case 0x80...: "%" + String(byte, radix: 16, uppercase: true)
            default: PercentEncoding.component(String(Unicode.Scalar(byte)))
            }
        }.joined()
    }

    /// The bytes of `@FILE`, of standard input for `@-`, or of the text itself.
    private func bytes(_ text: String) throws -> [UInt8] {
        guard text.hasPrefix("@") else { return Array(text.utf8) }
        let path = String(text.dropFirst())
        let descriptor = path == "-" ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw Self.wrong("\(path) cannot be read: \(String(cString: strerror(errno)))") }
        defer { if path != "-" { close(descriptor) } }
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 64 << 10)
        while bytes.count <= limit {
            let count = read(descriptor, &buffer, buffer.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw Self.wrong("\(path) cannot be read: \(String(cString: strerror(errno)))") }
            if count == 0 { return bytes }
            bytes += buffer[..<count]
        }
        throw Self.wrong(
            "\(path) is too long: a body has at most \(limit) bytes here; haul put sends files of any size")
    }

    private static func wrong(_ sentence: String) -> ExitStatus {
        .printing(.usage, "\(sentence). Nothing was sent.")
    }
}

extension CallBody.Content {
    /// The member of a job that holds the body.
    var member: (name: String, value: String) {
        switch self {
        case .text(let text): ("body", JSON.quoted(text))
        case .json(let text): ("json", text)
        case .fields(let fields): ("form", JSON.object(fields.map { ($0.0, JSON.quoted($0.1)) }))
        case .bytes(let bytes, _): ("body_base64", JSON.quoted(Base64.encode(bytes)))
        }
    }

    /// Sets the body of a job that this process does itself. Elements of Redis are short, and such a job need not be.
    func set(in job: inout Job) {
        switch self {
        case .text(let text): job.body = text
        case .json(let text): job.request.json = text
        case .fields(let fields): job.request.form = fields.map { Job.Item($0.0, $0.1) }
        case .bytes(let bytes, _): job.request.bodyBase64 = Base64.encode(bytes)
        }
    }
}
