import HaulContract
import HaulHTTP
import HaulStorage

/// The URL to which a chain of redirects led. Further requests for the same entity are sent there directly.
struct FinalURL: Sendable {
    /// The response's URL.
    let url: WebURL
    /// The URL with which the chain began. Custom headers and credentials are sent only to its origin.
    let origin: WebURL
    let cookies: CookieJar

    /// Whether a redirect led to another URL, or the bucket has named the version of the object.
    var isRedirected: Bool { url != origin }

    /// The `Entity.resource` of this URL's responses. A URL without a query and without a redirect needs none, because
    /// the `source` that is kept beside it is the whole URL.
    ///
    /// An object's version is not a part of it. The ETag tells versions apart, also in a response that names none (304).
    var resource: String {
        if url.isObject { return origin.sourceResource }
        return isRedirected || url.query != nil ? url.resource : ""
    }

    /// The URL as a resume point stores it. It is empty if there was no redirect, if the URL has a query, which may be
    /// secret, or if it is longer than the URL of a job may be. The version of an object is not secret.
    var text: String {
        let text = isRedirected && (url.query == nil || url.isObject) ? url.withoutCredentials.unmasked : ""
        return text.utf8.count > URLRule.maxBytes ? "" : text
    }
}

/// Sends a request and follows its redirects. Credentials and custom headers are sent only to the origin of the first
/// URL, except User-Agent, the headers that describe a body, and the Idempotency-Key of a request that is sent again with
/// its method. A redirect from https to http is refused.
struct RedirectFollower: Sendable {
    static let maxRedirects = 10

    let engine: TransferEngine
    /// The buckets whose objects may be requested; nil for none.
    var buckets: (any SourceBuckets)?
    let template: HTTPRequest
    /// The job's own header fields.
    let custom: [HeaderField]
    let digests: DigestSession
    /// The cookies with which each chain starts.
    let cookies: CookieJar
    let trace: (@Sendable (String) -> Void)?
    let authentication: Authentication
    /// Conditions that are sent only to the URL of this `WebURL.resource`, because no other server knows what they are
    /// about.
    var conditions: (resource: String, fields: [HeaderField])?
    /// False for a webhook: its receiver has to answer itself, as Standard Webhooks demand. A redirect may lose the body
    /// (303), or lead it to a server that cannot verify it and answers 200 all the same, such as a page for signing in.
    var followsRedirects = true
    /// After a 301 or 302 a POST is sent again with its body, as after a 307 or 308, so that an uploaded file arrives.
    var repeatsPOST = false
    /// A server that has the entity only in a compressed form responds with 406 to `Accept-Encoding: identity`. Then
    /// the request is repeated once without that field, and the compressed bytes are stored as they are.
    var acceptsAnyEncoding = false

    /// Follows redirects, and returns the final response with its URL.
    ///
    /// - Parameter finalURL: The result of an earlier chain, with whose URL this one begins.
    func send(
        _ mirror: Mirrors.Mirror, _ headers: [HeaderField], from finalURL: FinalURL? = nil
    ) async throws(TransferError) -> (Transfer, FinalURL) {
        guard let origin = finalURL?.origin ?? mirror.address else {
            throw .failed(Failure(.badJob, "\(MaskedURL.text(mirror.url)) is not a valid http or https URL"))
        }
        return try await send(origin, headers, from: finalURL)
    }

    /// Follows redirects from `origin`, or from `finalURL` if it is given.
    func send(
        _ origin: WebURL, _ headers: [HeaderField], from finalURL: FinalURL? = nil
    ) async throws(TransferError) -> (Transfer, FinalURL) {
        var current = finalURL?.url ?? origin
        if current.isObject { return try await sendToBucket(current, headers, from: origin) }
        var cookies = finalURL?.cookies ?? cookies
        var (request, custom) = (template, custom)
        for _ in 0...Self.maxRedirects {
            let isSameOrigin = current.hasSameOrigin(as: origin)
            request.headers =
                headers
                + custom.filter { field in
                    let name = field.name.lowercased()
                    // Fields that describe the body are sent with it. The same request keeps its key, since it may be
                    // repeated only as long as each server can recognize it.
                    return isSameOrigin || name == "user-agent" || request.body != nil && name.hasPrefix("content-")
                        || name == "idempotency-key" && request.method == template.method
                }
            if let conditions, current.resource == conditions.resource { request.headers += conditions.fields }
            if let cookie = cookies.header(for: current) { request.headers.append(HeaderField("Cookie", cookie)) }
            var transfer = try await send(request, to: current)
            if transfer.head.status == 406, acceptsAnyEncoding, ["GET", "HEAD"].contains(request.method),
                request.headers.contains(.identity)
            {
                await transfer.discard()
                request.headers.removeAll { $0 == .identity }
                transfer = try await send(request, to: current)
            }
            guard followsRedirects, [301, 302, 303, 307, 308].contains(transfer.head.status),
                let location = transfer.head.headers["location"]
            else {
                return (transfer, FinalURL(url: current, origin: origin, cookies: cookies))
            }
            for line in transfer.head.headers.all("set-cookie") { cookies.set(line, from: current) }
            await transfer.discard()
            guard let next = current.resolve(location) else {
                throw .failed(
                    Failure(
                        .redirectForbidden, "the server redirects to something that is not a valid http or https URL"))
            }
            guard current.scheme == "http" || next.scheme == "https" else {
                throw .failed(
                    Failure(
                        .redirectForbidden, "the server redirects from https to http (\(next.host)); that is refused"))
            }
            trace?("redirect (\(transfer.head.status)) to \(next)")
            let status = transfer.head.status
            if status == 303 && request.method != "HEAD" || request.method == "POST" && status < 303 && !repeatsPOST {
                // The response is at another URL, to be fetched by GET (RFC 9110 section 15.4).
                (request.method, request.body) = ("GET", nil)
                custom.removeAll { $0.name.lowercased().hasPrefix("content-") }
            }
            current = next.withCredentials(of: origin)
        }
        throw .failed(
            Failure(.tooManyRedirects, "more than \(Self.maxRedirects) redirects: the redirects may form a loop"))
    }

    /// Requests an object. The job's own header fields, its cookies and its credentials are for servers, and are not sent.
    private func sendToBucket(
        _ url: WebURL, _ headers: [HeaderField], from origin: WebURL
    ) async throws(TransferError) -> (Transfer, FinalURL) {
        guard template.method == "GET", template.body == nil else {
            throw TransferError(
                .badJob,
                "an object of a bucket is fetched by GET without a body; this job has another method or a body",
                isFinal: true)
        }
        guard let buckets else {
            throw TransferError(
                .addressForbidden,
                "no bucket may be read here: a worker reads those of its option --source s3://BUCKET", isFinal: true)
        }
        var request = template
        request.headers = headers
        if let bucket = request.hostBuckets?.bucket(for: url) { request.limits.append(bucket) }
        let transfer = try await buckets.start(request, for: url)
        let isContent = [200, 206].contains(transfer.head.status)
        let version = isContent ? transfer.head.headers["x-amz-version-id"] : nil
        return (transfer, FinalURL(url: url.pinned(to: version), origin: origin, cookies: cookies))
    }

    /// Sends the request with the credentials of the URL, as `authentication` says.
    private func send(_ request: HTTPRequest, to url: WebURL) async throws(TransferError) -> Transfer {
        var plain = request
        plain.url = url.unmasked
        if let bucket = plain.hostBuckets?.bucket(for: url) { plain.limits.append(bucket) }
        guard let login = url.login, !request.headers.contains(where: { $0.name.lowercased() == "authorization" })
        else {
            return try await engine.start(plain)
        }
        var attempts = 0
        while true {
            let authorization = digests.authorization(login, method: request.method, for: url)
            var sent = plain
            if let authorization {
                sent.url = url.withoutCredentials.unmasked
                sent.headers.append(HeaderField("Authorization", authorization))
            } else if authentication != .atOnce, !digests.takesBasic(url) {
                sent.url = url.withoutCredentials.unmasked
            }
            let transfer = try await engine.start(sent)
            guard transfer.head.status == 401, attempts < 3,
                record(transfer.head, from: url, isFirst: attempts == 0, hasSentDigest: authorization != nil)
            else {
                guard transfer.head.status == 401, authentication == .digestOnly, authorization == nil else {
                    return transfer
                }
                await transfer.discard()
                throw .failed(
                    Failure(
                        .http(401),
                        "the server does not offer Digest, and the password may not be sent in any other way",
                        isFinal: true))
            }
            attempts += 1
            await transfer.discard()
        }
    }

    /// Records what a 401 asks for. False if the request has no other credentials to offer.
    private func record(_ head: ResponseHead, from url: WebURL, isFirst: Bool, hasSentDigest: Bool) -> Bool {
        let offers = head.headers.all("www-authenticate")
        guard let challenge = DigestChallenge(offers) else {
            return authentication == .whenAsked && !hasSentDigest && DigestChallenge.offersBasic(offers)
                && digests.recordBasic(from: url)
        }
        // If a kept nonce is refused, a new one takes its place. If a new nonce is refused, too, the credentials are
        // wrong, unless the server calls the nonce stale.
        guard isFirst || challenge.isStale else { return false }
        digests.record(challenge, from: url)
        return true
    }
}

extension HeaderField {
    /// Requests the body without compression.
    static let identity = HeaderField("Accept-Encoding", "identity")
}
