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
            /// The claim of the name.
            var claim: [(String, String)]?
            /// What happens to the next requests that create the claim.
            var claimFaults: [ClaimFault] = []
            var completions = 0
        }

        enum ClaimFault { case denied, unavailable, doneButUnanswered }

        private let state: Shared<State>
        let origin: OriginServer

        /// - Parameter ahead: Seconds by which the server's clock is ahead.
        init(
            refusals: Int, size: Int64, isEncrypted: Bool = false, isRefusingParts: Bool = false,
            claimFaults: [ClaimFault] = [], ahead: Int64 = 0
        ) throws {
            var first = State(isEncrypted: isEncrypted, isRefusingParts: isRefusingParts, refusals: refusals)
            first.claimFaults = claimFaults
            let state = Shared(first)
            self.state = state
            origin = try OriginServer { request in
                var reply = OriginReply(404)
                let now = UnixTime.seconds + ahead
                if let signed = request.path.firstMatch(of: /X-Amz-Date=(\w+)/)?.1, signed < AmazonTime.stamp(now - 11)
                {
                    reply = Self.text("<Error><Code>AccessDenied</Code><Message>expired</Message></Error>", 403)
                } else {
                    state.change { reply = Self.reply(request, size, &$0) }
                }
                reply.headers.append(("Date", HTTPDate.text(now)))
                return reply
            }
        }

        var hasClaim: Bool { state.value.claim != nil }
        var completions: Int { state.value.completions }

        private static func replyAboutClaim(_ request: OriginRequest, _ state: inout State) -> OriginReply {
            switch request.method {
            case "PUT":
                let fault = state.claimFaults.isEmpty ? nil : state.claimFaults.removeFirst()
                if fault == .denied { return text("<Error><Code>AccessDenied</Code></Error>", 403) }
                if fault == .unavailable { return text("<Error><Code>InternalError</Code></Error>", 500) }
                let etag = state.claim?.last?.1
                guard request.headers["if-none-match"] == nil ? request.headers["if-match"] == etag : etag == nil else {
                    return text("<Error><Code>PreconditionFailed</Code></Error>", 412)
                }
                let md5 = Data(base64Encoded: request.headers["content-md5"] ?? "") ?? Data()
                state.claim = marks(of: request) + [("ETag", "\"\(Hexadecimal.text(Array(md5)))\"")]
                if fault == .doneButUnanswered { return text("<Error><Code>InternalError</Code></Error>", 500) }
                return OriginReply(headers: Array(state.claim!.suffix(1)))
            case "DELETE" where state.claim != nil:
                state.claim = nil
                return OriginReply(204)
            default: return state.claim.map { OriginReply(headers: $0) } ?? OriginReply(404)
            }
        }

        private static func marks(of request: OriginRequest) -> [(String, String)] {
            ["haul-job", "haul-generation", "haul-time"].map {
                ("x-amz-meta-" + $0, request.headers["x-amz-meta-" + $0] ?? "")
            }
        }

        var refusals: Int { state.value.refusals }
        var isWhole: Bool { state.value.isWhole }

        private static func reply(_ request: OriginRequest, _ size: Int64, _ state: inout State) -> OriginReply {
            if request.path.contains("/.haul/n.") { return replyAboutClaim(request, &state) }
            let namesUpload = request.path.contains("uploadId=")
            switch request.method {
            case "HEAD" where state.isWhole:
                var reply = OriginReply(headers: state.mark)
                reply.body = .file(FileBytes(seed: 1, count: size), 0..<size)
                return reply
            case "GET" where namesUpload:
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
            case "POST" where namesUpload:
                state.completions += 1
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
                state.mark = marks(of: request)
                return text("<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>")
            default: return OriginReply(404)
            }
        }

        private static func text(_ text: String, _ status: Int = 200) -> OriginReply {
            OriginReply(status, body: Array(text.utf8))
        }
    }

    private func commit(_ server: Server, _ file: FileBytes) async throws -> (any Partial, CommitOutcome?) {
        let (partial, result) = try await tryToCommit(server, file)
        return (partial, try? result.get())
    }

    private func tryToCommit(
        _ server: Server, _ file: FileBytes
    ) async throws -> (any Partial, Result<CommitOutcome, TransferError>) {
        let address = try BucketAddress("s3://films", endpoint: "http://127.0.0.1:\(server.origin.port)")
        let environment = ["AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"]
        let store = ObjectStore(address, environment: { environment[$0] }, isReadable: { _ in false })
        let request = FileRequest(
            key: String(repeating: "b", count: 40), runToken: "1", isNew: true, path: "film", ifExists: .reuse,
            completed: nil, lease: RunLease(isHeld: { true }, confirm: { true }))
        let partial = store.begin(request, generation: "1", suggested: "x")
        try await partial.open(total: file.count, hashing: nil, with: [])
        let sink = partial.sink(at: 0) { true }
        try await feed(file.all, to: sink)
        let result: Result<CommitOutcome, TransferError>
        do throws(TransferError) {
            let whole = WholeFile(size: file.count, checksum: nil, authority: "the job", lastModified: nil)
            result = .success(try await partial.commit(whole))
        } catch { result = .failure(error) }
        await store.runDeferredWork()
        return (partial, result)
    }

    @Test(
        "a claim is created again when the store could not do that, and is deleted after the commit",
        arguments: [[.unavailable, .unavailable], [.doneButUnanswered], []] as [[Server.ClaimFault]],
        [0, 330] as [Int64])
    private func claim(_ faults: [Server.ClaimFault], _ ahead: Int64) async throws {
        let file = FileBytes(seed: 1, count: 9 << 20)
        let server = try Server(refusals: 1, size: file.count, claimFaults: faults, ahead: ahead)
        guard case (_, .success(.stored)) = try await tryToCommit(server, file) else {
            Issue.record("not stored")
            return
        }
        #expect(server.isWhole && server.completions == 2 && !server.hasClaim)
    }

    @Test("a job whose claim the store denies fails as such, and completes nothing") func deniedClaim() async throws {
        let file = FileBytes(seed: 1, count: 9 << 20)
        let server = try Server(refusals: 0, size: file.count, claimFaults: [.denied])
        guard case (_, .failure(.failed(let failure))) = try await tryToCommit(server, file) else {
            Issue.record("stored")
            return
        }
        #expect(failure.code == .permission && server.completions == 0 && !server.hasClaim)
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
        #expect(outcome == nil && partial.written.count == file.count && partial.resumable.isEmpty)
    }

    /// What the store check finds at a scripted server.
    private func findings(at origin: OriginServer) async throws -> [StoreCheck.Finding] {
        let address = try BucketAddress("s3://films", endpoint: "http://127.0.0.1:\(origin.port)")
        let environment = ["AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"]
        let store = ObjectStore(address, environment: { environment[$0] }, isReadable: { _ in false })
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
