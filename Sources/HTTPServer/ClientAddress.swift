import Glibc

/// Where a client connects from: an IP address, or a unix socket of this machine.
package struct ClientAddress: Sendable, Hashable, CustomStringConvertible {
    /// 4 or 16 bytes in network byte order. Empty for a unix socket.
    private let bytes: [UInt8]

    /// A client of a unix socket.
    package static let unixSocket = ClientAddress(bytes: [])

    private init(bytes: [UInt8]) {
        // An IPv4 client of an IPv6 socket (RFC 4291 section 2.5.5.2).
        let isMapped = bytes.count == 16 && bytes.prefix(10).allSatisfy { $0 == 0 } && bytes[10...11] == [255, 255]
        self.bytes = isMapped ? Array(bytes.suffix(4)) : bytes
    }

    /// Reads an IPv4 or IPv6 address; nil for any other text.
    package init?(_ text: String) {
        var (four, six) = (in_addr(), in6_addr())
        if inet_pton(AF_INET, text, &four) == 1 {
            self.init(bytes: withUnsafeBytes(of: &four) { Array($0) })
        } else if inet_pton(AF_INET6, text, &six) == 1 {
            self.init(bytes: withUnsafeBytes(of: &six) { Array($0) })
        } else {
            return nil
        }
    }

    /// The address of the other end of a connected socket.
    init(peerOf socket: Int32) {
        var storage = sockaddr_storage()
        var size = socklen_t(MemoryLayout<sockaddr_storage>.size)
        let bytes: [UInt8] = withUnsafeMutablePointer(to: &storage) { pointer in
            let status = pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { getpeername(socket, $0, &size) }
            guard status == 0 else { return [] }
            let raw = UnsafeRawBufferPointer(start: pointer, count: MemoryLayout<sockaddr_storage>.size)
            // `sin_addr` and `sin6_addr` begin 4 and 8 bytes into their structures.
            switch Int32(pointer.pointee.ss_family) {
            case AF_INET: return Array(raw[4..<8])
            case AF_INET6: return Array(raw[8..<24])
            default: return []
            }
        }
        self.init(bytes: bytes)
    }

    /// The network that one client can be expected to have for itself: a /24 of IPv4, or a /64 of IPv6. Such a
    /// client can use any number of these addresses at no cost, so limits hold for the network.
    package var network: ClientNetwork {
        let prefix = bytes.prefix(bytes.count == 4 ? 3 : 8)
        return ClientNetwork(prefix: prefix.reduce(0) { $0 << 8 | UInt64($1) }, length: prefix.count)
    }

    package var description: String {
        guard !bytes.isEmpty else { return "unix" }
        var text = [CChar](repeating: 0, count: Int(INET6_ADDRSTRLEN))
        inet_ntop(bytes.count == 4 ? AF_INET : AF_INET6, bytes, &text, socklen_t(text.count))
        return String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}

/// A network of clients that share limits.
package struct ClientNetwork: Sendable, Hashable {
    fileprivate let prefix: UInt64
    fileprivate let length: Int
}
