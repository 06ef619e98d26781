import HaulContract
import HaulTestSupport
import Testing

@testable import HaulActivities
@testable import HaulHTTP

/// Digest authentication (RFC 7616).
@Suite struct DigestAuthenticationTests {
    private static let bytes = FileBytes(seed: 91, count: 3_000_000)
    private static let login = WebURL.Login(user: "Mufasa", password: "Circle of Life")

    @Test(
        "the examples of RFC 7616 and RFC 2617 give the published responses",
        arguments: [
            (
                "Digest realm=\"http-auth@example.org\", qop=\"auth, auth-int\", algorithm=MD5, nonce=\"7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v\", opaque=\"FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS\"",
                "8ca523f5e9506fed4657c9700eebdbec"
            ),
            (
                "Basic realm=\"x\", Digest realm=\"http-auth@example.org\", qop=\"auth, auth-int\", algorithm=SHA-256, nonce=\"7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v\", opaque=\"FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS\"",
                "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1"
            ),
        ])
    func examples(_ challenge: String, _ response: String) throws {
        let answer = try #require(DigestChallenge([challenge])).authorization(
            Self.login, method: "GET", target: "/dir/index.html", count: 1,
            clientNonce: "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ")
        #expect(answer.contains("response=\"\(response)\""))
        #expect(answer.contains("nc=00000001, cnonce=\"f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ\""))
        #expect(answer.contains("qop=auth,"))
    }

    @Test("the strongest known challenge gets a response, and unknown ones are ignored") func choice() {
        let (weak, strong) = (
            "Digest realm=a, nonce=n", "Digest realm=b, nonce=n, algorithm=SHA-256, qop=auth, stale=TRUE"
        )
        #expect(DigestChallenge([weak, strong])?.realm == "b")
        #expect(DigestChallenge(["\(weak), \(strong)"])?.isStale == true)
        #expect(DigestChallenge([weak])?.hasQOP == false)
        for other in [
            "Basic realm=\"Digest realm=a, nonce=b\"", "Digest realm=a", "Digest realm=a, nonce=n, qop=auth-int",
            "Digest realm=a, nonce=n, algorithm=SHA-512-256", "Digest realm=a, nonce=\"n\u{1}\"", "",
            "Negotiate YWJj==",
        ] { #expect(DigestChallenge([other]) == nil, "\(other)") }
    }

    /// Serves the file to clients whose credentials have its newest nonce. A nonce lasts for `uses` requests.
    private func origin(
        _ algorithm: String, uses: Int, hold: Latch? = nil, other: @escaping @Sendable () -> String? = { nil }
    ) throws -> OriginServer {
        let state = Shared((nonce: 1, uses: 0))
        return try OriginServer { request in
            let given = request.headers["authorization"] ?? ""
            func value(_ name: String) -> String {
                given.split(separator: "\(name)=").dropFirst().first?.split(separator: ",").first.map {
                    $0.filter { $0 != "\"" }
                }
                    ?? ""
            }
            return state.change { state in
                let nonce = "n\(state.nonce)"
                let challenge = DigestChallenge([
                    "Digest realm=\"files\", nonce=\"\(nonce)\", qop=auth, algorithm=\(algorithm)"
                ])!
                let right = challenge.authorization(
                    Self.login, method: request.method, target: request.path, count: Int(value("nc"), radix: 16) ?? 0,
                    clientNonce: value("cnonce"))
                state.uses += given == right ? 1 : 0
                guard given == right, state.uses <= uses else {
                    let isStale = given.hasPrefix("Digest") && value("nonce") != nonce || given == right
                    if isStale { state = (state.nonce + 1, 0) }
                    return OriginReply(
                        401,
                        headers: [
                            ("WWW-Authenticate", "Basic realm=\"files\""),
                            (
                                "WWW-Authenticate",
                                "Digest realm=\"files\", nonce=\"n\(state.nonce)\", qop=\"auth\", algorithm=\(algorithm), stale=\(isStale)"
                            ),
                        ], body: Array("who are you?".utf8))
                }
                if let location = other() { return OriginReply(302, headers: [("Location", location)]) }
                var reply = OriginReply.file(Self.bytes, to: request)
                if let hold, request.headers["range"] == nil { reply.hold = (500_000, hold) }
                return reply
            }
        }
    }

    private func job(_ origin: OriginServer, password: String = "Circle%20of%20Life") -> Job {
        Job(id: "j", urls: [origin.url("/a?x=1").replacing("://", with: "://Mufasa:\(password)@")])
    }

    @Test(
        "a server that requires Digest gets it for each part, whatever happens to its nonces",
        arguments: ["MD5", "MD5-sess", "SHA-256", "SHA-256-sess"], [1000, 1])
    func parts(_ algorithm: String, _ uses: Int) async throws {
        let bench = try DownloadBench()
        let latch = Latch()
        let origin = try origin(algorithm, uses: uses, hold: latch)
        #expect(try await bench.run(job(origin), holding: latch, of: origin).file?.bytes == Self.bytes.count)
        #expect(bench.directory.holds("a", Self.bytes))
        // The password is sent in the clear at most once, while the required scheme is unknown.
        #expect(origin.requests.count { $0.headers["authorization"]?.hasPrefix("Basic") == true } == 1)
        if uses == 1000 { #expect(origin.requests.count { $0.headers["range"] == nil } == 2) }
    }

    @Test("wrong credentials fail with 401 after one attempt") func wrong() async throws {
        let origin = try origin("SHA-256", uses: 1000)
        #expect(try await DownloadBench().run(job(origin, password: "wrong")).code == .http(401))
        #expect(origin.requests.count == 2)
    }

    @Test("another host gets no credentials, although it requires them") func elsewhere() async throws {
        let other = try OriginServer { _ in
            OriginReply(401, headers: [("WWW-Authenticate", "Digest realm=\"files\", nonce=\"n1\", qop=\"auth\"")])
        }
        let origin = try origin("MD5", uses: 1000) { other.url("/b") }
        #expect(try await DownloadBench().run(job(origin)).code == .http(401))
        #expect(other.requests.count == 1 && other.requests[0].headers["authorization"] == nil)
    }
}
