import HaulContract
import HaulHTTP

/// Where a chain of redirects led: further requests for the same entity go straight there.
struct Landing: Sendable {
    /// The response's URL.
    let url: WebURL
    /// Where the chain began: custom headers and credentials stay there.
    let origin: WebURL
    let cookies: CookieJar

    /// There was a redirect, to another URL.
    var isElsewhere: Bool { url != origin }

    /// `Entity.resource` of what is there.
    var resource: String { isElsewhere ? url.resource : "" }

    /// As others may know it; "" where there was no redirect, or where the URL may be a secret.
    var text: String { isElsewhere && url.query == nil ? url.withoutCredentials.text : "" }
}

/// One question to a server, through its redirects. Credentials, cookies and custom headers stay with their origin, but
/// User-Agent, which says who asks; a downgrade from https to http is refused.
struct Exchange: Sendable {
    static let maximumRedirects = 10

    let engine: TransferEngine
    let template: Request
    /// The job's own headers.
    let custom: [HeaderField]
    let digests: DigestSession
    /// What a chain begins with.
    let cookies: CookieJar
    let trace: (@Sendable (String) -> Void)?
    /// A redirect with 301 or 302 leads what is sent elsewhere, as one with 307 or 308 does: who sends a file wants it to arrive.
    var keepsBody = false

    /// The response that ends the chain, and where that is. With `landing` the chain begins where an earlier one ended.
    func ask(
        _ mirror: Mirrors.Mirror, _ headers: [HeaderField], from landing: Landing? = nil
    ) async throws(TransferError) -> (Transfer, Landing) {
        guard let origin = landing?.origin ?? mirror.address else {
            throw .failed(Failure(.badJob, "\(MaskedURL.text(mirror.url)) is no http or https URL"))
        }
        return try await ask(origin, headers, from: landing)
    }

    /// The same for a URL.
    func ask(
        _ origin: WebURL, _ headers: [HeaderField], from landing: Landing? = nil
    ) async throws(TransferError) -> (Transfer, Landing) {
        var current = landing?.url ?? origin
        var cookies = landing?.cookies ?? cookies
        var (request, custom) = (template, custom)
        for _ in 0...Self.maximumRedirects {
            let isAtHome = current.hasSameOrigin(as: origin)
            request.headers =
                headers
                + custom.filter { field in
                    let name = field.name.lowercased()
                    // What a body is goes with it.
                    return isAtHome || name == "user-agent" || request.body != nil && name.hasPrefix("content-")
                }
            if let cookie = cookies.header(for: current) { request.headers.append(HeaderField("Cookie", cookie)) }
            let transfer = try await send(request, to: current)
            guard [301, 302, 303, 307, 308].contains(transfer.head.status),
                let location = transfer.head.headers["location"]
            else {
                return (transfer, Landing(url: current, origin: origin, cookies: cookies))
            }
            for line in transfer.head.headers.all("set-cookie") { cookies.set(line, from: current) }
            await transfer.discard()
            guard let next = current.resolve(location) else {
                throw .failed(Failure(.redirectForbidden, "the server redirects to what is no http or https URL"))
            }
            guard current.scheme == "http" || next.scheme == "https" else {
                throw .failed(
                    Failure(
                        .redirectForbidden, "the server redirects from https to http (\(next.host)); that is refused"))
            }
            trace?("redirect (\(transfer.head.status)) to \(MaskedURL.text(next.text))")
            let status = transfer.head.status
            if status == 303 && request.method != "HEAD" || request.method == "POST" && status < 303 && !keepsBody {
                // The answer is elsewhere, to be fetched (RFC 9110 section 15.4).
                (request.method, request.body) = ("GET", nil)
                custom.removeAll { $0.name.lowercased().hasPrefix("content-") }
            }
            current = next.withCredentials(of: origin)
        }
        throw .failed(
            Failure(.tooManyRedirects, "more than \(Self.maximumRedirects) redirects: the server leads in a circle"))
    }

    /// Sends it, with the credentials of the URL: by Basic authentication, or by Digest where the server wants that.
    private func send(_ request: Request, to url: WebURL) async throws(TransferError) -> Transfer {
        var plain = request
        plain.url = url.text
        if let bucket = plain.hostBuckets?.bucket(for: url) { plain.limits.append(bucket) }
        guard let login = url.login, !request.headers.contains(where: { $0.name.lowercased() == "authorization" })
        else {
            return try await engine.start(plain)
        }
        var answers = 0
        while true {
            let answer = digests.authorization(login, method: request.method, for: url)
            var sent = plain
            if let answer {
                sent.url = url.withoutCredentials.text
                sent.headers.append(HeaderField("Authorization", answer))
            }
            let transfer = try await engine.start(sent)
            // An old nonce is replaced. A new one that is refused says that the credentials are wrong, unless it is too old.
            guard transfer.head.status == 401, answers < 3,
                let challenge = DigestChallenge(transfer.head.headers.all("www-authenticate")),
                answers == 0 || challenge.isStale
            else { return transfer }
            answers += 1
            digests.note(challenge, from: url)
            await transfer.discard()
        }
    }
}

extension HeaderField {
    /// The bytes are wanted as they are.
    static let identity = HeaderField("Accept-Encoding", "identity")
}
