import Foundation
import HaulContract
import HaulHTTP
import HaulStorage
import HaulTestSupport
import Testing

@testable import HaulObjectStore

/// How the client sends requests to a bucket, and repeats them.
@Suite struct ClientTests {
    private func client(_ origin: OriginServer, _ environment: [String: String]) throws -> BucketClient {
        let address = try BucketAddress("s3://films", endpoint: "http://127.0.0.1:\(origin.port)")
        return ObjectStore(address, environment: { environment[$0] }, isReadable: { _ in false }).client
    }

    private static func answer(_ text: String) -> OriginReply { OriginReply(body: Array(text.utf8)) }

    private static func refusal(_ status: Int, _ code: String) -> OriginReply {
        OriginReply(status, body: Array("<Error><Code>\(code)</Code></Error>".utf8))
    }

    @Test("requests that were signed together at a wrong time are all served") func skew() async throws {
        let together = 4
        let (arrived, gate) = (Shared(0), Latch())
        let origin = try OriginServer { request in
            let now = UnixTime.seconds + 960
            let reported = request.headers["x-amz-date"] ?? ""
            arrived.change { $0 += 1 }
            if arrived.value == together { gate.open() }
            guard AmazonTime.stamp(now - 300) < reported, reported < AmazonTime.stamp(now + 300) else {
                // Some servers use this code for a wrong time.
                var reply = Self.refusal(403, "AccessDenied")
                reply.headers = [("Date", HTTPDate.text(now))]
                reply.hold = (0, gate)
                return reply
            }
            return Self.answer("object")
        }
        let client = try client(origin, ["AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"])
        let served = await withTaskGroup(of: Bool.self) { group in
            for number in 0..<together {
                group.addTask { (try? await client.get("o\(number)", limit: 100)) == Array("object".utf8) }
            }
            return await group.reduce(into: 0) { if $1 { $0 += 1 } }
        }
        #expect(served == together && arrived.value == 2 * together)
    }

    @Test("a request for a name that expires because the clock is minutes behind corrects the clock of the next one")
    func expiredName() async throws {
        let origin = try OriginServer { request in
            let now = UnixTime.seconds + 330
            let signed = request.path.firstMatch(of: /X-Amz-Date=(\w+)/)?.1 ?? ""
            // Only a signature in the query expires so soon. Servers use this code for it.
            guard request.method != "PUT" || AmazonTime.stamp(now - 11) < signed else {
                var reply = Self.refusal(403, "AccessDenied")
                reply.headers = [("Date", HTTPDate.text(now))]
                return reply
            }
            return OriginReply(headers: [("ETag", "\"1\""), ("Date", HTTPDate.text(now))])
        }
        let client = try client(origin, ["AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"])
        let mark = ObjectMark(job: "a", generation: "1", time: 1)
        func name() async throws {
            try await client.putFinal("o", RequestMemory([1]), md5: Digest.md5([1]), mark: mark, .absent)
        }
        let error = await #expect(throws: StoreError.self) { try await name() }
        #expect(error?.code == "RequestExpired" && error?.kind == .clock)
        try await name()
        #expect(abs(client.skew - 330) <= 2 && client.requests == 2)
    }

    @Test("expired credentials are fetched again after a HEAD, whose response has no body") func head() async throws {
        let fetched = Shared(0)
        let origin = try OriginServer { request in
            if request.path == "/credentials" {
                fetched.change { $0 += 1 }
                return Self.answer(
                    """
                    {"AccessKeyId": "a", "SecretAccessKey": "b", "Token": "\(fetched.value)", \
                    "Expiration": "2100-01-01T00:00:00Z"}
                    """)
            }
            if request.headers["x-amz-security-token"] == "2" { return Self.answer("object") }
            return request.method == "HEAD" ? OriginReply(400) : Self.refusal(400, "ExpiredToken")
        }
        let client = try client(
            origin, ["AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://127.0.0.1:\(origin.port)/credentials"])
        let head = try await client.head("o")
        #expect(head?.size == 6 && fetched.value == 2)
    }

    @Test("a HEAD without permission fails for good") func denied() async throws {
        let origin = try OriginServer { request in
            request.method == "HEAD" ? OriginReply(403) : Self.refusal(403, "AccessDenied")
        }
        let client = try client(origin, ["AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"])
        let error = await #expect(throws: StoreError.self) { try await client.head("o") }
        #expect(error?.kind == .denied && error?.code == "AccessDenied" && client.requests == 2)
    }

    @Test("the key is read again if the store does not accept it", arguments: ["InvalidAccessKeyId", "InvalidToken"])
    func replacedKey(_ code: String) async throws {
        let directory = TemporaryDirectory()
        func write(_ key: String) throws {
            let text = "[default]\naws_access_key_id = \(key)\naws_secret_access_key = secret\n"
            try text.write(toFile: directory.file("credentials"), atomically: true, encoding: .utf8)
        }
        try write("OLD")
        let isReplaced = Shared(false)
        let origin = try OriginServer { request in
            let isOld = (request.headers["authorization"] ?? request.path).contains("OLD")
            guard isOld == isReplaced.value else { return OriginReply(headers: [("ETag", "\"1\"")]) }
            return Self.refusal(code == "InvalidToken" ? 400 : 403, code)
        }
        let address = try BucketAddress("s3://films", endpoint: "http://127.0.0.1:\(origin.port)")
        let environment = ["AWS_SHARED_CREDENTIALS_FILE": directory.file("credentials")]
        let store = ObjectStore(address, environment: { environment[$0] }, isReadable: { _ in true })
        // The key is OLD as long as it is not replaced.
        try await store.client.put("o", text: "1")
        isReplaced.value = true
        await #expect(throws: StoreError.self) { try await store.client.put("o", text: "1") }
        #expect(await store.fault() != nil, "the key is not accepted any more")
        try write("NEW")
        #expect(await store.fault() == nil)
        try write("OLD")
        isReplaced.value = false
        let mark = ObjectMark(job: "a", generation: "1", time: 1)
        // It is not repeated blindly: its caller checks the name again.
        let error = await #expect(throws: StoreError.self) {
            try await store.client.putFinal("o", RequestMemory([1]), md5: Digest.md5([1]), mark: mark, .absent)
        }
        #expect(error?.kind == .expired)
        try await store.client.putFinal("o", RequestMemory([1]), md5: Digest.md5([1]), mark: mark, .absent)
    }

    @Test("a refusal ends the trust in writes that succeeded before", arguments: [403, 507])
    func refused(_ status: Int) async throws {
        let isRefusing = Shared(false)
        let origin = try OriginServer { _ in
            isRefusing.value ? OriginReply(status) : OriginReply(headers: [("ETag", "\"1\"")])
        }
        let address = try BucketAddress("s3://films", endpoint: "http://127.0.0.1:\(origin.port)")
        let environment = ["AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"]
        let store = ObjectStore(address, environment: { environment[$0] }, isReadable: { _ in false })
        try await store.client.put("o", text: "1")
        #expect(await store.fault() == nil)
        isRefusing.value = true
        await #expect(throws: StoreError.self) { try await store.client.put("o", text: "1") }
        #expect(await store.fault() != nil)
        isRefusing.value = false
        #expect(await store.fault() == nil)
    }

    @Test("a store that does not say whether a finished object is there does not make it missing")
    func unknown() async throws {
        let status = Shared(404)
        let origin = try OriginServer { _ in OriginReply(status.value) }
        let address = try BucketAddress("s3://films", endpoint: "http://127.0.0.1:\(origin.port)")
        let environment = ["AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"]
        let store = ObjectStore(address, environment: { environment[$0] }, isReadable: { _ in false })
        let file = CompletedFile(
            file: "film", bytes: 1, store: store.id, inode: 1, modified: 1, entity: Entity(), source: "", validated: 0)
        let request = FileRequest(
            key: "a", runToken: "1", isNew: false, path: "film", ifExists: .reuse, completed: file,
            lease: RunLease(isHeld: { true }, confirm: { true }))
        #expect(try await store.held(file, for: request, fencing: false) == nil)
        status.value = 403
        await #expect(throws: TransferError.self) { try await store.held(file, for: request, fencing: false) }
    }

    @Test("an error is understood even if it is longer than the range that was requested")
    func shortRange() async throws {
        let isBusy = Shared(true)
        let origin = try OriginServer { request in
            guard request.path.hasSuffix("/busy") else { return Self.refusal(412, "PreconditionFailed") }
            if isBusy.value {
                isBusy.value = false
                return Self.refusal(503, "SlowDown")
            }
            return OriginReply(206, headers: [("ETag", "\"1\"")], body: [1, 2, 3])
        }
        let client = try client(origin, ["AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"])
        let error = await #expect(throws: StoreError.self) { try await client.get("o", 0..<3, ifMatch: "1") }
        #expect(error?.kind == .precondition && client.requests == 1)
        #expect(try await client.get("busy", 0..<3, ifMatch: "1") == [1, 2, 3])
        #expect(client.requests == 3)
    }

    @Test("uploads for keys with blanks are listed as Amazon encodes them, and so is the next page")
    func encodedUploads() async throws {
        let origin = try OriginServer { request in
            let isFirst = !request.path.contains("key-marker=")
            let upload = "<Upload><Key>my+film+%281%29.mkv</Key><UploadId>\(isFirst ? 1 : 2)</UploadId></Upload>"
            let next = isFirst ? "<NextKeyMarker>my+film</NextKeyMarker><IsTruncated>true</IsTruncated>" : ""
            return Self.answer(
                "<ListMultipartUploadsResult><EncodingType>url</EncodingType>\(upload)\(next)</ListMultipartUploadsResult>"
            )
        }
        let client = try client(origin, ["AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"])
        let uploads = try await client.uploads("my film (1).mkv")
        #expect(uploads.map(\.key) == ["my film (1).mkv", "my film (1).mkv"] && uploads.map(\.id) == ["1", "2"])
        #expect(uploads.allSatisfy { $0.hasKey("my film (1).mkv") && !$0.hasKey("film") })
        #expect(origin.requests.last?.path.contains("key-marker=my%20film&") == true)
    }

    @Test("a slow body does not set the clock of later requests back") func slowBody() async throws {
        let slowness = Duration.seconds(12)
        let latch = Latch()
        let origin = try OriginServer { request in
            var reply = OriginReply(headers: [("ETag", "\"1\""), ("Date", HTTPDate.text(UnixTime.seconds))])
            if request.path.hasSuffix("/slow") {
                reply.body = .bytes([1, 2])
                reply.hold = (1, latch)
            }
            return reply
        }
        let client = try client(origin, ["AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"])
        let slow = Task { try await client.get("slow", limit: 2) }
        try await Task.sleep(for: slowness)
        latch.open()
        _ = try await slow.value
        let begun = UnixTime.seconds
        let mark = ObjectMark(job: "a", generation: "1", time: 1)
        try await client.putFinal("o", RequestMemory([1]), md5: Digest.md5([1]), mark: mark, .absent)
        let signed = try #require(origin.requests.last?.path.firstMatch(of: /X-Amz-Date=(\w+)/)?.1)
        #expect(signed >= AmazonTime.stamp(begun - 9))
    }

    @Test("a presigned request to the wrong region learns the right one", arguments: ["eu-central-1", nil])
    func region(_ region: String?) {
        let text =
            "<Error><Code>AuthorizationQueryParametersError</Code>\(region.map { "<Region>\($0)</Region>" } ?? "")</Error>"
        let error = StoreError(status: 400, headers: HeaderFields(), body: XMLElement(Array(text.utf8)))
        #expect(error.kind == .region(region))
    }

    @Test(
        "a request that gives a name is sent right after its checks, however long a store that throttles makes it wait")
    func throttled() async throws {
        let others = 60
        let (checked, sent) = (Shared<ContinuousClock.Instant?>(nil), Shared<ContinuousClock.Instant?>(nil))
        let latch = Latch()
        defer { latch.open() }
        let origin = try OriginServer { request in
            if request.path.hasSuffix("/throttled") { return Self.refusal(503, "SlowDown") }
            // No success speeds the requests up before the one that the test is about.
            if request.method == "HEAD" { latch.wait() }
            if request.method == "PUT" { sent.value = .now }
            return OriginReply(headers: [("ETag", "\"1\"")])
        }
        let address = try BucketAddress("s3://films", endpoint: "http://127.0.0.1:\(origin.port)")
        let environment = ["AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"]
        let store = ObjectStore(address, environment: { environment[$0] }, isReadable: { _ in false })
        var refused = StoreRequest("GET", "throttled")
        refused.tries = 1
        let throttled = await thrown { () throws(StoreError) in try await store.client.send(refused) }
        #expect(throttled?.kind == .throttled)
        let waiting = (0..<others).map { number in Task { _ = try? await store.client.head("o\(number)") } }
        try await eventually("all requests to have a turn") { store.client.requests == others + 1 }
        let lease = RunLease(
            isHeld: {
                checked.value = .now
                return true
            }, confirm: { true })
        let request = FileRequest(
            key: MultipartFile.key, runToken: "1", isNew: true, path: "film", ifExists: .reuse, completed: nil,
            lease: lease)
        let partial = store.begin(request, generation: "1", suggested: "x")
        _ = try await partial.put([1], WholeFile(size: 1, checksum: nil, authority: "the job", lastModified: nil))
        let (last, first) = (try #require(checked.value), try #require(sent.value))
        // Its turn came 3 s after those of the others.
        #expect(first - last < .milliseconds(1500))
        for task in waiting { task.cancel() }
    }
}
