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
            let (text, terms) = Self.terms(of: value)
            var (filename, type) = (terms["filename"], terms["type"])
            if type?.utf8.contains(where: { $0 < 32 || $0 == 127 }) == true {
                throw ExitStatus.printing(.usage, "-F \(part): the type must not have control characters")
            }
            var content = Array(text.utf8)
            if text.hasPrefix("@") || text.hasPrefix("<") {
                let path = String(text.dropFirst())
                content = try read("@" + path)
                // As in curl, "<" sends the content of a file as an ordinary field.
                if text.hasPrefix("@") {
                    filename = filename ?? path.split(separator: "/").last.map(String.init) ?? path
                    type = type ?? "application/octet-stream"
                }
            }
            let disposition = filename.map { FormData.disposition(name, filename: $0) } ?? FormData.disposition(name)
            let head = "--\(boundary)\r\n" + disposition + (type.map { "\r\nContent-Type: \($0)" } ?? "")
            bytes += Array((head + "\r\n\r\n").utf8) + content + Array("\r\n".utf8)
        }
        bytes += Array("--\(boundary)--\r\n".utf8)
    }

    /// The value of a part, and the `type` and `filename` at its end. A type may have parameters of its own, and any other
    /// ";" is one of the value.
    private static func terms(of value: String) -> (text: String, terms: [String: String]) {
        var pieces = value.split(separator: ";", omittingEmptySubsequences: false).map(String.init)[...]
        var (text, terms, last) = (pieces.removeFirst(), [String: String](), String?.none)
        for piece in pieces {
            let name = ["type", "filename"].first { piece.drop { $0 == " " }.hasPrefix($0 + "=") }
            if let name {
                terms[name] = String(piece[piece.index(after: piece.firstIndex(of: "=")!)...])
                last = name
            } else if let last {
                terms[last]! += ";" + piece
            } else {
                text += ";" + piece
            }
        }
        return (text, terms)
    }
}
