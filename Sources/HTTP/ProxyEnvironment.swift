/// The proxies that a person's environment names, read as curl reads them: `http_proxy`, `https_proxy`, `all_proxy` and
/// `no_proxy`. All but `http_proxy` may be in capitals; that one would be a request's header to a CGI program.
package struct ProxyEnvironment: Sendable, Equatable {
    private let http: String?
    private let https: String?
    private let all: String?
    /// Hosts, domains and networks that are reached without a proxy; "*" stands for all of them.
    private let exceptions: [String]

    /// `variable` is the value of a variable of the environment, nil if it is not set.
    package init(_ variable: (String) -> String?) {
        func value(_ names: String...) -> String? { names.lazy.compactMap(variable).first { !$0.isEmpty } }
        http = value("http_proxy")
        https = value("https_proxy", "HTTPS_PROXY")
        all = value("all_proxy", "ALL_PROXY")
        exceptions = (value("no_proxy", "NO_PROXY") ?? "").split { $0 == "," || $0 == " " }.map { entry in
            String(entry.lowercased().drop { $0 == "." }).withoutFinalDot
        }
    }

    /// The proxies that are named, for whoever checks them before they are used.
    package var named: [String] { [http, https, all].compactMap(\.self) }

    /// The proxy for a URL; nil for none.
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
