import CHaulCurl

/// The host and port of a URL as libcurl reads them. So our checks apply to the server that libcurl connects to.
struct Authority {
    let host: String
    let port: Int
    let isSecure: Bool

    init?(_ url: String) {
        guard let parts = curl_url() else { return nil }
        defer { curl_url_cleanup(parts) }
        guard curl_url_set(parts, CURLUPART_URL, url, 0) == CURLUE_OK,
            let scheme = Self.part(parts, CURLUPART_SCHEME), let host = Self.part(parts, CURLUPART_HOST),
            let port = Self.part(parts, CURLUPART_PORT).flatMap(Int.init)
        else { return nil }
        // libcurl gives an IPv6 address in brackets.
        self.host = host.hasPrefix("[") ? String(host.dropFirst().dropLast()) : host
        self.port = port
        isSecure = scheme == "https"
    }

    var isNumeric: Bool { IPAddress(host) != nil }

    private static func part(_ parts: OpaquePointer, _ part: CURLUPart) -> String? {
        var text: UnsafeMutablePointer<CChar>?
        guard curl_url_get(parts, part, &text, UInt32(CURLU_DEFAULT_PORT)) == CURLUE_OK, let text else { return nil }
        defer { curl_free(text) }
        return String(cString: text)
    }
}
