import HaulContract
import HaulHTTP
import HaulTerminal

/// A form with fields and files (multipart/form-data, RFC 7578), from curl's `-F NAME=VALUE` and `-F NAME=@FILE`.
struct FormBody {
    private(set) var bytes: [UInt8] = []
    let type: String

    /// - Parameter read: The bytes of `@FILE`.
    init(_ parts: [String], _ read: (String) throws -> [UInt8]) throws {
        // Random, so that no file can contain it on purpose.
        let boundary = "haul-" + String(UInt128.random(in: 0...(.max)), radix: 36)
        type = "multipart/form-data; boundary=\(boundary)"
        for part in parts {
            let (name, value) = try NamedValue.parts(of: part)
            var head = "--\(boundary)\r\n" + FormData.disposition(name)
            var content = Array(value.utf8)
            if value.hasPrefix("@") || value.hasPrefix("<") {
                let pieces = value.split(separator: ";").map(String.init)
                let path = String(pieces[0].dropFirst())
                content = try read("@" + path)
                let terms = Dictionary(
                    try pieces.dropFirst().map(NamedValue.parts).map { ($0.0.trimmingPrefix(" ").description, $0.1) },
                    uniquingKeysWith: { $1 })
                // As in curl, "<" sends the content of a file as an ordinary field.
                if value.hasPrefix("@") {
                    let last = path.split(separator: "/").last.map(String.init) ?? path
                    head = "--\(boundary)\r\n" + FormData.disposition(name, filename: terms["filename"] ?? last)
                    head += "\r\nContent-Type: \(terms["type"] ?? "application/octet-stream")"
                }
            }
            bytes += Array((head + "\r\n\r\n").utf8) + content + Array("\r\n".utf8)
        }
        bytes += Array("--\(boundary)--\r\n".utf8)
    }
}
