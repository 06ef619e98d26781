import CHaulCurl
package import HaulContract

/// The address policy where a proxy connects in our place.
extension TransferEngine {
    /// Resolves the target off the loop and checks its addresses, since the sockets show only the proxy's.
    ///
    /// - Returns: The address that the proxy is to be told in place of the name, so that it cannot resolve to another one;
    ///   nil where nothing is checked, or where a plain request through an HTTP proxy must carry the name.
    func resolveForProxy(_ request: Request) async throws(TransferError) -> IPAddress? {
        guard let proxy = configuration.reaching(request.url).proxy, !configuration.policy.allowsEverything else {
            return nil
        }
        guard let target = Authority(request.url) else { throw TransferError(.badJob, "the URL is not valid") }
        let addresses: [IPAddress]
        do {
            addresses = try await resolve(target.host, within: request.connectTimeout)
        } catch {
            guard case .failed(var failure) = error else { throw error }
            failure.message += ", as the address policy needs it even behind a proxy"
            throw .failed(failure)
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
}
