import Glibc
import HaulContract
import HaulDirect
import HaulTerminal

/// The body of a call, from options that are named as in curl.
struct CallBody {
    /// The texts of `--data`, which are joined by "&" and sent as they are.
    var data: [String] = []
    /// The fields of `--data-urlencode`, which are encoded.
    var encoded: [String] = []
    var json: String?
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

    /// nil without a body.
    ///
    /// - Throws: `ExitStatus.usage`; the reason has been printed.
    func content() throws -> Content? {
        let given = [!data.isEmpty, !encoded.isEmpty, json != nil, binary != nil, !form.isEmpty].count { $0 }
        if given > 1 {
            throw Self.wrong("only one of --data, --data-urlencode, --json, --data-binary and --form may be given")
        }
        if let json {
            let text = String(decoding: try bytes(json), as: UTF8.self)
            guard (try? JSON(text)) != nil else { throw Self.wrong("--json must be JSON, not \(text)") }
            return .json(text)
        }
        if let binary { return .bytes(try bytes(binary), type: "application/octet-stream") }
        if !form.isEmpty {
            let form = try FormBody(form) { try bytes($0) }
            return .bytes(form.bytes, type: form.type)
        }
        if !encoded.isEmpty { return .fields(try encoded.map(NamedValue.parts)) }
        guard !data.isEmpty else { return nil }
        return .text(try data.map { String(decoding: try bytes($0), as: UTF8.self) }.joined(separator: "&"))
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
