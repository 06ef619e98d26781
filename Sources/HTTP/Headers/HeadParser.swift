/// Parses the header lines that libcurl delivers, one per call, up to the blank line after the final response's head.
///
/// Blocks of status 1xx come before it and are discarded. Trailers come after the body, through the same callback. They
/// are not used, but libcurl stores each of them until the transfer ends, so they have limits of their own.
struct HeadParser {
    enum Step {
        case more
        case complete(status: Int, headers: HeaderFields)
        /// The head is malformed, or the head or the trailers are larger than the limits.
        case refused(String)
    }

    /// The limit for the bytes of all header lines, including those of 1xx blocks.
    static let sizeLimit = 128 * 1024
    /// The limit for the fields of one block.
    static let fieldCountLimit = 512
    /// The limit for 1xx blocks. The stall timeout restarts at each of them, so without a limit they could delay a
    /// transfer forever.
    static let interimCountLimit = 100
    /// The limits for the bytes and the number of all trailers.
    static let trailerSizeLimit = 32 * 1024
    static let trailerCountLimit = 128

    private var status = 0
    private var headers = HeaderFields()
    private var size = 0
    private var interimCount = 0
    private var isComplete = false
    private var trailerSize = 0
    private var trailerCount = 0
    /// Whether the latest status line was one of HTTP/2.
    private(set) var isHTTP2 = false

    mutating func consume(_ line: UnsafeRawBufferPointer) -> Step {
        guard !isComplete else { return trailer(line.count) }
        size += line.count
        guard size <= Self.sizeLimit, headers.fields.count < Self.fieldCountLimit else {
            return .refused(
                "the server's response head is larger than \(Self.sizeLimit / 1024) KiB or \(Self.fieldCountLimit) fields"
            )
        }
        var line = line[...]
        while let last = line.last, last == UInt8(ascii: "\n") || last == UInt8(ascii: "\r") { line.removeLast() }
        guard let first = line.first else { return endBlock() }
        if line.starts(with: "HTTP/".utf8), headers.fields.isEmpty, status == 0 {
            status = Self.status(line)
            isHTTP2 = line.starts(with: "HTTP/2 ".utf8)
            return (100...999).contains(status) ? .more : .refused("the server's status line is not valid")
        }
        let text = Self.text(line)
        if first == UInt8(ascii: " ") || first == UInt8(ascii: "\t") {
            headers.extendLast(text[...])
        } else if let colon = text.utf8.firstIndex(of: UInt8(ascii: ":")) {
            headers.append(name: text[..<colon], value: text[text.utf8.index(after: colon)...])
        }
        // A line without a colon is not a field. Other clients ignore it, too.
        return .more
    }

    private mutating func trailer(_ count: Int) -> Step {
        trailerSize += count
        trailerCount += 1
        guard trailerSize <= Self.trailerSizeLimit, trailerCount <= Self.trailerCountLimit else {
            return .refused(
                "the fields after the server's body (trailers) are larger than \(Self.trailerSizeLimit / 1024) KiB "
                    + "or \(Self.trailerCountLimit) fields")
        }
        return .more
    }

    /// A transfer coding that was not requested. libcurl would decode it nevertheless, without a limit for the decoded
    /// size. It would do so even if only an interim response names the coding.
    private var unrequestedCoding: Substring? {
        headers.all("transfer-encoding").lazy.flatMap { $0.split(separator: ",") }.map { $0[...].trimmed[...] }
            .first { !["", "chunked", "identity"].contains($0.lowercased()) }
    }

    private mutating func endBlock() -> Step {
        if let unrequestedCoding {
            return .refused(
                "the server used the transfer coding \(unrequestedCoding.prefix(40).debugDescription), "
                    + "which was not requested")
        }
        switch status {
        case 0: return .refused("the server sent no status line")
        case 101: return .refused("the server switched protocols, which was not requested")
        case 100..<200:
            interimCount += 1
            guard interimCount <= Self.interimCountLimit else {
                return .refused(
                    "the server sent more than \(Self.interimCountLimit) interim responses (1xx), and no final one")
            }
            (status, headers) = (0, HeaderFields())
            return .more
        default:
            isComplete = true
            return .complete(status: status, headers: headers)
        }
    }

    private static func status(_ line: Slice<UnsafeRawBufferPointer>) -> Int {
        let parts = line.split(separator: UInt8(ascii: " "), maxSplits: 2)
        return parts.count > 1 ? Int(text(parts[1])) ?? 0 : 0
    }

    private static func text(_ bytes: Slice<UnsafeRawBufferPointer>) -> String {
        String(validating: bytes, as: UTF8.self)
            ?? String(String.UnicodeScalarView(bytes.map { Unicode.Scalar($0) }))
    }
}
