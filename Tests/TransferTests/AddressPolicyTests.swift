import Testing
import Transfer

@Suite struct AddressPolicyTests {
    @Test(
        "what is near this host is refused, in every form",
        arguments: [
            "127.0.0.1", "127.9.9.9", "10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.1.1", "169.254.169.254",
            "169.254.1.1",
            "168.63.129.16", "192.0.0.192", "100.64.0.1", "100.127.255.255", "224.0.0.1", "0.0.0.0", "0.1.2.3",
            "240.0.0.1",
            "255.255.255.255", "198.18.0.1", "198.19.255.255", "::1", "::", "fe80::1", "fc00::1", "fd00:ec2::254",
            "fec0::1", "ff02::1",
            "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "64:ff9b::127.0.0.1", "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::10.0.0.1",
            "2002:7f00:1::", "2002:a00:1::1", "2001:0:7f00:1::", "2001:0:4136:e378:8000:63bf:80ff:fffe", "fe80::1%eth0",
        ])
    func refused(_ address: String) { #expect(AddressPolicy.restricted().refusal(of: address) != nil) }

    @Test(
        "public addresses are allowed",
        arguments: [
            "1.1.1.1", "172.32.0.1", "192.169.0.1", "100.128.0.1", "198.20.0.1", "2606:4700::1", "64:ff9b::1.1.1.1",
            "2002:101:101::1",
        ])
    func allowed(_ address: String) { #expect(AddressPolicy.restricted().refusal(of: address) == nil) }

    @Test("--allow-private opens the private ranges and nothing else") func allowPrivate() {
        let policy = AddressPolicy.restricted(allowPrivate: true)
        for address in ["10.0.0.1", "192.168.0.1", "fd12::1"] { #expect(policy.refusal(of: address) == nil) }
        for address in ["127.0.0.1", "169.254.169.254", "fd00:ec2::254", "100.64.0.1"] {
            #expect(policy.refusal(of: address) != nil)
        }
    }

    @Test("--allow-address wins over everything") func allowAddress() throws {
        let policy = AddressPolicy.restricted(allowed: [
            try #require(Network("127.0.0.0/8")), try #require(Network("fd00::/8")),
        ])
        #expect(policy.refusal(of: "127.0.0.1") == nil)
        #expect(policy.refusal(of: "::ffff:127.0.0.1") == nil)
        #expect(policy.refusal(of: "fd00:ec2::254") == nil)
        #expect(policy.refusal(of: "::1") != nil)
    }

    @Test("what is no network is refused", arguments: ["", "10.0.0.0/33", "10.0.0/8", "x", "::/129", "10.0.0.0/-1"])
    func noNetwork(_ text: String) { #expect(Network(text) == nil) }
}
