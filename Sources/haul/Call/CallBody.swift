import Glibc
import HaulContract
import HaulTerminal

/// The body of a call, from options that are named as in curl.
struct CallBody {
    /// The texts of `--data`, which are joined by "&" and sent as they are.
    var data: [String] = []
    /// The fields of `--data-urlencode`, which are encoded.
    var encoded: [String] = []
    var json: String?
    var binary: String?

    /// The members of the job that hold the body; empty without one.
    ///
    /// - Throws: `ExitStatus.usage`; the reason has been printed.
    func members() throws -> [(name: String, value: String)] {
        let given = [!data.isEmpty, !encoded.isEmpty, json != nil, binary != nil].count { $0 }
        if given > 1 { throw Self.wrong("only one of --data, --data-urlencode, --json and --data-binary may be given") }
        if let json {
            let text = String(decoding: try Self.bytes(json), as: UTF8.self)
            guard (try? JSON(text)) != nil else { throw Self.wrong("--json must be JSON, not \(text)") }
            return [("json", text)]
        }
        if let binary { return [("body_base64", JSON.quoted(Base64.encode(try Self.bytes(binary))))] }
        if !encoded.isEmpty {
            return [("form", JSON.object(try encoded.map(NamedValue.parts).map { ($0.0, JSON.quoted($0.1)) }))]
        }
        guard !data.isEmpty else { return [] }
        let text = try data.map { String(decoding: try Self.bytes($0), as: UTF8.self) }.joined(separator: "&")
        return [("body", JSON.quoted(text))]
    }

    /// The bytes of `@FILE`, of standard input for `@-`, or of the text itself.
    private static func bytes(_ text: String) throws -> [UInt8] {
        guard text.hasPrefix("@") else { return Array(text.utf8) }
        let path = String(text.dropFirst())
        let descriptor = path == "-" ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw wrong("\(path) cannot be read: \(String(cString: strerror(errno)))") }
        defer { if path != "-" { close(descriptor) } }
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 16 << 10)
        // An element cannot be larger.
        while bytes.count <= JobField.largestElement {
            let count = read(descriptor, &buffer, buffer.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw wrong("\(path) cannot be read: \(String(cString: strerror(errno)))") }
            if count == 0 { return bytes }
            bytes += buffer[..<count]
        }
        throw wrong("\(path) is too long: a job has at most \(JobField.largestElement) bytes in all")
    }

    private static func wrong(_ sentence: String) -> ExitStatus {
        .printing(.usage, "\(sentence). Nothing was pushed.")
    }
}
