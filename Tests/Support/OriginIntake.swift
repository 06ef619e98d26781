/// How the origin reads the body of a request. The defaults are the correct behaviour.
package struct OriginIntake: Sendable {
    /// The origin does not read the body. It sends this reply and ends the connection.
    package var refusal: OriginReply?
    /// Whether the origin responds to `Expect: 100-continue` with 100 Continue.
    package var welcomes = true
    /// The origin reads `after` bytes, and the remainder once the latch is opened.
    package var hold: (after: Int64, until: Latch)?
    /// The origin ends the connection after so many bytes, with a RST if `isReset`.
    package var cut: Int64?
    package var isReset = false
    /// Interim responses, sent before any byte of the body is read.
    package var preamble = ""

    /// Called with each piece as it arrives. An empty piece is the end of the connection.
    package var onBytes: (@Sendable ([UInt8]) -> Void)?

    package init() {}
}

/// The body of a request, as far as the origin has read it.
package struct OriginBody: Sendable {
    /// The first 64 MiB.
    package fileprivate(set) var bytes: [UInt8] = []
    package fileprivate(set) var count: Int64 = 0
    /// Whether all announced bytes have arrived.
    package fileprivate(set) var isWhole = false

    package var text: String { String(decoding: bytes, as: UTF8.self) }

    mutating func append(_ more: [UInt8]) {
        count += Int64(more.count)
        bytes += more.prefix(max(0, 64 << 20 - bytes.count))
    }

    /// Reads a body from the connection. Calls `arrived` with the size of each piece.
    static func read(
        _ client: OriginConnection, _ headers: [String: String], _ intake: OriginIntake, arrived: (Int) -> Void
    ) -> OriginBody {
        var body = OriginBody()
        func piece(upTo count: Int64) -> Bool {
            var limit = min(count, 64 << 10)
            if let hold = intake.hold {
                if body.count == hold.after { hold.until.wait() }
                if body.count < hold.after { limit = min(limit, hold.after - body.count) }
            }
            if let cut = intake.cut {
                guard body.count < cut else { return false }
                limit = min(limit, cut - body.count)
            }
            let bytes = client.receive(upTo: Int(limit))
            body.append(bytes)
            arrived(bytes.count)
            intake.onBytes?(bytes)
            return !bytes.isEmpty
        }
        func line() -> String? {
            var (text, byte): ([UInt8], UInt8) = ([], 0)
            while text.suffix(2) != [13, 10] {
                guard text.count < 100, client.receive(&byte) else { return nil }
                text.append(byte)
            }
            return String(decoding: text.dropLast(2), as: UTF8.self)
        }
        if headers["transfer-encoding"] == "chunked" {
            while let size = line().flatMap({ Int64($0, radix: 16) }) {
                let end = body.count + size
                while body.count < end { guard piece(upTo: end - body.count) else { return body } }
                guard line() == "" else { return body }
                if size == 0 {
                    body.isWhole = true
                    return body
                }
            }
            return body
        }
        let length = headers["content-length"].flatMap { Int64($0) } ?? 0
        while body.count < length { guard piece(upTo: length - body.count) else { return body } }
        body.isWhole = true
        return body
    }
}
