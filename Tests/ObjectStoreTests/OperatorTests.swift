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
struct OperatorTests: MultipartFileTests {
    @Test("an upload whose id no run has learned is aborted with its generation", arguments: ObjectServer.installed)
    func unlearned(_ kind: ObjectServer.Kind) async throws {
        let bucket = try await Bucket(kind)
        let client = bucket.store.client
        let keys = HiddenKeys(job: Self.key, generation: "1")
        let key = client.address.key("films/film")
        try await client.put(client.address.key(keys.owner), text: "1")
        try await client.put(client.address.key(keys.intent("x")), text: key)
        _ = try await client.create(key, mark: ObjectMark(job: Self.key, generation: "1", time: 1))
        let found = await bucket.store.leftovers(olderThan: -1)
        #expect(found.map(\.key) == [Self.key])
        #expect(await bucket.store.leftovers(olderThan: 1000).isEmpty)
        #expect(await bucket.store.remove(found).count == 1)
        #expect(try await bucket.everything() == ([], 0))
    }

    @Test(
        "a sweep does not touch the uploads of other programs and of a nested fleet", arguments: ObjectServer.installed)
    func foreign(_ kind: ObjectServer.Kind) async throws {
        let outer = try await Bucket(kind)
        let inner = try await Bucket(kind, prefix: outer.store.client.address.prefix + "/in")
        let client = outer.store.client
        _ = try await client.create(
            client.address.key("backup.tar"), mark: ObjectMark(job: Self.key, generation: "1", time: 1))
        let partial = try await open(inner, "1")
        try await receive(0..<9 << 20, into: partial)
        let point = try await point(partial)
        let found = await outer.store.leftovers(olderThan: -1)
        #expect(found.isEmpty)
        _ = await outer.store.remove(found)
        #expect(try await client.uploads(client.address.key("backup.tar")).count == 1)
        let next = try await resume(inner, "2", point)
        #expect(next.written == point.offsets)
        await next.discard(soon: false)
    }

    @Test(
        "an upload by a key that XML cannot carry does not stop the sweep, and no job begins one",
        arguments: ObjectServer.installed)
    func unlistable(_ kind: ObjectServer.Kind) async throws {
        let bucket = try await Bucket(kind)
        let client = bucket.store.client
        _ = try? await client.create(
            client.address.key("films/\u{FFFE}x"), mark: ObjectMark(job: Self.key, generation: "1", time: 1))
        try await client.put(client.address.key(".haul/\u{FFFE}x"), text: "foreign")
        let partial = try await open(bucket, "1")
        try await receive(0..<9 << 20, into: partial)
        _ = try await partial.checkpoint(isLast: true)
        let found = await bucket.store.leftovers(olderThan: -1)
        #expect(found.map(\.key) == [Self.key])
        #expect(await bucket.store.remove(found).count == 1)
        let named = FileRequest(
            key: Self.key, runToken: "1", isNew: true, path: "films/\u{FFFE}x", ifExists: .reuse, completed: nil,
            lease: RunLease(isHeld: { true }, confirm: { true }))
        let other = bucket.store.begin(named, generation: "2", suggested: "x")
        let error = await thrown { () throws(TransferError) in
            try await other.open(total: Self.size, hashing: nil, with: [])
        }
        #expect(error?.code == .pathForbidden && FileName.sanitize("\u{FFFE}x") == "x")
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
            isReadable: { _ in false })
        let trouble = try #require(await store.fault())
        #expect(trouble.contains("refuses access") && !trouble.contains("wrong-secret"))
    }
}
