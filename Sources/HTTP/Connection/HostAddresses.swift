import CHaulCurl
import Glibc
import HaulExecutors

/// The addresses of this host's interfaces. DHCP, containers and VPNs change them, so they expire after ten seconds.
struct HostAddresses {
    private static let lifetime: UInt64 = 10_000_000_000

    private var addresses: Set<IPAddress> = []
    private var expires: UInt64 = 0

    mutating func current() -> Set<IPAddress> {
        let now = monotonicNanoseconds()
        if now >= expires {
            addresses = Self.read()
            expires = now + Self.lifetime
        }
        return addresses
    }

    static func read() -> Set<IPAddress> {
        var list: UnsafeMutablePointer<ifaddrs>?
        guard getifaddrs(&list) == 0 else { return [] }
        defer { freeifaddrs(list) }
        var addresses: Set<IPAddress> = []
        var next = list
        while let entry = next {
            if let address = entry.pointee.ifa_addr.flatMap({ IPAddress(UnsafePointer($0)) }) {
                addresses.insert(address)
            }
            next = entry.pointee.ifa_next
        }
        return addresses
    }
}
