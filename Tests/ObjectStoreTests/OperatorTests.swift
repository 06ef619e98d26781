import HaulContract
import HaulHTTP
import HaulStorage
import HaulTestSupport
import Synchronization
import Testing

@testable import HaulObjectStore

/// What an operator learns about a bucket, and what the store finds in it.
@Suite(
    .disabled(
        if: ObjectServer.installed.isEmpty, "neither radosgw nor SeaweedFS is installed: deploy/test.sh does that"))
struct OperatorTests: FilmTests {
    @Test("an upload that no record names is found by its age", arguments: ObjectServer.installed)
    func stray(_ kind: ObjectServer.Kind) async throws {
        let bucket = try await Bucket(kind)
        let client = bucket.store.client
        let mark = ObjectMark(job: Self.key, generation: "1", time: 1)
        _ = try await client.create(client.address.key("films/film"), mark: mark)
        let found = await bucket.store.leftovers(olderThan: -1)
        #expect(found.count == 1 && found.allSatisfy { $0.key != Self.key && !$0.key.isEmpty })
        #expect(await bucket.store.leftovers(olderThan: 1000).isEmpty)
        #expect(await bucket.store.remove(found).count == 1)
        #expect(try await bucket.everything() == ([], 0))
    }

    @Test("the store check tries a server and leaves nothing behind", arguments: ObjectServer.installed)
    func check(_ kind: ObjectServer.Kind) async throws {
        let bucket = try await Bucket(kind)
        let findings = await StoreCheck(bucket.store).run()
        #expect(findings.filter { $0.verdict == .bad }.map(\.what) == [])
        let lacking = findings.filter { $0.verdict == .lacking }.map(\.what)
        #expect(lacking.contains("complete If-None-Match") == (kind == .rgw))
        #expect(findings.contains { $0.what == "credentials" && $0.found == "the environment" })
        #expect(try await bucket.everything() == ([], 0))
    }

    @Test("wrong credentials are reported as such, without the secret", arguments: ObjectServer.installed)
    func denied(_ kind: ObjectServer.Kind) async throws {
        let server = try await ObjectServer.shared(kind)
        let address = try BucketAddress("s3://\(server.bucket)/x", endpoint: server.endpoint)
        let store = ObjectStore(
            address,
            environment: { ["AWS_ACCESS_KEY_ID": "testkey", "AWS_SECRET_ACCESS_KEY": "wrong-secret"][$0] },
            isThere: { _ in false })
        let trouble = try #require(await store.trouble())
        #expect(trouble.contains("refuses access") && !trouble.contains("wrong-secret"))
    }
}
