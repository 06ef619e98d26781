import Foundation
import Synchronization

/// The server of one case. It serves the old version slowly and correctly, and then the new version as the case says.
package final class MatrixOrigin: Sendable {
    private let state: Shared<(isNew: Bool, parts: Int)>
    private let gate: Latch
    package let server: OriginServer

    /// - Parameters:
    ///   - pace: Bytes per second of each response with the old version.
    ///   - held: How many bytes of the old version a response may send before `replace`.
    package init(_ matrixCase: MatrixCase, pace: Int = 400_000, held: Int64 = .max) throws {
        let state = Shared((isNew: false, parts: 0))
        let gate = Latch()
        (self.state, self.gate) = (state, gate)
        server = try OriginServer { request in
            guard state.value.isNew else {
                var reply = Self.honest(matrixCase, MatrixCase.old, isOther: false, request)
                reply.pace = pace
                reply.hold = (held, gate)
                return reply
            }
            return Self.answer(matrixCase, request) {
                state.change {
                    $0.parts += 1; return $0.parts
                }
            }
        }
    }

    package var url: String { server.url("/f") }

    /// From now on the server has the new version.
    package func replace() {
        state.change { $0.isNew = true }
        gate.open()
    }

    private static func answer(
        _ matrixCase: MatrixCase, _ request: OriginRequest, countPart: () -> Int
    ) -> OriginReply {
        let new = matrixCase.new
        let isOther = matrixCase.change != .unchanged
        guard let range = request.range(of: new.count) else {
            return honest(matrixCase, new, isOther: isOther, request)
        }
        switch matrixCase.answer {
        case .right: return honest(matrixCase, new, isOther: isOther, request)
        case .ignoredAfterFirst where countPart() == 1: return honest(matrixCase, new, isOther: isOther, request)
        case .notSatisfiable: return unsatisfiable(new)
        case .whole, .ignoredAfterFirst: return whole(matrixCase, new, isOther: isOther)
        case .partOfNew: return part(matrixCase, new, isOther: isOther, range)
        case .shifted:
            let start = max(0, range.lowerBound - 1)
            return part(matrixCase, new, isOther: isOther, start..<max(start, range.upperBound - 1))
        }
    }

    /// Responds as RFC 9110 says.
    private static func honest(
        _ matrixCase: MatrixCase, _ entity: MatrixEntity, isOther: Bool, _ request: OriginRequest
    ) -> OriginReply {
        let whole = whole(matrixCase, entity, isOther: isOther)
        guard let range = request.range(of: entity.count) else { return whole }
        if let condition = request.headers["if-range"],
            !whole.headers.contains(where: { ["ETag", "Last-Modified"].contains($0.0) && $0.1 == condition })
        {
            return whole
        }
        return part(matrixCase, entity, isOther: isOther, range)
    }

    private static func whole(_ matrixCase: MatrixCase, _ entity: MatrixEntity, isOther: Bool) -> OriginReply {
        var headers = validators(matrixCase.validator, isOther: isOther)
        if matrixCase.validator == .serverDigest {
            headers.append(("Repr-Digest", "sha-256=:\(Data(entity.sha256).base64EncodedString()):"))
        }
        return OriginReply(headers: headers, body: entity.bytes)
    }

    private static func part(
        _ matrixCase: MatrixCase, _ entity: MatrixEntity, isOther: Bool, _ range: Range<Int64>
    ) -> OriginReply {
        guard !range.isEmpty else { return unsatisfiable(entity) }
        let text = "bytes \(range.lowerBound)-\(range.upperBound - 1)/\(entity.count)"
        return OriginReply(
            206, headers: validators(matrixCase.validator, isOther: isOther) + [("Content-Range", text)],
            body: Array(entity.bytes[Int(range.lowerBound)..<Int(range.upperBound)]))
    }

    private static func unsatisfiable(_ entity: MatrixEntity) -> OriginReply {
        OriginReply(416, headers: [("Content-Range", "bytes */\(entity.count)")])
    }

    private static func validators(_ validator: MatrixCase.Validator, isOther: Bool) -> [(String, String)] {
        let date = ("Date", "Sat, 21 Nov 2026 12:00:00 GMT")
        let modified = ("Last-Modified", "Fri, 20 Nov 2026 12:00:0\(isOther ? 1 : 0) GMT")
        return switch validator {
        case .strong: [date, ("ETag", isOther ? "\"v2\"" : "\"v1\"")]
        case .weak: [date, ("ETag", "W/\"v1\"")]
        case .oldDate: [date, modified]
        case .repeatedETag: [date, modified, ("ETag", "\"v1\"")]
        case .freshDate: [date, ("Last-Modified", "Sat, 21 Nov 2026 12:00:00 GMT")]
        case .none, .serverDigest, .jobChecksum: [date]
        }
    }
}
