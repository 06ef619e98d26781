import Foundation
import HaulContract
import HaulHTTP
import HaulStorage
import HaulTestSupport
import Testing

@testable import HaulObjectStore

/// A server that does not complete an upload at once.
@Suite struct CompletionTests {
    /// As much of an object store as one file of two parts needs. It refuses `refusals` times to complete.
    private final class Server: Sendable {
        private struct State {
            var mark: [(String, String)] = []
            var parts: [(number: String, etag: String, size: Int)] = []
            /// Whether the ETags of parts are not digests, and change when a part is put again.
            var isEncrypted = false
            var isRefusingParts = false
            var owner: [UInt8] = []
            var isWhole = false
            var refusals: Int
        }

        private let state: Shared<State>
        let origin: OriginServer

        init(refusals: Int, size: Int64, isEncrypted: Bool = false, isRefusingParts: Bool = false) throws {
            let state = Shared(
                State(isEncrypted: isEncrypted, isRefusingParts: isRefusingParts, refusals: refusals))
            self.state = state
            origin = try OriginServer { request in
                var reply = OriginReply(404)
                state.change { reply = Self.reply(request, size, &$0) }
                return reply
            }
        }

        var refusals: Int { state.value.refusals }
        var isWhole: Bool { state.value.isWhole }

        private static func reply(_ request: OriginRequest, _ size: Int64, _ state: inout State) -> OriginReply {
            let isOfUpload = request.path.contains("uploadId=")
            switch request.method {
            case "HEAD" where state.isWhole:
                var reply = OriginReply(headers: state.mark)
                reply.body = .file(FileBytes(seed: 1, count: size), 0..<size)
                return reply
            case "GET" where isOfUpload:
                let parts = state.parts.map {
                    "<Part><PartNumber>\($0.number)</PartNumber><ETag>\($0.etag)</ETag><Size>\($0.size)</Size></Part>"
                }
                return text("<ListPartsResult>\(parts.joined())</ListPartsResult>")
            case "GET": return OriginReply(body: state.owner)
            case "PUT":
                if request.path.hasSuffix("/owner") { state.owner = request.body.bytes }
                let md5 = request.headers["content-md5"].flatMap { Data(base64Encoded: $0) } ?? Data()
                let etag = Hexadecimal.text(Array(md5))
                if let number = request.path.firstMatch(of: /partNumber=(\d+)/)?.1 {
                    if state.isRefusingParts {
                        return text("<Error><Code>KMS.DisabledException</Code></Error>", 400)
                    }
                    // An earlier request with the same bytes is executed after this one.
                    let listed = state.isEncrypted ? "later-\(number)" : etag
                    state.parts.append((String(number), listed, request.body.bytes.count))
                    if state.isEncrypted { return OriginReply(headers: [("ETag", "\"first-\(number)\"")]) }
                }
                return OriginReply(headers: [("ETag", "\"\(etag)\"")])
            case "POST" where isOfUpload:
                guard state.refusals == 0 else {
                    state.refusals -= 1
                    // The response of radosgw after its gateway was killed.
                    return text("<Error><Code>InternalError</Code><Message>in progress</Message></Error>", 500)
                }
                guard state.parts.allSatisfy({ String(decoding: request.body.bytes, as: UTF8.self).contains($0.etag) })
                else { return text("<Error><Code>InvalidPart</Code></Error>", 400) }
                state.isWhole = true
                return text("<CompleteMultipartUploadResult/>")
            case "POST":
                state.mark = ["haul-job", "haul-generation", "haul-time"].map {
                    ("x-amz-meta-" + $0, request.headers["x-amz-meta-" + $0] ?? "")
                }
                return text("<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>")
            default: return OriginReply(404)
            }
        }

        private static func text(_ text: String, _ status: Int = 200) -> OriginReply {
            OriginReply(status, body: Array(text.utf8))
        }
    }

    private func commit(_ server: Server, _ file: FileBytes) async throws -> (any Partial, CommitOutcome?) {
        let address = try BucketAddress("s3://films", endpoint: "http://127.0.0.1:\(server.origin.port)")
        let environment = ["AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"]
        let store = ObjectStore(address, environment: { environment[$0] }, isThere: { _ in false })
        let request = FileRequest(
            key: String(repeating: "b", count: 40), run: "1", isNew: true, path: "film", ifExists: .reuse,
            completed: nil, lease: RunLease(isHeld: { true }, confirm: { true }))
        let partial = store.begin(request, generation: "1", suggested: "x")
        try await partial.open(total: file.count, hashing: nil, with: [])
        let sink = partial.sink(at: 0) { true }
        try await feed(file.all, to: sink)
        let outcome = try? await partial.commit(
            WholeFile(size: file.count, checksum: nil, authority: "the job", lastModified: nil))
        return (partial, outcome)
    }

    @Test("an upload whose completion takes long loses no byte") func patience() async throws {
        let file = FileBytes(seed: 1, count: 9 << 20)
        let server = try Server(refusals: 5, size: file.count)
        guard case (_, .stored(let stored)?) = try await commit(server, file) else {
            Issue.record("not stored")
            return
        }
        #expect(stored.bytes == file.count && server.isWhole && server.refusals == 0)
    }

    @Test("a part whose ETag has changed by a repeated request is not fetched again") func encrypted() async throws {
        let file = FileBytes(seed: 1, count: 9 << 20)
        let server = try Server(refusals: 0, size: file.count, isEncrypted: true)
        guard case (_, .stored(let stored)?) = try await commit(server, file) else {
            Issue.record("not stored")
            return
        }
        #expect(stored.bytes == file.count)
    }

    @Test("bytes that the store refuses cannot be continued") func refused() async throws {
        let file = FileBytes(seed: 1, count: 9 << 20)
        let (partial, outcome) = try await commit(
            Server(refusals: 0, size: file.count, isRefusingParts: true), file)
        #expect(outcome == nil && partial.written.count == file.count && partial.continuable.isEmpty)
    }

    /// What the store check finds at a scripted server.
    private func findings(at origin: OriginServer) async throws -> [StoreCheck.Finding] {
        let address = try BucketAddress("s3://films", endpoint: "http://127.0.0.1:\(origin.port)")
        let environment = ["AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"]
        let store = ObjectStore(address, environment: { environment[$0] }, isThere: { _ in false })
        return await StoreCheck(store).run()
    }

    @Test("the store check says that no job can be completed if a condition is refused")
    func refusedCondition() async throws {
        let origin = try OriginServer { request in
            if request.headers["if-none-match"] != nil {
                return OriginReply(400, body: Array("<Error><Code>Odd</Code></Error>".utf8))
            }
            return request.path.contains("list-type")
                ? OriginReply(body: Array("<ListBucketResult/>".utf8)) : OriginReply(headers: [("ETag", "\"x\"")])
        }
        let findings = try await findings(at: origin)
        #expect(findings.contains { $0.what == "PUT If-None-Match" && $0.verdict == .bad })
        // The other tests were run.
        #expect(findings.contains { $0.what == "Content-MD5" })
    }

    @Test("the store check names a denied operation, and does not count it as a condition that the server obeys")
    func deniedNaming() async throws {
        let origin = try OriginServer { request in
            if request.path.contains("X-Amz-Signature") {
                return OriginReply(403, body: Array("<Error><Code>AccessDenied</Code></Error>".utf8))
            }
            return request.path.contains("list-type")
                ? OriginReply(body: Array("<ListBucketResult/>".utf8)) : OriginReply(headers: [("ETag", "\"x\"")])
        }
        let findings = try await findings(at: origin)
        let operations = [
            "PUT If-None-Match": "PutObject", "PUT If-Match": "PutObject", "DELETE If-Match": "DeleteObject",
        ]
        for (what, operation) in operations {
            let finding = findings.first { $0.what == what }
            #expect(finding?.verdict == .bad, "\(what)")
            #expect(finding?.found.contains("\(operation) with its signature in the query is denied") ?? false)
        }
    }
}
