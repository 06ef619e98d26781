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
        /// There is no complete request yet.
        case more
        /// The head is complete, and the client waits for `100 Continue` before it sends the body.
        case mayContinue
        case request(ServerRequest)
        case refused(Refusal)
    }

    private let limits: ServerLimits
    private var buffer: [UInt8] = []
    /// The position in `buffer` before which the head does not end. So bytes that arrive singly are not searched twice.
    private var searched = 0
    private var pending: (request: ServerRequest, length: Int)?

    init(limits: ServerLimits) { self.limits = limits }

    /// Whether no byte of a request has arrived.
    var isIdle: Bool { buffer.isEmpty && pending == nil }
    /// Whether a head has arrived whose body is not complete.
    var awaitsBody: Bool { pending != nil }
    var count: Int { buffer.count }

    mutating func add(_ bytes: some Collection<UInt8>) { buffer += bytes }

    mutating func next() -> Step {
        do throws(Refusal) {
            var mayContinue = false
            if pending == nil {
                guard let end = try endOfHead() else { return .more }
                let request = try head(Array(buffer[..<end]))
                buffer.removeFirst(end + 4)
                searched = 0
                let length = try bodyLength(of: request)
                pending = (request, length)
                mayContinue = request["expect"]?.lowercased() == "100-continue" && length > buffer.count
            }
            guard let (head, length) = pending else { return .more }
            var request = head
            guard buffer.count >= length else { return mayContinue ? .mayContinue : .more }
            request.body = Array(buffer.prefix(length))
            buffer.removeFirst(length)
            pending = nil
            return .request(request)
        } catch {
            return .refused(error)
        }
    }

    /// The position at which the head's last line ends. nil if the head is not complete.
    private mutating func endOfHead() throws(Refusal) -> Int? {
        // Skip empty lines before a request (RFC 9112 section 2.2).
        while searched == 0, buffer.starts(with: [13, 10]) { buffer.removeFirst(2) }
        var index = searched
        while index + 3 < buffer.count {
            if buffer[index] == 13, buffer[index + 1] == 10, buffer[index + 2] == 13, buffer[index + 3] == 10 {
                guard index <= limits.head else { break }
                return index
            }
            index += 1
        }
        searched = index
        guard buffer.count <= limits.head else {
            let isLine = !buffer.prefix(limits.head).contains(13)
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
        guard lines.allSatisfy({ !$0.contains(13) }) else { throw Refusal(400, "a CR stands alone in the head") }
        guard lines.count <= limits.fields + 1 else { throw Refusal(431, "there are too many header fields") }
        let (method, target, isHTTP10) = try requestLine(lines[0])
        var fields: [(name: String, value: String)] = []
        for line in lines.dropFirst() { fields.append(try field(line)) }
        let hosts = fields.count { $0.name == "host" }
        guard hosts == 1 || isHTTP10 && hosts == 0 else { throw Refusal(400, "a request names one Host") }
        let parts = target.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        return ServerRequest(
            method: method, path: String(parts[0]), query: parts.count > 1 ? String(parts[1]) : "", fields: fields,
            isHTTP10: isHTTP10)
    }

    private func requestLine(
        _ line: ArraySlice<UInt8>
    ) throws(Refusal) -> (method: String, target: String, isHTTP10: Bool) {
        let words = line.split(separator: 32, omittingEmptySubsequences: false)
        guard words.count == 3, words[0].allSatisfy(Self.isToken), !words[0].isEmpty,
            words[1].allSatisfy({ $0 > 32 && $0 < 127 })
        else { throw Refusal(400, "the request line is no HTTP") }
        let version = String(decoding: words[2], as: UTF8.self)
        guard version == "HTTP/1.1" || version == "HTTP/1.0" else { throw Refusal(505, "only HTTP/1.1 is spoken here") }
        guard words[1].first == UInt8(ascii: "/") else {
            throw Refusal(400, "the target is no path: this is no proxy")
        }
        return (
            String(decoding: words[0], as: UTF8.self), String(decoding: words[1], as: UTF8.self), version == "HTTP/1.0"
        )
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
            throw Refusal(411, "a body needs a Content-Length: Transfer-Encoding is not taken")
        }
        let values = request.fields.filter { $0.name == "content-length" }.map(\.value)
        guard let value = values.first else { return 0 }
        guard values.count == 1, (1...18).contains(value.utf8.count), value.utf8.allSatisfy({ 48...57 ~= $0 }),
            let length = Int(value)
        else { throw Refusal(400, "Content-Length is no number") }
        guard length <= limits.body else { throw Refusal(413, "a body has at most \(limits.body) bytes") }
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
