import CCurl
package import Contract
import Executors
import Glibc

/// The address policy where a proxy connects in our place.
extension TransferEngine {
    /// Resolves the target off the loop and judges its addresses, since the sockets show only the proxy's.
    ///
    /// - Returns: The address that the proxy is to be told in place of the name, so that it cannot resolve to another one;
    ///   nil where nothing is judged, or where a plain request through an HTTP proxy must carry the name.
    func resolveForProxy(_ request: Request) async throws(TransferError) -> IPAddress? {
        guard let proxy = configuration.proxy, !configuration.policy.allowsEverything else { return nil }
        guard let target = Authority(request.url) else { throw TransferError(.badJob, "the URL is not valid") }
        let addresses = try await resolve(target.host, within: request.connectTimeout)
        guard !addresses.isEmpty else {
            throw TransferError(
                .dns, "\(target.host) cannot be resolved, which the address policy needs even behind a proxy")
        }
        let own = currentHostAddresses()
        for address in addresses {
            if let kind = configuration.policy.refusal(of: address, hostAddresses: own) {
                throw .forbidden("\(address)", kind)
            }
        }
        let carriesName = proxy.lowercased().hasPrefix("http") || !proxy.contains("://")
        return target.isSecure || !carriesName ? addresses.first : nil
    }

    private static let proxySchemes = ["http", "https", "socks4", "socks4a", "socks5", "socks5h"]

    /// Throws a sentence if `proxy` is none that can be used.
    package static func check(proxy: String) throws(Failure) {
        let parts = curl_url()
        defer { curl_url_cleanup(parts) }
        let flags = UInt32(CURLU_NON_SUPPORT_SCHEME | CURLU_GUESS_SCHEME)
        var scheme: UnsafeMutablePointer<CChar>?
        defer { curl_free(scheme) }
        guard curl_url_set(parts, CURLUPART_URL, proxy, flags) == CURLUE_OK,
            curl_url_get(parts, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK, let scheme,
            proxySchemes.contains(String(cString: scheme))
        else {
            throw Failure(
                .proxy,
                "the proxy must be given as http://host:port, or with \(proxySchemes.dropFirst().joined(separator: ", "))"
            )
        }
    }

    private static func lookUp(_ host: String) -> [IPAddress] {
        var hints = addrinfo()
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        var list: UnsafeMutablePointer<addrinfo>?
        guard getaddrinfo(host, nil, &hints, &list) == 0 else { return [] }
        defer { freeaddrinfo(list) }
        var addresses: [IPAddress] = []
        var next = list
        while let entry = next {
            if let address = entry.pointee.ai_addr.flatMap({ IPAddress(UnsafePointer($0)) }) {
                addresses.append(address)
            }
            next = entry.pointee.ai_next
        }
        return addresses
    }

    /// A nameserver that does not answer is waited for no longer than a server that does not, though the thread that asks
    /// it cannot be called back.
    private func resolve(_ host: String, within limit: Duration) async throws(TransferError) -> [IPAddress] {
        if let address = IPAddress(host) { return [address] }
        let (answers, answer) = AsyncStream<[IPAddress]?>.makeStream()
        resolver.submit { answer.yield(Self.lookUp(host)) }
        let timeout = Task {
            try await Task.sleep(for: limit)
            answer.yield(nil)
        }
        defer { timeout.cancel() }
        for await found in answers {
            guard let found else {
                throw TransferError(.dns, "\(host) was not resolved within \(limit.components.seconds) s")
            }
            return found
        }
        throw .cancelled
    }
}
