/// Parses requests from a connection's bytes, within `ServerLimits`. It uses no socket: `add` takes bytes, `next`
/// returns requests.
///
/// It is stricter than RFC 9112 requires. It refuses what two parsers could read differently: a bare LF, a folded line,
/// two lengths, a space before a colon. So a proxy in front of the server sees the same requests: no request smuggling.
struct RequestReader {
    /// Why a request is refused. The connection must be closed after that.
    struct Refusal: Error, Equatable {
        let status: Int
        let reason: String
        init(_ status: Int, _ reason: String) { (self.status, self.reason) = (status, reason) }
    }

    enum Step: Equatable {
        /// There is no complete head yet.
        case more
        /// A complete head, and the length of the body that follows it.
        case head(ServerRequest, body: Int)
        case refused(Refusal)
    }

    private let limits: ServerLimits
    /// The received bytes. The first `start` of them belong to what was returned already.
    private var buffer: [UInt8] = []
    private var start = 0
    /// The position in `buffer` before which the head does not end. So bytes that arrive singly are not searched twice.
    private var searched = 0
    /// The empty lines before the next request.
    private var emptyLines = 0

    /// RFC 9112 section 2.2 says that a server should skip at least one. A client that sends more does not send a request.
    private static let maxEmptyLines = 2

    init(limits: ServerLimits) { self.limits = limits }

    /// The number of bytes that were received and not returned yet.
    var count: Int { buffer.count - start }
    /// How many further bytes a head can need. So a client cannot make the reader hold more than one head.
    var headroom: Int { max(0, limits.head + 4 - count) }

    mutating func add(_ bytes: some Collection<UInt8>) {
        if start > 0 {
            buffer.removeFirst(start)
            searched = max(0, searched - start)
            start = 0
        }
        buffer += bytes
    }

    /// Reads the next head. After a head with a body, `body` must return that body before the next call.
    mutating func next() -> Step {
        do throws(Refusal) {
            guard let end = try endOfHead() else { return .more }
            let request = try head(Array(buffer[start..<end]))
            let length = try bodyLength(of: request)
            drop(end + 4 - start)
            emptyLines = 0
            return .head(request, body: length)
        } catch {
            return .refused(error)
        }
    }

    /// The next `length` bytes; nil if they have not all arrived.
    mutating func body(_ length: Int) -> [UInt8]? {
        guard count >= length else { return nil }
        let body = Array(buffer[start..<start + length])
        drop(length)
        return body
    }

    /// All bytes that were received and not returned yet: they belong to another protocol.
    mutating func rest() -> [UInt8] {
        let rest = Array(buffer[start...])
        drop(rest.count)
        return rest
    }

    /// Drops bytes that were returned. Gives the memory back when none is left, except for that of a small request.
    private mutating func drop(_ length: Int) {
        start += length
        searched = start
        guard start == buffer.count else { return }
        buffer.removeAll(keepingCapacity: buffer.capacity <= 4096)
        (start, searched) = (0, 0)
    }

    /// The position at which the head's last line ends. nil if the head is not complete.
    private mutating func endOfHead() throws(Refusal) -> Int? {
        while searched == start, count >= 2, buffer[start] == 13, buffer[start + 1] == 10 {
            emptyLines += 1
            guard emptyLines <= Self.maxEmptyLines else { throw Refusal(400, "empty lines precede the request") }
            drop(2)
        }
        var index = searched
        while index + 3 < buffer.count {
            if buffer[index] == 13, buffer[index + 1] == 10, buffer[index + 2] == 13, buffer[index + 3] == 10 {
                guard index - start <= limits.head else { break }
                return index
            }
            index += 1
        }
        searched = index
        guard count <= limits.head else {
            let isLine = !buffer[start...].prefix(limits.head).contains(13)
            throw isLine
                ? Refusal(414, "the request line is longer than \(limits.head) bytes")
                : Refusal(431, "the header fields are longer than \(limits.head) bytes")
        }
        return nil
    }

    private func head(_ bytes: [UInt8]) throws(Refusal) -> ServerRequest {
        var lines: [ArraySlice<UInt8>] = []
        var start = 0
        for index in bytes.indices where bytes[index] == 10 || bytes[index] == 0 {
            guard bytes[index] == 10, index > start, bytes[index - 1] == 13 else {
                throw Refusal(400, "a line of the head does not end in CR LF")
            }
            lines.append(bytes[start..<index - 1])
            start = index + 1
        }
        lines.append(bytes[start...])
        guard lines.allSatisfy({ !$0.contains(13) }) else { throw Refusal(400, "the head has a CR without LF") }
        guard lines.count <= limits.fields + 1 else { throw Refusal(431, "there are too many header fields") }
        let (method, target, isHTTP10) = try requestLine(lines[0])
        var fields: [(name: String, value: String)] = []
        for line in lines.dropFirst() { fields.append(try field(line)) }
        let hosts = fields.count { $0.name == "host" }
        guard hosts == 1 || isHTTP10 && hosts == 0 else {
            throw Refusal(400, "a request must have exactly one Host field")
        }
        let (authority, path) = try parts(of: target)
        if let authority {
            // The target's authority replaces the Host field (RFC 9112 section 3.2.2).
            fields.removeAll { $0.name == "host" }
            fields.append(("host", authority))
        }
        let sides = path.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        return ServerRequest(
            method: method, path: String(sides[0]), query: sides.count > 1 ? String(sides[1]) : "", fields: fields,
            isHTTP10: isHTTP10)
    }

    private func requestLine(
        _ line: ArraySlice<UInt8>
    ) throws(Refusal) -> (method: String, target: String, isHTTP10: Bool) {
        let words = line.split(separator: 32, omittingEmptySubsequences: false)
        guard words.count == 3, words[0].allSatisfy(Self.isToken), !words[0].isEmpty,
            words[1].allSatisfy({ $0 > 32 && $0 < 127 })
        else { throw Refusal(400, "the request line is not HTTP") }
        let version = String(decoding: words[2], as: UTF8.self)
        guard version == "HTTP/1.1" || version == "HTTP/1.0" else {
            throw Refusal(505, "this server supports only HTTP/1.1 and HTTP/1.0")
        }
        return (
            String(decoding: words[0], as: UTF8.self), String(decoding: words[1], as: UTF8.self), version == "HTTP/1.0"
        )
    }

    /// The parts of a target in origin form (`/path?query`) or in absolute form (`http://authority/path?query`). Some
    /// proxies send the absolute form, and a server must accept it (RFC 9112 section 3.2.2).
    private func parts(of target: String) throws(Refusal) -> (authority: String?, path: String) {
        if target.hasPrefix("/") { return (nil, target) }
        let scheme = target.lowercased().hasPrefix("http://") ? 7 : target.lowercased().hasPrefix("https://") ? 8 : 0
        let rest = target.dropFirst(scheme)
        let authority = rest.prefix { $0 != "/" && $0 != "?" && $0 != "#" }
        guard scheme > 0, !authority.isEmpty, !authority.contains("@") else {
            throw Refusal(400, "the target is neither a path nor an http URL")
        }
        let path = rest.dropFirst(authority.count)
        return (String(authority), path.hasPrefix("/") ? String(path) : "/" + path)
    }

    private func field(_ line: ArraySlice<UInt8>) throws(Refusal) -> (name: String, value: String) {
        guard let colon = line.firstIndex(of: UInt8(ascii: ":")), colon > line.startIndex,
            line[..<colon].allSatisfy(Self.isToken)
        else { throw Refusal(400, "a header field has no name") }
        let value = line[line.index(after: colon)...].drop(while: Self.isSpace)
        let end = value.lastIndex { !Self.isSpace($0) }.map { value.index(after: $0) } ?? value.startIndex
        guard value.allSatisfy({ $0 >= 32 && $0 != 127 || $0 == 9 }) else {
            throw Refusal(400, "a header field has a control character")
        }
        return (
            String(decoding: line[..<colon], as: UTF8.self).lowercased(),
            String(decoding: value[..<end], as: UTF8.self)
        )
    }

    private func bodyLength(of request: ServerRequest) throws(Refusal) -> Int {
        guard request["transfer-encoding"] == nil else {
            throw Refusal(411, "a body needs a Content-Length: Transfer-Encoding is not supported")
        }
        let values = request.fields.filter { $0.name == "content-length" }.map(\.value)
        guard let value = values.first else { return 0 }
        guard values.count == 1, (1...18).contains(value.utf8.count), value.utf8.allSatisfy({ 48...57 ~= $0 }),
            let length = Int(value)
        else { throw Refusal(400, "Content-Length is not a number") }
        guard length <= limits.body else { throw Refusal(413, "the body is longer than \(limits.body) bytes") }
        return length
    }

    private static func isSpace(_ byte: UInt8) -> Bool { byte == 32 || byte == 9 }

    private static func isToken(_ byte: UInt8) -> Bool {
        switch byte {
        case 48...57, 65...90, 97...122: true
        default: "!#$%&'*+-.^_`|~".utf8.contains(byte)
        }
    }
}
