import HaulContract
import HaulHTTP
import HaulTestSupport
import Testing

@testable import HaulActivities

@Suite struct IPv6DownloadTests {
    static let bytes = FileBytes(seed: 51, count: 3_000_000)

    private func bench(_ allowed: String...) throws -> DownloadBench {
        try DownloadBench { $0.policy = .restricted(allowed: allowed.map { Network($0)! }) }
    }

    static let available = ConditionTrait.enabled(if: LoopbackSocket.hasIPv6, "needs ::1")

    @Test("a file of an IPv6 origin is continued over several connections", available) func whole() async throws {
        let bench = try bench("::1")
        let (first, second) = (Latch(), Latch())
        let origin = try OriginServer(.v6) { request in
            var reply = OriginReply.file(Self.bytes, to: request)
            if request.number == 1 { reply.hold = (500_000, first) }
            if request.number == 2 { reply.hold = (500_000, second) }
            return reply
        }
        var job = Job(id: "j", urls: [origin.url("/a")])
        job.connections = 1
        let resume = try #require(try await bench.begin(job, until: 500_000))
        first.open()
        job.connections = 4
        let outcome = try await bench.run(job, resume: resume, holding: second, of: origin)
        #expect(outcome.file?.bytes == Self.bytes.count)
        #expect(bench.directory.holds("a", Self.bytes))
        #expect(origin.requests.dropFirst().allSatisfy { $0.headers["range"] != "bytes=0-" })
    }

    @Test("::1 is refused unless it is allowed, and IPv4's loopback range does not allow it", available)
    func refused() async throws {
        let origin = try OriginServer(.v6) { _ in OriginReply(body: [1]) }
        let job = Job(id: "j", urls: [origin.url("/a")])
        #expect(try await bench().run(job).code == .addressForbidden)
        #expect(try await bench("127.0.0.0/8").run(job).code == .addressForbidden)
        #expect(origin.connections == 0)
        #expect(try await bench("::1").run(job).file != nil)
    }

    @Test(
        "the policy judges an IPv4-mapped IPv6 address by its IPv4 address",
        arguments: ["[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:ffff:7f00:0001]"])
    func mapped(_ host: String) async throws {
        let origin = try OriginServer { _ in OriginReply(body: [1]) }
        let job = Job(id: "j", urls: ["http://\(host):\(origin.port)/a"])
        #expect(try await bench().run(job).code == .addressForbidden)
        #expect(try await bench("::1").run(job).code == .addressForbidden)
        #expect(origin.connections == 0)
        #expect(try await bench("127.0.0.1").run(job).file?.bytes == 1)
    }

    @Test("a redirect to ::1 is subject to the policy, and is another origin", available) func redirect() async throws {
        let inner = try OriginServer(.v6) { _ in OriginReply(body: [1]) }
        let outer = try OriginServer { _ in OriginReply(302, headers: [("Location", inner.url("/b"))]) }
        var job = Job(id: "j", urls: [outer.url("/a")])
        job.headers = [HeaderField("Authorization", "Bearer secret")]
        #expect(try await bench("127.0.0.0/8").run(job).code == .addressForbidden)
        #expect(inner.connections == 0)
        #expect(try await bench("127.0.0.0/8", "::1").run(job).file?.file == "a")
        #expect(inner.requests.count == 1 && inner.requests[0].headers["authorization"] == nil)
    }

    @Test("a name with addresses of both families leads to the one that is allowed and responds", available)
    func both() async throws {
        for family in [LoopbackSocket.Family.v4, .v6] {
            let origin = try OriginServer(family) { _ in OriginReply(body: [1]) }
            let job = Job(id: "j", urls: ["http://localhost:\(origin.port)/a"])
            let bench = try bench(family == .v4 ? "127.0.0.1" : "::1")
            let outcome = await bench.run(job)
            // localhost has no IPv6 address on some machines.
            #expect(outcome.file != nil || family == .v6 && outcome.code == .addressForbidden, "\(outcome)")
        }
    }
}
