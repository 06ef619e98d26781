import HaulContract
import HaulHTTP

/// The URLs of one job, and what is known about each.
///
/// Validators differ between mirrors by design. So bytes of several mirrors may be mixed only if the job has a
/// checksum, or if the mirrors send the same digest of the whole. Otherwise the mirrors are tried one after the other.
struct Mirrors: Sendable {
    struct Mirror: Sendable {
        let url: String
        /// nil if `url` is neither a valid http or https URL nor that of an object.
        let address: WebURL?
        /// Where its redirects led, for further connections.
        var finalURL: FinalURL?
        /// The entity as this mirror describes it; nil before its first response.
        var entity: Entity?
        /// Whether it honours If-Range.
        var honoursIfRange = true
        /// The mirror failed, or sent something that does not belong to the entity.
        var isBad = false
        /// The mirror does not send the digest that would prove its bytes to be the same as other mirrors'.
        var isUnverifiable = false

        init(_ url: String) { (self.url, address) = (url, WebURL(url) ?? WebURL.object(url)) }

        /// The host whose limit counts its connections.
        var host: String { (finalURL?.url ?? address)?.hostAndPort ?? url }
    }

    private(set) var all: [Mirror]
    /// The index of the mirror that is requested first.
    private(set) var current = 0
    private let mayMix: Bool

    /// - Parameter record: The bytes so far. The URL from which they came is requested first.
    init(urls: [String], record: (any SourcedRecord)?, mayMix: Bool) {
        all = urls.map(Mirror.init)
        self.mayMix = mayMix
        guard let record else { return }
        let origins = all.map { $0.origin(of: record) }
        current = origins.firstIndex(of: .same) ?? origins.firstIndex(of: .unknown) ?? 0
    }

    subscript(index: Int) -> Mirror {
        get { all[index] }
        set { all[index] = newValue }
    }

    /// Restores the entity and the final URL of the current mirror from an earlier run.
    mutating func record(_ entity: Entity, finalURL: String, _ cookies: CookieJar) {
        all[current].entity = entity
        guard let origin = all[current].address,
            let url = origin.isObject ? WebURL.object(finalURL) : WebURL(finalURL)
        else { return }
        let known = FinalURL(url: url.withCredentials(of: origin), origin: origin, cookies: cookies)
        // A version is one of the job's own object.
        guard known.resource == entity.resource, !origin.isObject || origin.pinned(to: url.version) == url else {
            return
        }
        all[current].finalURL = known
    }

    /// The mirror for extra connection number `number`. `hasDigest`: the current mirror has sent a digest of the whole.
    func forExtra(_ number: Int, hasDigest: Bool) -> Int {
        guard mayMix || hasDigest else { return current }
        let good = all.indices.filter { !all[$0].isBad && !all[$0].isUnverifiable }
        return good.isEmpty ? current : good[number % good.count]
    }

    /// Stops using a mirror. False if it was the last good one.
    mutating func drop(_ index: Int) -> Bool {
        all[index].isBad = true
        guard let next = all.indices.first(where: { !all[$0].isBad }) else { return false }
        if index == current { current = next }
        return true
    }

    /// Whether a failure is the mirror's fault, so that another mirror may do better.
    static func isToBlame(for failure: Failure) -> Bool { failure.blamesMirror || isToBlame(for: failure.code) }

    /// The same by the code alone.
    static func isToBlame(for code: ErrorCode) -> Bool {
        switch code {
        case .dns, .connect, .tls, .stalled, .incomplete, .badResponse, .tooManyRedirects, .redirectForbidden,
            .remoteChanged, .checksumMismatch, .sizeMismatch, .wrongContentType, .tooSlow, .addressForbidden,
            .gateRefused:
            true
        default: code.rawValue.hasPrefix("http_")
        }
    }
}
