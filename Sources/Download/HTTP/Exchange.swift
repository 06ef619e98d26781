import Contract
import Transfer

/// One question to a server, through its redirects. Credentials, cookies and custom headers stay with their origin;
/// a downgrade from https to http is refused.
struct Exchange {
    static let maximumRedirects = 10

    let engine: TransferEngine
    let template: Request
    /// The job's own headers.
    let custom: [(name: String, value: String)]

    /// The response that ends the chain, and its URL.
    func ask(_ url: String, _ headers: [(name: String, value: String)]) async throws(TransferError) -> (
        Transfer, WebURL
    ) {
        guard var current = WebURL(url) else {
            throw .failed(Failure(.badJob, "\(MaskedURL.text(url)) is no http or https URL"))
        }
        let origin = current
        var cookies: [(origin: WebURL, name: String, value: String)] = []
        for _ in 0...Self.maximumRedirects {
            var request = template
            request.url = current.text
            request.headers = headers + (current.hasSameOrigin(as: origin) ? custom : [])
            let mine = cookies.filter { $0.origin.hasSameOrigin(as: current) }
            if !mine.isEmpty {
                request.headers.append(("Cookie", mine.map { "\($0.name)=\($0.value)" }.joined(separator: "; ")))
            }
            let transfer = try await engine.start(request)
            guard [301, 302, 303, 307, 308].contains(transfer.head.status),
                let location = transfer.head.headers["location"]
            else {
                return (transfer, current)
            }
            for line in transfer.head.headers.all("set-cookie") {
                let pair = line.prefix { $0 != ";" }.split(
                    separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
                guard pair.count == 2 else { continue }
                cookies.removeAll { $0.origin.hasSameOrigin(as: current) && $0.name == pair[0] }
                cookies.append((current, String(pair[0]), String(pair[1])))
            }
            await transfer.discard()
            guard let next = current.resolve(location) else {
                throw .failed(Failure(.redirectForbidden, "the server redirects to what is no http or https URL"))
            }
            guard current.scheme == "http" || next.scheme == "https" else {
                throw .failed(
                    Failure(
                        .redirectForbidden, "the server redirects from https to http (\(next.host)); that is refused"))
            }
            current = next
        }
        throw .failed(
            Failure(.tooManyRedirects, "more than \(Self.maximumRedirects) redirects: the server leads in a circle"))
    }
}
