import CHaulCurl
package import HaulContract

/// The address policy where a proxy connects to the server.
extension TransferEngine {
    /// Resolves the target off the loop and checks its addresses, since our sockets show only the proxy's address.
    ///
    /// - Returns: The address to send to the proxy instead of the name, so that the proxy cannot resolve the name to
    ///   another address. nil if nothing is checked, or if a plain request through an HTTP proxy must carry the name.
    func resolveForProxy(_ request: HTTPRequest) async throws(TransferError) -> IPAddress? {
        guard let proxy = configuration.reaching(request.url).proxy, !configuration.policy.allowsEverything else {
            return nil
        }
        guard let target = Authority(request.url) else { throw TransferError(.badJob, "the URL is not valid") }
        let addresses: [IPAddress]
        do {
            addresses = try await resolve(target.host, within: request.connectTimeout)
        } catch {
            guard case .failed(var failure) = error else { throw error }
            failure.message += ", which the address policy requires even behind a proxy"
            throw .failed(failure)
        }
        let own = currentHostAddresses()
        for address in addresses {
            if let kind = configuration.policy.refusal(of: address, hostAddresses: own) {
                throw .forbidden(address, kind, of: request.url)
            }
        }
        let carriesName = proxy.lowercased().hasPrefix("http") || !proxy.contains("://")
        return target.isSecure || !carriesName ? addresses.first : nil
    }

    private static let proxySchemes = ["http", "https", "socks4", "socks4a", "socks5", "socks5h"]

    /// Checks the URL of a proxy.
    ///
    /// - Throws: `proxy` with a sentence for the operator, if `proxy` cannot be used.
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
}
