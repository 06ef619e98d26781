/// Response heads and the decisions on them: only bytes of the requested entity are joined.
enum HeadFuzz: FuzzTarget {
    static let known = Entity(etag: "\"v1\"", lastModified: "Sun, 06 Nov 1994 08:49:37 GMT", total: 100)

    static func run(_ bytes: UnsafeRawBufferPointer) {
        var parser = HeadParser()
        var start = 0
        while start < bytes.count {
            let end = bytes[start...].firstIndex(of: UInt8(ascii: "\n")).map { $0 + 1 } ?? bytes.count
            switch parser.consume(UnsafeRawBufferPointer(rebasing: bytes[start..<end])) {
            case .more: start = end
            case .refused(let why):
                precondition(!why.isEmpty)
                return
            case .complete(let status, let headers):
                precondition((200...999).contains(status) && headers.fields.count <= HeadParser.fieldCountLimit)
                return decide(on: ResponseHead(status: status, headers: headers, url: "http://h/"))
            }
        }
    }

    private static func decide(on head: ResponseHead) {
        let entity = Entity(head, total: 100)
        precondition(entity.isSame(as: entity) == (entity.strongValidator != nil))
        let question = ResponseExpectation(
            kind: .part(position: 40, end: 80, of: known, ifRange: true), isProven: false)
        switch question.decision(on: head) {
        case .takePart(let position, let length):
            let range = head.headers["content-range"].flatMap { ContentRange($0) }
            precondition(head.status == 206 && head.headers["etag"] == known.etag && range?.total == 100)
            precondition(position == 40 && range?.range == 40..<(40 + length) && length <= 40)
            precondition(head.headers["content-encoding"] ?? "" == "")
            precondition(head.headers["last-modified"] ?? known.lastModified == known.lastModified)
        // A 304 to If-Range, which a correct server does not send, joins nothing: the request is repeated.
        case .askWithoutIfRange:
            precondition(head.status == 304 || [200, 203].contains(head.status) && head.headers["etag"] == known.etag)
        case .takeWhole, .unchanged: preconditionFailure("no part")
        case .restart, .restartWhole, .fail: break
        }
        let whole = ResponseExpectation(kind: .whole, isProven: false).decision(on: head)
        if case .takePart = whole { preconditionFailure("a part for the whole") }
        if case .takeWhole(let new, let length) = whole {
            precondition(
                new.total == length && ([200, 203].contains(head.status) || head.status == 206 && length != nil))
        }
    }
}
