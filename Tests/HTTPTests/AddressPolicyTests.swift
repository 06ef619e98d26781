import HaulContract
import HaulTestSupport
import Testing

@testable import HaulFileStore
@testable import HaulHTTP

@Suite("The address policy")
struct AddressPolicyTests {
    private static let refused = [
        "0.0.0.0", "0.1.2.3", "100.64.0.1", "100.127.255.255", "127.0.0.1", "127.255.255.254", "168.63.129.16",
        "169.254.0.1", "169.254.169.254", "192.0.0.1", "192.0.0.192", "192.0.2.1", "192.88.99.1", "198.18.0.1",
        "198.19.255.255", "198.51.100.7", "203.0.113.9", "224.0.0.1", "239.255.255.255", "240.0.0.1",
        "255.255.255.255", "::", "::1", "fe80::1", "febf::1", "fec0::1", "feff::1", "ff02::1", "fd00:ec2::254",
        "fd20:ce::254", "2001:db8::1", "2001:2::1", "3fff::1", "100::1", "5f00::1", "4000::1",
        // IPv4 addresses within IPv6 addresses.
        "::ffff:127.0.0.1", "::ffff:169.254.169.254", "::7f00:1", "::ffff:0:127.0.0.1", "64:ff9b::127.0.0.1",
        "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "64:ff9b:1:7f00:1::", "2002:7f00:1::", "2002:808:808::1", "2001::1",
        "2001:0:4136:e378:8000:63bf:80ff:fffe", "2600::5efe:127.0.0.1", "2600::200:5efe:7f00:1",
    ]
    private static let privates = [
        "10.0.0.1", "10.255.255.255", "172.16.0.1", "172.31.255.255", "192.168.0.1", "fc00::1", "fd12:3456::1",
        "::ffff:10.0.0.1", "64:ff9b::10.0.0.1",
    ]
    private static let open = [
        "1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255",
        "128.0.0.1", "168.63.129.15", "169.253.255.255", "172.15.255.255", "172.32.0.0", "192.0.1.1", "192.167.1.1",
        "198.17.255.255", "198.20.0.0", "223.255.255.255", "2606:4700::1111", "2a00:1450::1", "::ffff:8.8.8.8",
        "64:ff9b::8.8.8.8", "2001:4860:4860::8888", "3ffe::1",
    ]

    @Test("the policy refuses every address that is not on the public internet", arguments: refused + privates)
    func refuses(_ text: String) throws {
        #expect(AddressPolicy.restricted().refusal(of: try #require(IPAddress(text))) != nil)
    }

    @Test("the policy allows the public internet", arguments: open)
    func allows(_ text: String) throws {
        #expect(AddressPolicy.restricted().refusal(of: try #require(IPAddress(text))) == nil)
    }

    @Test("allow-private opens the private ranges", arguments: privates)
    func allowsPrivate(_ text: String) throws {
        #expect(AddressPolicy.restricted(allowPrivate: true).refusal(of: try #require(IPAddress(text))) == nil)
    }

    @Test("allow-private opens nothing but the private ranges", arguments: refused)
    func allowsOnlyPrivate(_ text: String) throws {
        #expect(AddressPolicy.restricted(allowPrivate: true).refusal(of: try #require(IPAddress(text))) != nil)
    }

    @Test(
        "an allowed range is open, and the adjacent addresses are refused",
        arguments: [
            ("127.0.0.0/8", "127.1.2.3", "169.254.0.1"), ("169.254.169.254", "169.254.169.254", "169.254.169.253"),
            ("fe80::/10", "fe80::5", "fec0::5"), ("10.1.0.0/16", "::ffff:10.1.2.3", "::ffff:10.2.2.3"),
            ("::1", "::1", "::"), ("64:ff9b:1::/48", "64:ff9b:1::7f00:1", "64:ff9b:2::1"),
            ("10.0.0.0/9", "10.127.255.255", "10.128.0.0"),
        ])
    func allowedRange(_ range: String, _ inside: String, _ outside: String) throws {
        let policy = AddressPolicy.restricted(allowed: [try #require(Network(range))])
        #expect(policy.refusal(of: try #require(IPAddress(inside))) == nil)
        #expect(policy.refusal(of: try #require(IPAddress(outside))) != nil)
    }

    @Test("the host's own addresses are refused, even IPv4-mapped ones, unless the operator allows them")
    func ownAddresses() throws {
        let own: Set<IPAddress> = [.v4(0x0808_0808)]
        let policy = AddressPolicy.restricted(allowPrivate: true)
        #expect(policy.refusal(of: .v4(0x0808_0808), hostAddresses: own) == "this host's own")
        #expect(policy.refusal(of: try #require(IPAddress("::ffff:8.8.8.8")), hostAddresses: own) != nil)
        #expect(policy.refusal(of: .v4(0x0808_0809), hostAddresses: own) == nil)
        let listed = AddressPolicy.restricted(allowed: [try #require(Network("8.8.8.8"))])
        #expect(listed.refusal(of: .v4(0x0808_0808), hostAddresses: own) == nil)
        #expect(HostAddresses.read().contains(.v4(0x7F00_0001)))
    }

    @Test(
        "an invalid range is refused",
        arguments: [
            "", "/", "10.0.0.0/33", "::/129", "10.0.0/8", "10.0.0.0/-1", "10.0.0.0/x", "example.com", "1.2.3.4/",
        ])
    func badRange(_ text: String) { #expect(Network(text) == nil) }

    @Test("the engine does not connect to a refused address")
    func refusedConnect() async throws {
        let server = RawServer { $0.waitForClose() }
        defer { server.stop() }
        let engine = TransferEngine(configuration: .init())
        for host in ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "2130706433", "0x7f.1"] {
            let error = await thrown { () async throws(TransferError) in
                try await engine.start(HTTPRequest(url: "http://\(host):\(server.port)/"))
            }
            #expect(error?.code == .addressForbidden, "\(host)")
            // A name's address is for the log alone.
            guard case .failed(let failure)? = error, let detail = failure.detail else {
                Issue.record("no detail for \(host)")
                continue
            }
            #expect(detail.contains("127.0.0.1") || detail == "::1" || detail.contains("7f00:1"), "\(detail)")
            if host == "localhost" { #expect(!failure.message.contains(detail), "\(failure.message)") }
        }
        #expect(server.connections == 0)
    }

    @Test("a kept connection to an address that has become forbidden is not reused")
    func refusedReuse() async throws {
        let server = RawServer { connection in
            while connection.readRequest() != nil { connection.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") }
        }
        defer { server.stop() }
        let engine = localEngine()
        _ = try await fetch(engine, localRequest(server.url))
        await engine.restrict(to: .restricted())
        let error = await thrown { () async throws(TransferError) in
            try await engine.start(localRequest(server.url))
        }
        #expect(error?.code == .addressForbidden)
        #expect(error?.message?.contains("127.0.0.1") == true)
        #expect(server.connections == 1)
    }
}

extension TransferEngine {
    fileprivate func restrict(to policy: AddressPolicy) { configuration.policy = policy }
}
