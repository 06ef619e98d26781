import HaulContract
import HaulHTTP
import HaulStorage
import HaulTestSupport
import Testing

@testable import HaulObjectStore

/// Servers that know some conditions and not others.
@Suite struct ConditionTests {
    private static let mark = ObjectMark(job: MultipartFile.key, generation: "1", time: 5)

    /// A bucket with one object. It answers `refusal` to requests with a condition that `isRefused`.
    private static func bucket(
        _ isGone: Shared<Bool>, _ refusal: Int, where isRefused: @escaping @Sendable (OriginRequest) -> Bool
    ) throws -> (ObjectStore, OriginServer) {
        let origin = try OriginServer { request in
            if isRefused(request) {
                return OriginReply(refusal, body: Array("<Error><Code>HTTP\(refusal)</Code></Error>".utf8))
            }
            switch request.method {
            case "HEAD" where isGone.value: return OriginReply(404)
            case "HEAD":
                let fields = mark.fields.map { ($0.name, $0.value) } + [("ETag", "\"e\"")]
                return OriginReply(headers: fields, body: [1, 2, 3])
            case "DELETE":
                isGone.value = true
                return OriginReply(204)
            case "PUT" where request.headers["if-none-match"] != nil:
                return OriginReply(412, body: Array("<Error><Code>PreconditionFailed</Code></Error>".utf8))
            default: return OriginReply(headers: [("ETag", "\"f\"")])
            }
        }
        let address = try BucketAddress("s3://test/x", endpoint: origin.url(""))
        let environment = ["AWS_ACCESS_KEY_ID": "testkey", "AWS_SECRET_ACCESS_KEY": "testsecret"]
        return (ObjectStore(address, environment: { environment[$0] }, isReadable: { _ in false }), origin)
    }

    private static func known(_ store: ObjectStore) -> [ConditionalRequest] {
        [ConditionalRequest.create, .replace, .complete, .delete].filter(store.knows)
    }

    @Test("a server that knows no DELETE If-Match keeps all other conditions", arguments: [501, 400])
    func deletion(_ refusal: Int) async throws {
        let isGone = Shared(false)
        let (store, origin) = try Self.bucket(isGone, refusal) {
            $0.method == "DELETE" && $0.headers["if-match"] != nil
        }
        #expect(await store.delete("film", FinishedIdentity(inode: Self.mark.identity)))
        #expect(isGone.value)
        // A refusal that says nothing about the condition concerns one request.
        #expect(Self.known(store) == [.create, .replace, .complete] + (refusal == 400 ? [.delete] : []))
        withExtendedLifetime(origin) {}
    }

    @Test("a server that knows no PUT If-Match keeps the claims of names") func claim() async throws {
        let (store, origin) = try Self.bucket(Shared(false), 501) {
            $0.method == "PUT" && $0.headers["if-match"] != nil
        }
        let claim = store.claim("film", job: MultipartFile.key, generation: "2", upload: "u")
        await claim.acquire()
        try claim.check()
        #expect(Self.known(store) == [.create, .complete, .delete])
        // The claim of another job stays.
        let other = store.claim("film", job: String(repeating: "c", count: 40), generation: "1", upload: "u")
        await other.acquire()
        #expect(throws: StoreError.claimed) { try other.check() }
        withExtendedLifetime(origin) {}
    }

    @Test("an object of which the server says nothing does not count as deleted") func unknown() async throws {
        let (store, origin) = try Self.bucket(Shared(false), 403) { $0.method == "HEAD" }
        #expect(await !store.delete("film", FinishedIdentity(inode: Self.mark.identity)))
        let (other, second) = try Self.bucket(Shared(false), 403) { $0.method == "DELETE" }
        #expect(await !other.delete("film", FinishedIdentity(inode: Self.mark.identity)))
        #expect(await other.delete("film", FinishedIdentity(inode: 1)), "it is another object")
        withExtendedLifetime((origin, second)) {}
    }
}
