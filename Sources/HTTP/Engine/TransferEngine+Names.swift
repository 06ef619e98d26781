import CHaulCurl
import Glibc
import HaulContract
import HaulExecutors

/// Resolves host names apart from libcurl, which does not report what the resolver said.
extension TransferEngine {
    private enum Resolution: Sendable {
        case addresses([IPAddress])
        /// The name does not exist, or has no address.
        case unknown
        /// A temporary failure of the resolver.
        case serverFailure
        case timedOut
    }

    /// The addresses of `host`, at least one.
    ///
    /// Waits for at most `limit`, although the thread that asks the name server cannot be interrupted.
    ///
    /// - Throws: `dns`, or `cancelled`.
    func resolve(_ host: String, within limit: Duration) async throws(TransferError) -> [IPAddress] {
        if let address = IPAddress(host) { return [address] }
        let (resolutions, output) = AsyncStream<Resolution>.makeStream()
        resolver.submit { output.yield(Self.lookUp(host)) }
        let timeout = Task {
            try await Task.sleep(for: limit)
            output.yield(.timedOut)
        }
        defer { timeout.cancel() }
        for await resolution in resolutions {
            switch resolution {
            case .addresses(let addresses): return addresses
            case .unknown:
                throw TransferError(
                    .dns, "the host \(host) does not exist, or has no address: check the name", isFinal: true)
            case .serverFailure: throw .unresolved(host)
            case .timedOut:
                throw TransferError(.dns, "\(host) was not resolved within \(limit.components.seconds) s")
            }
        }
        throw .cancelled
    }

    /// Looks up once more what libcurl could not resolve, and returns the more exact error. Only the resolver knows
    /// whether the name does not exist or whether the failure is temporary.
    func explainUnresolved(_ request: HTTPRequest, _ error: TransferError) async -> TransferError {
        guard case .failed(let failure) = error, failure.code == .dns, let host = Authority(request.url)?.host else {
            return error
        }
        do {
            _ = try await resolve(host, within: request.connectTimeout)
            return error
        } catch {
            return error
        }
    }

    private static func lookUp(_ host: String) -> Resolution {
        var hints = addrinfo()
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        var list: UnsafeMutablePointer<addrinfo>?
        switch getaddrinfo(host, nil, &hints, &list) {
        case 0: break
        case EAI_NONAME, noData: return .unknown
        default: return .serverFailure
        }
        defer { freeaddrinfo(list) }
        var addresses: [IPAddress] = []
        var next = list
        while let entry = next {
            if let address = entry.pointee.ai_addr.flatMap({ IPAddress(UnsafePointer($0)) }) {
                addresses.append(address)
            }
            next = entry.pointee.ai_next
        }
        return addresses.isEmpty ? .unknown : .addresses(addresses)
    }

    /// EAI_NODATA of netdb.h, which Glibc declares for GNU sources only: the name exists, but has no address.
    private static let noData: Int32 = -5
}

/// The servers that are known to speak only HTTP/2.
struct HTTP2Origins {
    /// More servers than a worker is likely to use. At this number the set is cleared.
    private static let limit = 1000

    private var origins: Set<String> = []

    func contains(_ url: String) -> Bool { !origins.isEmpty && Self.origin(url).map(origins.contains) ?? false }

    mutating func insert(_ url: String) {
        if origins.count >= Self.limit { origins.removeAll() }
        if let origin = Self.origin(url) { origins.insert(origin) }
    }

    private static func origin(_ url: String) -> String? {
        Authority(url).flatMap { $0.isSecure ? "\($0.host.lowercased()):\($0.port)" : nil }
    }
}
