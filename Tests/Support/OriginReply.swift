/// A reply of the origin, defined to the byte. The defaults are the correct behaviour.
package struct OriginReply: Sendable {
    package enum End: Sendable {
        case whole
        /// The connection ends with a FIN, as if it were lost: TLS sends no close_notify.
        case fin
        case reset, silence
    }
    package enum Framing: Sendable { case length, chunked, close, none }

    package enum Body: Sendable {
        case bytes([UInt8])
        /// Generated while it is sent: any size, without memory.
        case file(FileBytes, Range<Int64>)

        package var count: Int64 {
            switch self {
            case .bytes(let bytes): Int64(bytes.count)
            case .file(_, let range): range.upperBound - range.lowerBound
            }
        }

        func piece(_ range: Range<Int64>) -> [UInt8] {
            switch self {
            case .bytes(let bytes): Array(bytes[Int(range.lowerBound)..<Int(range.upperBound)])
            case .file(let file, let whole):
                file.bytes((whole.lowerBound + range.lowerBound)..<(whole.lowerBound + range.upperBound))
            }
        }
    }

    package var status = 200
    package var headers: [(String, String)] = []
    package var body: Body
    package var framing = Framing.length
    /// Overrides Content-Length, to lie about it.
    package var declaredLength: Int64?
    /// The first chunk announces so many bytes more than it has, so that a client takes what follows as its bytes.
    package var chunkExcess = 0
    /// Only so many bytes of the body are sent. Then `end` happens.
    package var cut: Int?
    package var end = End.whole
    /// In bytes per second.
    package var pace: Int?
    /// `after` bytes of the body are sent, and the remainder once the latch is opened.
    package var hold: (after: Int64, until: Latch)?
    /// The preamble is sent before the head, the trailers after a chunked body.
    package var preamble = ""
    package var trailers = ""
    package var delay: Duration?
    /// Unsolicited bytes, sent after a complete reply once the latch is opened.
    package var stray: (after: Latch, bytes: String)?

    package init(_ status: Int = 200, headers: [(String, String)] = [], body: [UInt8] = []) {
        (self.status, self.headers, self.body) = (status, headers, .bytes(body))
    }

    /// `bytes` as a correct server sends them. Ranges, If-Range and If-None-Match are honoured.
    package static func file(
        _ bytes: FileBytes, etag: String? = "\"v1\"", headers: [(String, String)] = [], to request: OriginRequest
    ) -> OriginReply {
        var reply = OriginReply(headers: headers)
        if let etag { reply.headers.append(("ETag", etag)) }
        reply.headers.append(("Accept-Ranges", "bytes"))
        if let condition = request.headers["if-none-match"], condition == etag {
            reply.status = 304
            reply.framing = .none
            return reply
        }
        let isCurrent = request.headers["if-range"].map { $0 == etag } ?? true
        guard isCurrent, let ranges = request.ranges(of: bytes.count) else {
            reply.body = .file(bytes, 0..<bytes.count)
            return reply
        }
        let satisfiable = ranges.filter { !$0.isEmpty }
        if satisfiable.count > 1 { return multipart(bytes, satisfiable, headers: reply.headers) }
        guard let range = satisfiable.first else {
            reply.status = 416
            reply.headers.append(("Content-Range", "bytes */\(bytes.count)"))
            return reply
        }
        reply.status = 206
        reply.headers.append(("Content-Range", contentRange(range, of: bytes.count)))
        reply.body = .file(bytes, range)
        return reply
    }

    /// Several parts in one body (RFC 9110 section 14.6). A client that requested one range does not expect them.
    package static func multipart(
        _ bytes: FileBytes, _ ranges: [Range<Int64>], headers: [(String, String)] = []
    ) -> OriginReply {
        let boundary = "HAUL-PART"
        let parts = ranges.map { range in
            Array("\r\n--\(boundary)\r\nContent-Range: \(contentRange(range, of: bytes.count))\r\n\r\n".utf8)
                + bytes.bytes(range)
        }
        return OriginReply(
            206, headers: headers + [("Content-Type", "multipart/byteranges; boundary=\(boundary)")],
            body: parts.flatMap(\.self) + Array("\r\n--\(boundary)--\r\n".utf8))
    }

    package static func contentRange(_ range: Range<Int64>, of total: Int64?) -> String {
        "bytes \(range.lowerBound)-\(range.upperBound - 1)/\(total.map(String.init) ?? "*")"
    }
}
