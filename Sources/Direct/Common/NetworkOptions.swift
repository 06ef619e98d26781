import ArgumentParser
import HaulHTTP
import HaulTerminal

/// The options for how servers are reached.
package struct NetworkOptions: ParsableArguments {
    @Flag(name: [.customShort("4"), .customLong("ipv4")], help: "Connect to IPv4 addresses only.") var ipv4 = false
    @Flag(name: [.customShort("6"), .customLong("ipv6")], help: "Connect to IPv6 addresses only.") var ipv6 = false
    @Option(help: "HOST:PORT:ADDRESS: use this address instead of asking the resolver. May be repeated.")
    var resolve: [String] = []
    @Option(help: "HOST:PORT:HOST:PORT: connect to the second instead of the first. May be repeated.")
    var connectTo: [String] = []
    @Option(help: "Connect from this interface or address of this host.") var interface: String?
    @Option(help: "Send all requests to this Unix socket.", completion: .file()) var unixSocket: String?
    @Option(
        help:
            "sha256//DIGEST of a public key in base 64: a server must have that key, and its certificate need not be trusted."
    )
    var pin: String?

    package init() {}

    package func validate() throws {
        guard !ipv4 || !ipv6 else { throw ValidationError("-4 and -6 exclude each other: without them both are used.") }
        // libcurl ignores what it cannot read.
        for entry in resolve {
            let parts = entry.split(separator: ":", maxSplits: 2, omittingEmptySubsequences: false)
            guard parts.count == 3, !parts[0].isEmpty, UInt16(parts[1]) != nil,
                parts[2].split(separator: ",").allSatisfy({ Self.address($0) != nil }), !parts[2].isEmpty
            else { throw ValidationError("--resolve must be HOST:PORT:ADDRESS, not \(entry)") }
        }
        for entry in connectTo where entry.split(separator: ":", omittingEmptySubsequences: false).count < 4 {
            throw ValidationError("--connect-to must be HOST:PORT:HOST:PORT, not \(entry)")
        }
        if let pin {
            let keys = pin.split(separator: ";", omittingEmptySubsequences: false)
            // 32 bytes in base 64.
            guard !keys.isEmpty, keys.allSatisfy({ $0.hasPrefix("sha256//") && $0.utf8.count == 52 }) else {
                throw ValidationError("--pin must be sha256// and 44 characters of base 64, not \(pin)")
            }
        }
    }

    /// The given options.
    var names: [String] {
        [
            ("-4", ipv4), ("-6", ipv6), ("--resolve", !resolve.isEmpty), ("--connect-to", !connectTo.isEmpty),
            ("--interface", interface != nil), ("--unix-socket", unixSocket != nil), ("--pin", pin != nil),
        ].filter(\.1).map(\.0)
    }

    private static func address(_ text: Substring) -> IPAddress? {
        IPAddress(text.hasPrefix("[") ? text.dropFirst().dropLast() : text)
    }

    func apply(to configuration: inout TransferEngine.Configuration) {
        configuration.addressFamily = ipv4 ? .v4 : ipv6 ? .v6 : nil
        (configuration.addresses, configuration.connectTo) = (resolve, connectTo)
        (configuration.interface, configuration.unixSocket, configuration.pin) = (interface, unixSocket, pin)
    }
}
