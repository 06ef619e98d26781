/// The proxies in a person's environment, read as curl reads them: `http_proxy`, `https_proxy`, `all_proxy` and
/// `no_proxy`. All but `http_proxy` may be in capitals: a CGI program gets a request's `Proxy` header as `HTTP_PROXY`.
package struct ProxyEnvironment: Sendable, Equatable {
    private let http: String?
    private let https: String?
    private let all: String?
    /// Hosts, domains and networks that are reached without a proxy; a single "*" means all of them.
    private let exceptions: [String]

    /// - Parameter variable: Returns the value of an environment variable; nil if it is not set.
    package init(_ variable: (String) -> String?) {
        func value(_ names: String...) -> String? { names.lazy.compactMap(variable).first { !$0.isEmpty } }
        http = value("http_proxy")
        https = value("https_proxy", "HTTPS_PROXY")
        all = value("all_proxy", "ALL_PROXY")
        exceptions = (value("no_proxy", "NO_PROXY") ?? "").split { $0 == "," || $0 == " " }.map { entry in
            String(entry.lowercased().drop { $0 == "." }).withoutFinalDot
        }
    }

    /// All proxies that are named, so that they can be checked before they are used.
    package var named: [String] { [http, https, all].compactMap(\.self) }

    /// No proxy is named, so no URL has to be read to find one.
    package var namesNone: Bool { http == nil && https == nil && all == nil }

    /// The proxy for a URL; nil to connect directly.
    package func proxy(for url: WebURL) -> String? {
        guard let proxy = (url.scheme == "https" ? https : http) ?? all, !isException(url.host) else { return nil }
        return proxy
    }

    private func isException(_ host: String) -> Bool {
        if exceptions == ["*"] { return true }
        let bare = host.hasPrefix("[") ? String(host.dropFirst().dropLast()) : host.withoutFinalDot
        if let address = IPAddress(bare) {
            return exceptions.contains { Network($0)?.contains(address) ?? false }
        }
        return exceptions.contains { bare == $0 || bare.hasSuffix("." + $0) }
    }
}

extension String {
    fileprivate var withoutFinalDot: String { hasSuffix(".") ? String(dropLast()) : self }
}
