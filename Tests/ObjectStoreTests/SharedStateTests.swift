import Foundation
import HaulContract
import HaulHTTP
import HaulStorage
import HaulTestSupport
import Testing

@testable import HaulObjectStore

/// What several requests at once find out about a server, and what other runs do meanwhile.
@Suite struct SharedStateTests {
    private func store(_ origin: OriginServer) throws -> ObjectStore {
        let address = try BucketAddress("s3://films", endpoint: "http://127.0.0.1:\(origin.port)")
        let environment = ["AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"]
        return ObjectStore(address, environment: { environment[$0] }, isReadable: { _ in false })
    }

    private static func open(_ client: BucketClient, _ key: String) async throws -> Transfer {
        try await client.open(key, version: nil, like: HTTPRequest(url: ""), ifMatch: "x") { error, _, _ in
            Failure(.http(error.status), error.message)
        }
    }

    @Test("requests that were signed together for a wrong region are all served") func region() async throws {
        let together = 4
        let (arrived, gate) = (Shared(0), Latch())
        let origin = try OriginServer { request in
            arrived.change { $0 += 1 }
            if arrived.value == together { gate.open() }
            guard request.headers["authorization"]?.contains("/eu-central-1/") == true else {
                let error = "<Error><Code>AuthorizationHeaderMalformed</Code><Region>eu-central-1</Region></Error>"
                var reply = OriginReply(400, body: Array(error.utf8))
                reply.hold = (0, gate)
                return reply
            }
            return OriginReply(body: Array("object".utf8))
        }
        let client = try store(origin).client
        let served = await withTaskGroup(of: Bool.self) { group in
            for number in 0..<together {
                group.addTask { (try? await client.get("o\(number)", limit: 100)) == Array("object".utf8) }
            }
            return await group.reduce(into: 0) { if $1 { $0 += 1 } }
        }
        #expect(served == together && arrived.value == 2 * together)
    }

    @Test("two requests that are refused together for the quotes of their ETags correct that once") func quotes()
        async throws
    {
        let (refused, gate) = (Shared(0), Latch())
        let origin = try OriginServer { request in
            guard request.headers["if-match"] == "\"x\"" else {
                return OriginReply(headers: [("ETag", "\"x\"")], body: Array("object".utf8))
            }
            refused.change { $0 += 1 }
            if refused.value == 2 { gate.open() }
            var reply = OriginReply(412, body: [0])
            reply.hold = (0, gate)
            return reply
        }
        let client = try store(origin).client
        async let one = Self.open(client, "one")
        async let other = Self.open(client, "other")
        for transfer in [try await one, try await other] { await transfer.discard() }
        await (try Self.open(client, "third")).discard()
        #expect(refused.value == 2 && origin.requests.last?.headers["if-match"] == "x")
    }

    @Test("an answer to HEAD without a length is an error, and no missing object") func unknownLength() async throws {
        let origin = try OriginServer { _ in
            var reply = OriginReply(headers: [("ETag", "\"x\"")])
            reply.framing = .chunked
            return reply
        }
        let client = try store(origin).client
        await #expect(throws: StoreError.self) { try await client.head("o") }
    }

    @Test("a purge leaves the upload that another run has just begun for the same key") func begun() async throws {
        let hidden = HiddenKeys(job: String(repeating: "a", count: 40), generation: "g1")
        let other = HiddenKeys(job: String(repeating: "b", count: 40), generation: "g2")
        let now = Date().ISO8601Format()
        let (isRecorded, aborted) = (Shared(false), Shared<[String]>([]))
        @Sendable func entry(_ key: String) -> String {
            "<Contents><Key>\(key)</Key><LastModified>\(now)</LastModified><ETag>\"1\"</ETag><Size>1</Size></Contents>"
        }
        let origin = try OriginServer { request in
            func answer(_ text: String) -> OriginReply { OriginReply(body: Array(text.utf8)) }
            let path = request.path
            switch request.method {
            case "DELETE":
                if let id = path.firstMatch(of: /uploadId=(\w+)/)?.1 { aborted.change { $0.append(String(id)) } }
                return OriginReply(204)
            case "GET" where path.contains("list-type"):
                var keys = [hidden.owner, hidden.intent("1"), hidden.intent("2"), hidden.upload("one")]
                let isRoot = !path.contains(hidden.generation)
                if isRoot, isRecorded.value { keys.append(other.upload("two")) }
                return answer("<ListBucketResult>\(keys.map(entry).joined())</ListBucketResult>")
            case "GET" where path.contains("uploads="):
                // Now the other run records what it has begun.
                isRecorded.change { $0 = true }
                let uploads = ["one", "two"].map {
                    "<Upload><Key>film</Key><UploadId>\($0)</UploadId><Initiated>\(now)</Initiated></Upload>"
                }
                return answer("<ListMultipartUploadsResult>\(uploads.joined())</ListMultipartUploadsResult>")
            case "GET" where path.contains("uploadId="):
                return OriginReply(404, body: Array("<Error><Code>NoSuchUpload</Code></Error>".utf8))
            default: return answer("film")
            }
        }
        await (try store(origin)).purge(hidden, completed: [])
        #expect(isRecorded.value && !aborted.value.contains("two"), "\(aborted.value)")
        #expect(aborted.value.contains("one"))
    }
}
