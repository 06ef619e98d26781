import HaulContract
import HaulHTTP
import HaulTestSupport
import Testing

@testable import HaulActivities

/// Origins that speak https, with a certificate of an authority that only the operator's `--ca` names.
@Suite struct TLSDownloadTests {
    static let bytes = FileBytes(seed: 31, count: 3_000_000)

    private func bench(_ certificates: Certificates) throws -> DownloadBench {
        try DownloadBench { $0.certificateAuthorities = certificates.file("ca.pem") }
    }

    @Test("an https file is fetched over several connections under the operator's authority")
    func whole() async throws {
        let certificates = try await Certificates()
        let bench = try bench(certificates)
        let latch = Latch()
        let origin = try OriginServer(certificates: certificates) { request in
            var reply = OriginReply.file(Self.bytes, to: request)
            if request.number == 1 { reply.hold = (500_000, latch) }
            return reply
        }
        let job = Job(id: "j", urls: [origin.url("/a")])
        #expect(try await bench.run(job, holding: latch, of: origin).file?.bytes == Self.bytes.count)
        #expect(bench.directory.holds("a", Self.bytes))
        #expect(origin.connections > 1)
    }

    @Test("a download continues over https, and fetches only the missing bytes") func continued() async throws {
        let certificates = try await Certificates()
        let bench = try bench(certificates)
        let latch = Latch()
        let origin = try OriginServer(certificates: certificates) { request in
            var reply = OriginReply.file(Self.bytes, to: request)
            if request.number == 1 { reply.hold = (1_000_000, latch) }
            return reply
        }
        var job = Job(id: "j", urls: [origin.url("/a")])
        job.connections = 1
        let resume = try #require(try await bench.begin(job, until: 1_000_000))
        latch.open()
        #expect(resume.offsets.count == 1_000_000)
        #expect(await bench.run(job, resume: resume).file != nil)
        #expect(bench.directory.holds("a", Self.bytes))
        #expect(origin.requests.last?.headers["range"] == "bytes=1000000-")
    }

    @Test("an untrusted authority is a tls error, and no request is sent") func untrusted() async throws {
        let origin = try OriginServer(certificates: try await Certificates()) { _ in OriginReply(body: [1]) }
        let job = Job(id: "j", urls: [origin.url("/a")])
        #expect(try await DownloadBench().run(job).code == .tls)
        // Trust in yet another authority does not help.
        #expect(try await bench(Certificates()).run(job).code == .tls)
        #expect(origin.requests.isEmpty)
    }

    @Test("a certificate for another name is a tls error") func otherName() async throws {
        let certificates = try await Certificates()
        let origin = try OriginServer(certificates: certificates) { _ in OriginReply(body: [1]) }
        let job = Job(id: "j", urls: ["https://localhost:\(origin.port)/a"])
        #expect(try await bench(certificates).run(job).code == .tls)
        #expect(origin.requests.isEmpty)
    }

    @Test("a redirect from https to http is refused, and one from http to https is followed")
    func downgrade() async throws {
        let certificates = try await Certificates()
        let bench = try bench(certificates)
        let plain = try OriginServer { _ in OriginReply(body: [1]) }
        let secure = try OriginServer(certificates: certificates) { request in
            request.path == "/down"
                ? OriginReply(302, headers: [("Location", plain.url("/b"))]) : OriginReply(body: [2])
        }
        let up = try OriginServer { _ in OriginReply(302, headers: [("Location", secure.url("/c"))]) }
        #expect(await bench.run(Job(id: "d", urls: [secure.url("/down")])).code == .redirectForbidden)
        #expect(plain.connections == 0)
        #expect(await bench.run(Job(id: "u", urls: [up.url("/up")])).file?.file == "up")
        #expect(bench.directory.contents("up") == [2])
    }

    @Test("a connection that is cut without close_notify is replaced") func cut() async throws {
        let certificates = try await Certificates()
        let bench = try bench(certificates)
        let origin = try OriginServer(certificates: certificates) { request in
            var reply = OriginReply.file(Self.bytes, to: request)
            if request.number < 3 {
                reply.cut = 1_000_000
                reply.end = request.number == 1 ? .fin : .reset
            }
            return reply
        }
        var job = Job(id: "j", urls: [origin.url("/a")])
        job.connections = 1
        #expect(await bench.run(job).file?.bytes == Self.bytes.count)
        #expect(bench.directory.holds("a", Self.bytes))
        #expect(origin.requests.count >= 3)
    }

    @Test(
        "a body that ends with the connection is complete after close_notify, and incomplete without",
        arguments: [OriginReply.End.whole, .fin, .reset])
    func untilClose(_ end: OriginReply.End) async throws {
        let certificates = try await Certificates()
        let bench = try bench(certificates)
        let origin = try OriginServer(certificates: certificates) { _ in
            var reply = OriginReply(body: FileBytes(seed: 32, count: 300_000).all)
            reply.framing = .close
            if end != .whole { reply.cut = 200_000 }
            reply.end = end
            return reply
        }
        let outcome = await bench.run(Job(id: "j", urls: [origin.url("/a")]))
        #expect(outcome.code == (end == .whole ? nil : .incomplete))
        #expect(outcome.file?.bytes == (end == .whole ? 300_000 : nil))
    }

    @Test("a server that requests a client certificate gets the operator's, if it is for that host")
    func clientCertificate() async throws {
        let certificates = try await Certificates()
        let origin = try OriginServer(certificates: certificates, requiresCertificate: true) {
            .file(Self.bytes, to: $0)
        }
        func run(_ certificate: ClientCertificate?) async throws -> ActivityOutcome {
            let bench = try DownloadBench {
                $0.certificateAuthorities = certificates.file("ca.pem")
                $0.clientCertificate = certificate
            }
            return await bench.run(Job(id: "j", urls: [origin.url("/a")]))
        }
        let (file, key) = (certificates.file("client.pem"), certificates.file("client.key"))
        #expect(try await run(ClientCertificate(file: file, key: key)).file?.bytes == Self.bytes.count)
        #expect(try await run(ClientCertificate(file: file, key: key, hosts: ["127.0.0.1"])).file != nil)
        for missing in [nil, ClientCertificate(file: file, key: key, hosts: ["other.example"])] {
            guard case .failed(let failure) = try await run(missing) else { return #expect(Bool(false)) }
            #expect(failure.code == .tls && failure.isFinal && failure.message.contains("--client-cert"))
        }
    }
}
