import HaulContract
import HaulHTTP
import HaulTerminal

/// What a command sends to the servers that its user has named: passwords and header fields of options. It is read once,
/// however many lists the command downloads, because it may ask for a password.
struct GetSender: Sendable {
    let credentials: GetCredentials
    let headers: [(String, String)]

    /// - Throws: `ExitStatus.usage`; the reason has been printed.
    init(_ request: RequestOptions) throws {
        credentials = try GetCredentials(request)
        headers = try request.headers().map(Self.header) + credentials.headers
    }

    /// A header field of an option or of a default.
    static func header(_ text: String) throws -> (String, String) {
        guard let colon = text.utf8.firstIndex(of: UInt8(ascii: ":")), colon != text.startIndex else {
            throw ExitStatus.printing(.usage, "-H requires \"Name: value\", not \"\(text)\"")
        }
        let name = String(text[..<colon])
        let value = text[text.utf8.index(after: colon)...].trimmed
        // A header has to keep the rules of a job's headers.
        do {
            _ = try Job(
                json: try JSON(
                    JSON.object([
                        ("url", "\"http://h/\""), ("headers", JSON.object([(name, JSON.quoted(value))])),
                    ])))
        } catch {
            let lower = name.lowercased()
            let isOwn = JobField.forbiddenHeaders.contains(lower) || lower.hasPrefix(JobField.forbiddenPrefix)
            let reason =
                switch true {
                case lower == "host":
                    "the URL says it, and --connect-to or --resolve sends the request to another server"
                case isOwn: "haul sets this header itself, so leave it out"
                case name.utf8.contains(where: { $0 <= 32 || $0 >= 127 }):
                    "a header's name has only visible ASCII characters, and no spaces"
                default: "a header's value has no line breaks and no null characters"
                }
            throw ExitStatus.printing(.usage, "-H \(JSON.quoted(name)): \(reason)")
        }
        return (name, value)
    }
}
