import Glibc

/// A worker's answer about its health.
struct HealthResponse {
    let status: Int
    /// The reasons for the status, one on a line.
    let text: String

    /// nil if the bytes do not begin with the whole head of an HTTP/1.x response. The rest is the body, which the end
    /// of the connection ends (HTTP/1.0).
    init?(_ bytes: [UInt8]) {
        let text = String(decoding: bytes, as: UTF8.self)
        guard text.hasPrefix("HTTP/1."), let end = text.firstRange(of: "\r\n\r\n") else { return nil }
        let words = text.prefix { !$0.isNewline }.split(separator: " ")
        guard words.count >= 2, let status = Int(words[1]) else { return nil }
        self.status = status
        let body = text[end.upperBound...]
        self.text = body.split(whereSeparator: \.isNewline).joined(separator: "\n")
    }
}

/// The address at which a worker answers. The calls block: the command does nothing else.
struct HealthEndpoint {
    struct Unreachable: Error { let reason: String }

    private enum Kind { case port(host: String, String), path(String) }
    private let kind: Kind
    /// More bytes than any answer has.
    private static let maxBytes = 65_536

    /// Reads an address as `--http` takes it. An address that means all interfaces becomes the loopback address.
    init?(_ text: String) {
        if text.hasPrefix("unix:") {
            let path = String(text.dropFirst("unix:".count))
            guard !path.isEmpty, path.utf8.count < MemoryLayout.size(ofValue: sockaddr_un().sun_path) else {
                return nil
            }
            kind = .path(path)
            return
        }
        guard let colon = text.lastIndex(of: ":") else { return nil }
        let port = String(text[text.index(after: colon)...])
        var host = String(text[..<colon])
        guard UInt16(port) != nil else { return nil }
        if host.hasPrefix("["), host.hasSuffix("]") {
            host = String(host.dropFirst().dropLast())
        } else if host.contains(":") {
            return nil
        }
        let local = ["": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"]
        kind = .port(host: local[host] ?? host, port)
    }

    /// - Parameter seconds: The limit for connecting and for each read.
    /// - Throws: `Unreachable` if there is no answer in time, or if it is not HTTP.
    func get(_ path: String, seconds: Int) throws(Unreachable) -> HealthResponse {
        let descriptor = try connect(seconds: seconds)
        defer { close(descriptor) }
        let request = Array("GET \(path) HTTP/1.0\r\nHost: localhost\r\nConnection: close\r\n\r\n".utf8)
        guard send(descriptor, request, request.count, Int32(MSG_NOSIGNAL)) == request.count else {
            throw Self.failure()
        }
        var bytes: [UInt8] = []
        var block = [UInt8](repeating: 0, count: 4096)
        while bytes.count < Self.maxBytes {
            let count = recv(descriptor, &block, block.count, 0)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw Self.failure() }
            guard count > 0 else { break }
            bytes += block[..<count]
        }
        guard let response = HealthResponse(bytes) else {
            throw Unreachable(reason: "what answers there is not a worker of Haul")
        }
        return response
    }

    private func connect(seconds: Int) throws(Unreachable) -> Int32 {
        switch kind {
        case .path(let path):
            var address = sockaddr_un()
            address.sun_family = sa_family_t(AF_UNIX)
            withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
            return try withUnsafeBytes(of: address) { bytes throws(Unreachable) in
                try Self.connect(AF_UNIX, bytes, seconds: seconds)
            }
        case .port(let host, let port):
            var hints = addrinfo()
            hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
            var list: UnsafeMutablePointer<addrinfo>?
            let status = getaddrinfo(host, port, &hints, &list)
            guard status == 0, let first = list else {
                throw Unreachable(reason: String(cString: gai_strerror(status)))
            }
            defer { freeaddrinfo(first) }
            let entry = first.pointee
            let bytes = UnsafeRawBufferPointer(start: entry.ai_addr, count: Int(entry.ai_addrlen))
            return try Self.connect(entry.ai_family, bytes, seconds: seconds)
        }
    }

    private static func connect(
        _ family: Int32, _ address: UnsafeRawBufferPointer, seconds: Int
    ) throws(Unreachable) -> Int32 {
        let descriptor = socket(family, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { throw failure() }
        // On Linux SO_SNDTIMEO also limits connect(2).
        var time = timeval(tv_sec: seconds, tv_usec: 0)
        for option in [SO_RCVTIMEO, SO_SNDTIMEO] {
            setsockopt(descriptor, SOL_SOCKET, option, &time, socklen_t(MemoryLayout<timeval>.size))
        }
        let status = Glibc.connect(
            descriptor, address.baseAddress?.assumingMemoryBound(to: sockaddr.self), socklen_t(address.count))
        guard status == 0 else {
            let error = failure()
            close(descriptor)
            throw error
        }
        return descriptor
    }

    private static func failure() -> Unreachable {
        let isLate = errno == EAGAIN || errno == EINPROGRESS
        return Unreachable(reason: isLate ? "it is silent" : String(cString: strerror(errno)))
    }
}
