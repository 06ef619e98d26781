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
