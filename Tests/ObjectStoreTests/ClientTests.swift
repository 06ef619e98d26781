import HaulContract
import HaulHTTP
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
}
