/// The addresses that a transfer may connect to. By default only addresses of the public internet are allowed, so that
/// a job cannot reach what only the worker can reach: cloud metadata, databases, the host itself.
///
/// A pure value. The engine checks each address before it connects, and the address of each connection that it reuses.
package struct AddressPolicy: Sendable, Equatable {
    /// Allows the private ranges of RFC 1918 and the unique local addresses of RFC 4193, and nothing else.
    var allowsPrivate = false
    /// Networks that are always allowed. An IPv4 network also allows its addresses where IPv6 carries them.
    var allowed: [Network] = []
    var allowsEverything = false

    /// Allows everything: for `haul get`, whose user can reach all of it anyway.
    package static let unrestricted = AddressPolicy(allowsEverything: true)

    /// The default of a worker. `allowPrivate` allows the private ranges and unique local addresses; `allowed`
    /// overrides every refusal.
    package static func restricted(allowPrivate: Bool = false, allowed: [Network] = []) -> AddressPolicy {
        AddressPolicy(allowsPrivate: allowPrivate, allowed: allowed)
    }

    /// Why the address in `text` is refused; nil if it is allowed. Text that is not an address is refused.
    package func refusal(of text: String, hostAddresses: Set<IPAddress> = []) -> String? {
        if allowsEverything { return nil }
        guard let address = IPAddress(text) else { return "unknown" }
        return refusal(of: address, hostAddresses: hostAddresses)
    }

    /// Why `address` is refused: its kind, such as "loopback". nil if it is allowed.
    ///
    /// - Parameter hostAddresses: The addresses of this host's own interfaces.
    package func refusal(of address: IPAddress, hostAddresses: Set<IPAddress> = []) -> String? {
        guard !allowsEverything, !isListed(address) else { return nil }
        if hostAddresses.contains(address) { return "this host's own" }
        switch address {
        case .v4(let bits): return refusal(kind: Self.kind(v4: bits))
        case .v6(let bits):
            switch Self.embedded(in: bits) {
            case .carried(let inner): return refusal(of: .v4(inner), hostAddresses: hostAddresses)
            case .refused(let why): return why
            case .none: return refusal(kind: Self.kind(v6: bits))
            }
        }
    }

    private func isListed(_ address: IPAddress) -> Bool { allowed.contains { $0.contains(address) } }

    private func refusal(kind: Kind?) -> String? {
        kind.flatMap { allowsPrivate && $0.isPrivate ? nil : $0.name }
    }
}

extension AddressPolicy {
    private struct Kind: Sendable {
        let name: String
        var isPrivate = false
    }

    private struct Entry: Sendable {
        let range: Network
        let kind: Kind

        init(_ range: String, _ name: String, isPrivate: Bool = false) {
            self.range = Network(range)!
            kind = Kind(name: name, isPrivate: isPrivate)
        }
    }

    /// IANA's special-purpose registries and the clouds' metadata services. The first match gives the kind.
    private static let special: [Entry] = [
        Entry("0.0.0.0/8", "unspecified"),
        Entry("10.0.0.0/8", "private", isPrivate: true),
        Entry("100.64.0.0/10", "carrier-grade NAT"),
        Entry("127.0.0.0/8", "loopback"),
        Entry("168.63.129.16/32", "cloud metadata"),
        Entry("169.254.0.0/16", "link-local (cloud metadata)"),
        Entry("172.16.0.0/12", "private", isPrivate: true),
        Entry("192.0.0.0/24", "protocol assignment (cloud metadata)"),
        Entry("192.0.2.0/24", "documentation"),
        Entry("192.88.99.0/24", "6to4 relay"),
        Entry("192.168.0.0/16", "private", isPrivate: true),
        Entry("198.18.0.0/15", "benchmarking"),
        Entry("198.51.100.0/24", "documentation"),
        Entry("203.0.113.0/24", "documentation"),
        Entry("224.0.0.0/4", "multicast"),
        Entry("240.0.0.0/4", "reserved"),
        Entry("::/128", "unspecified"),
        Entry("::1/128", "loopback"),
        Entry("fd00:ec2::/32", "cloud metadata"),
        Entry("fd20:ce::254/128", "cloud metadata"),
        Entry("fd00:c1::a9fe:a9fe/128", "cloud metadata"),
        Entry("fd00:42::42/128", "cloud metadata"),
        Entry("fc00::/7", "unique local", isPrivate: true),
        Entry("fe80::/10", "link-local"),
        Entry("fec0::/10", "site-local"),
        Entry("ff00::/8", "multicast"),
        Entry("2001::/23", "special-purpose"),
        Entry("2001:db8::/32", "documentation"),
        Entry("3fff::/20", "documentation"),
    ]

    private static let globalUnicast = Network("2000::/3")!

    private static func kind(v4 bits: UInt32) -> Kind? {
        special.first { $0.range.contains(.v4(bits)) }?.kind
    }

    private static func kind(v6 bits: UInt128) -> Kind? {
        special.first { $0.range.contains(.v6(bits)) }?.kind
            ?? (globalUnicast.contains(.v6(bits)) ? nil : Kind(name: "reserved"))
    }
}

extension AddressPolicy {
    /// What an IPv6 address says about an IPv4 address that is embedded in it.
    private enum Embedded {
        /// Its packets go to this IPv4 address, so the IPv4 address decides.
        case carried(UInt32)
        case refused(String)
        case none
    }

    private static let mapped = Network("::ffff:0:0/96")!
    private static let translated = Network("::ffff:0:0:0/96")!
    private static let compatible = Network("::/96")!
    private static let nat64 = Network("64:ff9b::/96")!
    private static let localNAT64 = Network("64:ff9b:1::/48")!
    private static let sixToFour = Network("2002::/16")!
    private static let teredo = Network("2001::/32")!

    private static func embedded(in bits: UInt128) -> Embedded {
        let address = IPAddress.v6(bits)
        let low = UInt32(truncatingIfNeeded: bits)
        if mapped.contains(address) || nat64.contains(address) { return .carried(low) }
        if bits <= 1 { return .none }
        if compatible.contains(address) || translated.contains(address) { return .refused("IPv4 carried in IPv6") }
        if localNAT64.contains(address) { return .refused("local NAT64") }
        if sixToFour.contains(address) { return .refused("6to4") }
        if teredo.contains(address) { return .refused("Teredo") }
        // ISATAP (RFC 5214): the interface identifier [02]00:5efe:a.b.c.d below any prefix.
        if UInt32(truncatingIfNeeded: bits >> 32) & 0xFCFF_FFFF == 0x5EFE { return .refused("ISATAP") }
        return .none
    }
}

/// A block of addresses in CIDR notation.
package struct Network: Sendable, Hashable, CustomStringConvertible {
    package let network: IPAddress
    package let prefix: Int

    /// Reads `10.0.0.0/8`, `fd00::/8` or a single address; nil for anything else. Bits below the prefix are ignored.
    package init?(_ text: some StringProtocol) {
        let parts = text.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        guard let network = IPAddress(parts[0]) else { return nil }
        let width = if case .v4 = network { 32 } else { 128 }
        let prefix = parts.count == 1 ? width : Int(parts[1]) ?? -1
        guard (0...width).contains(prefix) else { return nil }
        (self.network, self.prefix) = (network, prefix)
    }

    package func contains(_ address: IPAddress) -> Bool {
        switch (network, address) {
        case (.v4(let a), .v4(let b)): prefix == 0 || (a ^ b) >> UInt32(32 - prefix) == 0
        case (.v6(let a), .v6(let b)): prefix == 0 || (a ^ b) >> UInt128(128 - prefix) == 0
        default: false
        }
    }

    package var description: String { "\(network)/\(prefix)" }
}
