import Glibc

/// An IP address with the length of a network's prefix, in 16 bytes; IPv4 as ::ffff:a.b.c.d.
package struct Network: Sendable, Hashable {
    let bytes: [UInt8]
    /// Bits of `bytes` that count.
    let prefix: Int

    /// `10.0.0.0/8`, `fd00::/8`, or a bare address; nil if it is none.
    package init?(_ text: String) {
        let parts = text.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        guard let (bytes, isV4) = Self.parse(String(parts[0])) else { return nil }
        let width = isV4 ? 32 : 128
        guard let length = parts.count == 1 ? width : Int(parts[1]), (0...width).contains(length) else { return nil }
        self.bytes = bytes
        prefix = length + (isV4 ? 96 : 0)
    }

    init(bytes: [UInt8]) {
        self.bytes = bytes
        prefix = 128
    }

    func contains(_ address: [UInt8]) -> Bool {
        let whole = prefix / 8
        guard bytes[..<whole] == address[..<whole] else { return false }
        guard prefix % 8 != 0 else { return true }
        let mask = UInt8(truncatingIfNeeded: 0xff00 >> (prefix % 8))
        return bytes[whole] & mask == address[whole] & mask
    }

    /// 16 bytes, and whether the text was IPv4.
    static func parse(_ text: String) -> (bytes: [UInt8], isV4: Bool)? {
        var v4 = in_addr()
        if inet_pton(AF_INET, text, &v4) == 1 {
            return (mapped + withUnsafeBytes(of: &v4) { Array($0) }, true)
        }
        var v6 = in6_addr()
        guard inet_pton(AF_INET6, text, &v6) == 1 else { return nil }
        return (withUnsafeBytes(of: &v6) { Array($0) }, false)
    }

    static let mapped = [UInt8](repeating: 0, count: 10) + [0xff, 0xff]
}

/// Which addresses a transfer may connect to. A job is hostile input: what is near this host is refused by default.
package struct AddressPolicy: Sendable {
    private let refused: [(network: Network, name: String)]
    private let allowed: [Network]

    /// Everything: for `haul get`, whose user could reach it anyway.
    package static let unrestricted = AddressPolicy(refused: [], allowed: [])

    /// The default of a worker. `allowPrivate` opens the private ranges and ULA; `allowed` wins over everything.
    package static func restricted(allowPrivate: Bool = false, allowed: [Network] = []) -> AddressPolicy {
        let named = always + (allowPrivate ? [] : privateRanges)
        let networks = named.flatMap { name, texts in texts.map { (network: Network($0)!, name: name) } }
        let own = hostAddresses().map { (network: $0, name: "this host's own") }
        return AddressPolicy(refused: networks + own, allowed: allowed)
    }

    /// nil if the address (IPv4 or IPv6 text) may be connected to, else the kind of address that it is.
    package func refusal(of text: String) -> String? {
        guard let address = Network.parse(text.split(separator: "%").first.map(String.init) ?? text) else {
            return refused.isEmpty ? nil : "unknown"
        }
        if allowed.contains(where: { $0.contains(address.bytes) }) { return nil }
        for form in [address.bytes] + Self.embedded(in: address.bytes) {
            if form != address.bytes, allowed.contains(where: { $0.contains(form) }) { return nil }
            if let hit = refused.first(where: { $0.network.contains(form) }) { return hit.name }
        }
        return nil
    }

    private static let privateRanges: [(String, [String])] = [
        ("private", ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"])
    ]

    private static let always: [(String, [String])] = [
        ("metadata", ["169.254.169.254", "168.63.129.16", "192.0.0.0/24", "fd00:ec2::254"]),
        ("loopback", ["127.0.0.0/8", "::1"]),
        ("unspecified", ["0.0.0.0/8", "::"]),
        ("link-local", ["169.254.0.0/16", "fe80::/10"]),
        ("CGNAT", ["100.64.0.0/10"]),
        ("multicast", ["224.0.0.0/4", "ff00::/8"]),
        (
            "reserved",
            [
                "240.0.0.0/4", "198.18.0.0/15", "192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "100::/64",
                "2001:db8::/32",
            ]
        ),
        ("site-local", ["fec0::/10"]),
    ]

    /// The IPv4 addresses within an IPv6 one: mapped ones are equal by form; compatible, NAT64, 6to4 and Teredo ones.
    private static func embedded(in address: [UInt8]) -> [[UInt8]] {
        func v4(_ bytes: some Sequence<UInt8>) -> [UInt8] { Network.mapped + Array(bytes) }
        let zero = [UInt8](repeating: 0, count: 12)
        var forms: [[UInt8]] = []
        if address[..<12] == zero[...], address[12...] != [0, 0, 0, 0], address[12...] != [0, 0, 0, 1] {
            forms.append(v4(address[12...]))
        }
        if Network("64:ff9b::/96")!.contains(address) || Network("64:ff9b:1::/48")!.contains(address) {
            forms.append(v4(address[12...]))
        }
        if address[..<2] == [0x20, 0x02] { forms.append(v4(address[2..<6])) }
        if address[..<4] == [0x20, 0x01, 0, 0] {
            forms.append(v4(address[4..<8]))
            forms.append(v4(address[12...].map { ~$0 }))
        }
        return forms
    }

    private static func hostAddresses() -> [Network] {
        var list: UnsafeMutablePointer<ifaddrs>?
        guard getifaddrs(&list) == 0, let first = list else { return [] }
        defer { freeifaddrs(first) }
        return sequence(first: first, next: { $0.pointee.ifa_next }).compactMap { entry in
            entry.pointee.ifa_addr.flatMap { text(of: $0) }.flatMap { Network.parse($0) }.map {
                Network(bytes: $0.bytes)
            }
        }
    }

    /// The address as text; nil if it is neither IPv4 nor IPv6.
    static func text(of address: UnsafePointer<sockaddr>) -> String? {
        var buffer = [CChar](repeating: 0, count: Int(INET6_ADDRSTRLEN))
        let raw = UnsafeRawPointer(address)
        switch Int32(address.pointee.sa_family) {
        case AF_INET: inet_ntop(AF_INET, raw + MemoryLayout<sockaddr_in>.offset(of: \.sin_addr)!, &buffer, 46)
        case AF_INET6: inet_ntop(AF_INET6, raw + MemoryLayout<sockaddr_in6>.offset(of: \.sin6_addr)!, &buffer, 46)
        default: return nil
        }
        return String(decoding: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}
