import HaulContract
import HaulHTTP

/// The URLs of one job, and what is known of each.
///
/// Validators differ between mirrors by design. Only where a checksum is compared with the whole file, or where they tell the same
/// digest of it, may their bytes be mixed; otherwise they are alternatives, one after the other.
struct Mirrors: Sendable {
    struct Mirror: Sendable {
        let url: String
        /// nil if `url` is no http or https URL.
        let address: WebURL?
        /// Where its redirects led, for further connections.
        var landing: Landing?
        /// What it says of the entity, once it has said it.
        var entity: Entity?
        /// Whether it honours If-Range.
        var honoursIfRange = true
        /// It failed, or what it sent was no part of the entity.
        var isBad = false
        /// It does not say that its bytes are the other mirrors' ones.
        var isApart = false

        init(_ url: String) { (self.url, address) = (url, WebURL(url)) }

        /// The host whose connections count.
        var host: String { (landing?.url ?? address)?.hostAndPort ?? url }
    }

    private(set) var all: [Mirror]
    /// The one that is asked first.
    private(set) var current = 0
    private let mayMix: Bool

    /// `source` is the masked URL that bytes came from before.
    init(urls: [String], source: String?, mayMix: Bool) {
        all = urls.map(Mirror.init)
        self.mayMix = mayMix
        current = source.flatMap { source in urls.firstIndex { MaskedURL.text($0) == source } } ?? 0
    }

    subscript(index: Int) -> Mirror {
        get { all[index] }
        set { all[index] = newValue }
    }

    /// What the current one has said in an earlier run, and where it led then.
    mutating func note(_ entity: Entity, landing: String, _ cookies: CookieJar) {
        all[current].entity = entity
        guard let origin = all[current].address, let url = WebURL(landing), url.resource == entity.resource else {
            return
        }
        all[current].landing = Landing(url: url.withCredentials(of: origin), origin: origin, cookies: cookies)
    }

    /// The mirror for extra connection number `number`. `hasDigest` says that the current one has sent the digest of the whole.
    func forExtra(_ number: Int, hasDigest: Bool) -> Int {
        guard mayMix || hasDigest else { return current }
        let good = all.indices.filter { !all[$0].isBad && !all[$0].isApart }
        return good.isEmpty ? current : good[number % good.count]
    }

    /// Drops the mirror; false if it was the last good one.
    mutating func drop(_ index: Int) -> Bool {
        all[index].isBad = true
        guard let next = all.indices.first(where: { !all[$0].isBad }) else { return false }
        if index == current { current = next }
        return true
    }

    /// Whether a failure is the mirror's, so that another one may do better.
    static func isToBlame(for code: ErrorCode) -> Bool {
        switch code {
        case .dns, .connect, .tls, .stalled, .incomplete, .badResponse, .tooManyRedirects, .redirectForbidden,
            .remoteChanged, .checksumMismatch, .sizeMismatch, .wrongContentType, .tooSlow, .addressForbidden:
            true
        default: code.rawValue.hasPrefix("http_")
        }
    }
}
