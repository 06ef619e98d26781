import Glibc
import HaulContract
import HaulHTTP
import HaulTestSupport
import Testing

@testable import HaulActivities

/// Downloads through real proxies, under the address policy of a worker whose operator has allowed loopback.
@Suite struct ProxyDownloadTests {
    static let bytes = FileBytes(seed: 41, count: 2_000_000)
    static let schemes = ["http", "socks5", "socks5h"]

    private func bench(
        _ proxy: String, _ policy: AddressPolicy = .restricted(allowed: [Network("127.0.0.0/8")!, Network("::1")!]),
        certificates: Certificates? = nil
    ) throws -> DownloadBench {
        try DownloadBench {
            $0.proxy = proxy
            $0.policy = policy
            $0.certificateAuthorities = certificates?.file("ca.pem")
        }
    }

    @Test("a proxy carries an http file over several connections", arguments: schemes)
    func plain(_ scheme: String) async throws {
        let proxy = try ProxyServer()
        let latch = Latch()
        let origin = try OriginServer { request in
            var reply = OriginReply.file(Self.bytes, to: request)
            if request.number == 1 { reply.hold = (500_000, latch) }
            return reply
        }
        let bench = try bench(proxy.url(scheme))
        let job = Job(id: "j", urls: [origin.url("/a")])
        #expect(try await bench.run(job, holding: latch, of: origin).file?.bytes == Self.bytes.count)
        #expect(bench.directory.holds("a", Self.bytes))
        let expected = scheme == "http" ? "GET \(origin.url("/a"))" : "SOCKS 127.0.0.1:\(origin.port)"
        #expect(proxy.targets.count > 1 && proxy.targets.allSatisfy { $0 == expected })
    }

    @Test("a proxy tunnels an https file, whose certificate is verified", arguments: schemes)
    func tunnel(_ scheme: String) async throws {
        let certificates = try await Certificates()
        let proxy = try ProxyServer()
        let origin = try OriginServer(certificates: certificates) { .file(Self.bytes, to: $0) }
        var job = Job(id: "j", urls: [origin.url("/a")])
        job.headers = [HeaderField("Authorization", "Bearer secret"), HeaderField("X-Key", "secret")]
        #expect(try await bench(proxy.url(scheme)).run(job).code == .tls)
        let bench = try bench(proxy.url(scheme), certificates: certificates)
        #expect(await bench.run(job).file != nil)
        #expect(bench.directory.holds("a", Self.bytes))
        // The proxy does not see what the tunnel hides.
        #expect(proxy.heads.count == (scheme == "http" ? proxy.targets.count : 0))
        #expect(proxy.heads.allSatisfy { !$0.contains("secret") })
        #expect(origin.requests.allSatisfy { $0.headers["x-key"] == "secret" })
        #expect(proxy.targets.allSatisfy { $0 == "\(scheme == "http" ? "CONNECT" : "SOCKS") 127.0.0.1:\(origin.port)" })
    }

    @Test("a proxy reaches an IPv6 origin", IPv6DownloadTests.available, arguments: schemes)
    func ipv6(_ scheme: String) async throws {
        let certificates = try await Certificates()
        let proxy = try ProxyServer()
        let origin = try OriginServer(.v6, certificates: certificates) { .file(Self.bytes, to: $0) }
        let bench = try bench(proxy.url(scheme), certificates: certificates)
        #expect(await bench.run(Job(id: "j", urls: [origin.url("/a")])).file != nil)
        #expect(bench.directory.holds("a", Self.bytes))
    }

    @Test("the proxy gets no request for a target that the policy forbids", arguments: schemes)
    func forbidden(_ scheme: String) async throws {
        let proxy = try ProxyServer()
        let hop = try OriginServer { _ in OriginReply(302, headers: [("Location", "http://169.254.169.254/latest")]) }
        let closed = try bench(proxy.url(scheme), .restricted())
        for host in ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "169.254.169.254", "10.0.0.1"] {
            let outcome = await closed.run(Job(id: "j", urls: ["http://\(host):\(hop.port)/a"]))
            #expect(outcome.code == .addressForbidden, "\(host)")
        }
        #expect(proxy.connections == 0 && hop.connections == 0)
        // The policy applies to a redirect as to the first address.
        #expect(try await bench(proxy.url(scheme)).run(Job(id: "j", urls: [hop.url("/a")])).code == .addressForbidden)
        #expect(hop.requests.count == 1 && proxy.connections == 1)
    }

    @Test("the policy checks a name's address, and the proxy gets that address", arguments: ["socks5", "socks5h"])
    func pinned(_ scheme: String) async throws {
        let proxy = try ProxyServer()
        let origin = try OriginServer { _ in OriginReply(body: [1]) }
        let bench = try bench(proxy.url(scheme))
        let outcome = await bench.run(Job(id: "j", urls: ["http://localhost:\(origin.port)/a"]))
        // If localhost is ::1 first, no server listens there, and the proxy reports that.
        #expect(outcome.file != nil || outcome.code == .proxy, "\(outcome)")
        #expect(!proxy.targets.isEmpty && proxy.targets.allSatisfy { !$0.contains("localhost") })
    }

    @Test("without a policy the proxy resolves the name", arguments: ["http", "socks5h"])
    func remoteName(_ scheme: String) async throws {
        let proxy = try ProxyServer(names: ["origin.test"])
        let origin = try OriginServer { _ in OriginReply(body: [1, 2]) }
        let bench = try bench(proxy.url(scheme), .unrestricted)
        #expect(await bench.run(Job(id: "j", urls: ["http://origin.test:\(origin.port)/a"])).file?.bytes == 2)
        #expect(proxy.targets.count == 1 && proxy.targets[0].contains("origin.test:\(origin.port)"))
        #expect(origin.requests.first?.headers["host"] == "origin.test:\(origin.port)")
    }

    @Test("the right proxy credentials are accepted, and wrong ones are a proxy error", arguments: schemes)
    func credentials(_ scheme: String) async throws {
        let certificates = try await Certificates()
        let proxy = try ProxyServer(credentials: "user:secret")
        let origin = try OriginServer(certificates: certificates) { _ in OriginReply(body: [1]) }
        let job = Job(id: "j", urls: [origin.url("/a")])
        for wrong in ["user:wrong", nil] {
            let outcome = try await bench(proxy.url(scheme, credentials: wrong), certificates: certificates).run(job)
            guard case .failed(let failure) = outcome else { return #expect(Bool(false), "\(outcome)") }
            #expect(failure.code == .proxy, "\(failure)")
            #expect(!failure.message.contains("wrong"), "\(failure.message)")
        }
        #expect(origin.connections == 0)
        let open = try bench(proxy.url(scheme, credentials: "user:secret"), certificates: certificates)
        #expect(await open.run(job).file?.bytes == 1)
        #expect(origin.requests.last?.headers["proxy-authorization"] == nil)
    }

    @Test("a target that the proxy cannot reach is a proxy error", arguments: ["socks5", "socks5h"])
    func unreachable(_ scheme: String) async throws {
        let proxy = try ProxyServer()
        let (descriptor, port) = try LoopbackSocket.bind()
        defer { close(descriptor) }
        #expect(
            try await bench(proxy.url(scheme)).run(Job(id: "j", urls: ["http://127.0.0.1:\(port)/a"])).code == .proxy)
        #expect(proxy.connections == 1)
    }

    @Test("the certificate of an https proxy is verified like any other", arguments: [true, false])
    func tlsProxy(_ isOriginTLS: Bool) async throws {
        let certificates = try await Certificates()
        let proxy = try ProxyServer(credentials: "user:secret", certificates: certificates)
        let origin = try OriginServer(certificates: isOriginTLS ? certificates : nil) { .file(Self.bytes, to: $0) }
        let job = Job(id: "j", urls: [origin.url("/a")])
        // A wrong certificate of the proxy is a proxy error, and not the server's fault.
        #expect(try await bench(proxy.url("https", credentials: "user:secret")).run(job).code == .proxy)
        #expect(proxy.targets.isEmpty)
        let bench = try bench(proxy.url("https", credentials: "user:secret"), certificates: certificates)
        #expect(await bench.run(job).file != nil)
        #expect(bench.directory.holds("a", Self.bytes))
        let expected = isOriginTLS ? "CONNECT 127.0.0.1:\(origin.port)" : "GET \(origin.url("/a"))"
        #expect(!proxy.targets.isEmpty && proxy.targets.allSatisfy { $0 == expected })
    }

    @Test("behind an https proxy an untrusted certificate of the server is still a tls error")
    func untrustedBehind() async throws {
        let (trusted, other) = (try await Certificates(), try await Certificates())
        let proxy = try ProxyServer(certificates: trusted)
        let origin = try OriginServer(certificates: other) { .file(Self.bytes, to: $0) }
        let job = Job(id: "j", urls: [origin.url("/a")])
        #expect(try await bench(proxy.url("https"), certificates: trusted).run(job).code == .tls)
        #expect(origin.requests.isEmpty)
    }

    struct Loss: Sendable, CustomTestStringConvertible {
        let scheme: String
        let isOriginTLS: Bool
        let byReset: Bool
        var testDescription: String {
            "\(scheme), \(isOriginTLS ? "https" : "http"), \(byReset ? "reset" : "closed")"
        }
    }

    static let losses = ["http", "https", "socks5"].flatMap { scheme in
        [true, false].flatMap { isTLS in
            [true, false].map { Loss(scheme: scheme, isOriginTLS: isTLS, byReset: $0) }
        }
    }

    @Test("a proxy that is lost during a transfer costs no byte, and one more request", arguments: losses)
    func lost(_ loss: Loss) async throws {
        let certificates = try await Certificates()
        let proxy = try ProxyServer(certificates: loss.scheme == "https" ? certificates : nil)
        let latch = Latch()
        let origin = try OriginServer(certificates: loss.isOriginTLS ? certificates : nil) { request in
            var reply = OriginReply.file(Self.bytes, to: request)
            if request.number == 1 { reply.hold = (700_000, latch) }
            return reply
        }
        defer { latch.open() }
        let bench = try bench(proxy.url(loss.scheme), certificates: certificates)
        var job = Job(id: "j", urls: [origin.url("/a")])
        job.connections = 1
        let download = bench.download(job)
        let running = Task { await download.outcome() }
        try await eventually("700,000 bytes") { download.progress().received == 700_000 }
        proxy.cutConnections(byReset: loss.byReset)
        #expect(await running.value.file?.bytes == Self.bytes.count)
        #expect(bench.directory.holds("a", Self.bytes))
        #expect(origin.requests.map { $0.headers["range"] } == [nil, "bytes=700000-"])
        #expect(proxy.connections == 2)
    }

    @Test("a proxy that is gone for good is a proxy error, and the received bytes are kept", arguments: schemes)
    func gone(_ scheme: String) async throws {
        let proxy = try ProxyServer()
        let latch = Latch()
        let origin = try OriginServer { request in
            var reply = OriginReply.file(Self.bytes, to: request)
            if request.number == 1 { reply.hold = (700_000, latch) }
            return reply
        }
        defer { latch.open() }
        let bench = try bench(proxy.url(scheme))
        var job = Job(id: "j", urls: [origin.url("/a")])
        job.connections = 1
        let download = bench.download(job)
        let running = Task { await download.outcome() }
        try await eventually("700,000 bytes") { download.progress().received == 700_000 }
        proxy.leave()
        let code = await running.value.code
        #expect(code == .proxy && RetryPolicy.isRetryable(.proxy))
        #expect(await download.finalCheckpoint()?.offsets.intervals == [0..<700_000])
    }
}
