import HaulContract
import HaulHTTP
import HaulTerminal

/// The text of `--write-out`, with curl's variables: `%{http_code}`, `%header{etag}`, `\n`.
package struct WriteOut: Sendable {
    /// What the variables say about one transfer.
    struct Values: Sendable {
        var url = ""
        var facts = TransferRecord.Facts()
        var downloaded: Int64 = 0
        var uploaded: Int64 = 0
        var seconds = 0.0
        var file = ""
        var method = "GET"
        var isSuccess = true
        var message = ""
    }

    private enum Part: Sendable {
        case text(String)
        case variable(String)
        case header(String)
        case stream(isError: Bool)
    }

    private let parts: [Part]

    /// A piece of the text, and whether it goes to standard error.
    typealias Piece = (text: String, isError: Bool)

    /// - Throws: `Unknown` if the text names a variable that does not exist.
    package init(_ format: String) throws(Unknown) {
        var parts: [Part] = []
        var text = ""
        var rest = format[...]
        func end(of marker: String) -> Substring? {
            guard rest.hasPrefix(marker), let close = rest.firstIndex(of: "}") else { return nil }
            return rest[rest.index(rest.startIndex, offsetBy: marker.count)..<close]
        }
        while let character = rest.first {
            if character == "\\", let escape = rest.dropFirst().first, let meaning = Self.escapes[escape] {
                text.append(meaning)
                rest = rest.dropFirst(2)
            } else if rest.hasPrefix("%%") {
                text.append("%")
                rest = rest.dropFirst(2)
            } else if let name = end(of: "%{") {
                parts += [.text(text)]
                text = ""
                switch name {
                case "stderr", "stdout": parts.append(.stream(isError: name == "stderr"))
                default:
                    guard Self.value(String(name), Values()) != nil else { throw Unknown(name: String(name)) }
                    parts.append(.variable(String(name)))
                }
                rest = rest[name.endIndex...].dropFirst()
            } else if let name = end(of: "%header{") {
                parts += [.text(text), .header(String(name))]
                text = ""
                rest = rest[name.endIndex...].dropFirst()
            } else {
                text.append(character)
                rest = rest.dropFirst()
            }
        }
        self.parts = parts + [.text(text)]
    }

    /// - Parameter text: The format, or `@FILE` or `@-`.
    /// - Throws: `ExitStatus.usage`; the reason has been printed.
    static func read(_ text: String) throws -> WriteOut {
        // As in curl, the line ends of a file do not count: it has \n where a line is to end.
        let format = text.hasPrefix("@") ? try TextFile.lines(of: String(text.dropFirst())).joined() : text
        do throws(Unknown) { return try WriteOut(format) } catch {
            throw ExitStatus.printing(
                .usage, "--write-out: %{\(error.name)} is not a variable; docs/guides/haul-get.md lists all of them")
        }
    }

    package struct Unknown: Error, Sendable { package let name: String }

    private static let escapes: [Character: Character] = ["n": "\n", "t": "\t", "r": "\r", "\\": "\\"]

    func pieces(_ values: Values) -> [Piece] {
        var (pieces, isError) = ([Piece](), false)
        for part in parts {
            switch part {
            case .text(let text): if !text.isEmpty { pieces.append((text, isError)) }
            case .variable(let name): pieces.append((Self.value(name, values) ?? "", isError))
            case .header(let name): pieces.append((values.facts.head?.headers[name.lowercased()] ?? "", isError))
            case .stream(let next): isError = next
            }
        }
        return pieces
    }

    /// nil for a name that is not a variable.
    private static func value(_ name: String, _ values: Values) -> String? {
        let head = values.facts.head
        let facts = head?.facts
        func time(_ seconds: Double?) -> String {
            let total = Int64(((seconds ?? 0) * 1_000_000).rounded())
            let fraction = String(total % 1_000_000)
            return "\(total / 1_000_000)." + String(repeating: "0", count: 6 - fraction.count) + fraction
        }
        func speed(_ bytes: Int64) -> String { values.seconds > 0 ? "\(Int64(Double(bytes) / values.seconds))" : "0" }
        switch name {
        case "http_code", "response_code": return head.map { "\($0.status)" } ?? "000"
        case "url": return values.url
        case "url_effective": return head?.url ?? values.url
        case "scheme": return head.map { String($0.url.prefix { $0 != ":" }).uppercased() } ?? ""
        case "method": return head?.method ?? values.method
        case "content_type": return head?.headers["content-type"] ?? ""
        case "http_version": return facts?.httpVersion ?? "0"
        case "num_redirects": return "\(values.facts.redirects)"
        case "num_connects": return "\(values.facts.connections)"
        case "redirect_url":
            guard let head, let location = head.headers["location"] else { return "" }
            return WebURL(head.url)?.resolve(location)?.unmasked ?? ""
        case "remote_ip": return head?.remoteAddress ?? ""
        case "remote_port": return "\(facts?.remotePort ?? 0)"
        case "local_port": return "\(facts?.localPort ?? 0)"
        case "size_download": return "\(values.downloaded)"
        case "size_upload": return "\(values.uploaded)"
        case "size_header":
            return "\(head?.headers.fields.reduce(0) { $0 + $1.name.utf8.count + $1.value.utf8.count + 4 } ?? 0)"
        case "speed_download": return speed(values.downloaded)
        case "speed_upload": return speed(values.uploaded)
        case "time_namelookup": return time(facts?.resolved)
        case "time_connect": return time(facts?.connected)
        case "time_appconnect": return time(facts?.secured)
        case "time_pretransfer": return time(facts?.ready)
        case "time_starttransfer": return time(facts?.responded)
        case "time_redirect": return time(values.facts.redirectSeconds)
        case "time_total": return time(values.seconds)
        case "filename_effective": return values.file
        case "exitcode": return values.isSuccess ? "0" : "1"
        case "errormsg": return values.message
        case "ssl_verify_result": return "0"
        case "header_json":
            return (head?.headers.fields ?? []).reduce(into: JSONObject()) { $0.set($1.name, $1.value) }.text
        default: return nil
        }
    }
}
