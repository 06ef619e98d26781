import CHaulCurl
import Glibc
import HaulContract
import HaulExecutors

/// Names of hosts, looked up beside libcurl: it keeps to itself what the resolver said.
extension TransferEngine {
    private enum Answer: Sendable {
        case addresses([IPAddress])
        /// There is no such name, or it has no address.
        case unknown
        /// The resolver does not know now; it may know later.
        case trouble
        case silence
    }

    /// The addresses of `host`, one at least.
    ///
    /// A nameserver that does not answer is waited for no longer than a server that does not, though the thread that asks it
    /// cannot be called back.
    func resolve(_ host: String, within limit: Duration) async throws(TransferError) -> [IPAddress] {
        if let address = IPAddress(host) { return [address] }
        let (answers, answer) = AsyncStream<Answer>.makeStream()
        resolver.submit { answer.yield(Self.lookUp(host)) }
        let timeout = Task {
            try await Task.sleep(for: limit)
            answer.yield(.silence)
        }
        defer { timeout.cancel() }
        for await found in answers {
            switch found {
            case .addresses(let addresses): return addresses
            case .unknown:
                throw TransferError(
                    .dns, "there is no host \(host), or it has no address: check the name", isFinal: true)
            case .trouble: throw .unresolved(host)
            case .silence:
                throw TransferError(.dns, "\(host) was not resolved within \(limit.components.seconds) s")
            }
        }
        throw .cancelled
    }

    /// What libcurl could not resolve, looked up once more: only the resolver tells whether there is no such name at all, or
    /// whether it had trouble that may pass.
    func explainUnresolved(_ request: Request, _ error: TransferError) async -> TransferError {
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

    private static func lookUp(_ host: String) -> Answer {
        var hints = addrinfo()
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        var list: UnsafeMutablePointer<addrinfo>?
        switch getaddrinfo(host, nil, &hints, &list) {
        case 0: break
        case EAI_NONAME, noData: return .unknown
        default: return .trouble
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

    /// EAI_NODATA of netdb.h, which Glibc shows to GNU sources only: the name is there, without an address.
    private static let noData: Int32 = -5
}
