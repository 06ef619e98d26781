import HaulContract
import HaulExecutors
import HaulHTTP

/// Fetches credentials from one location.
struct CredentialsFetch: Sendable {
    /// The connect timeout and the stall timeout. A service that exceeds one of them counts as absent.
    private static let timeout = Duration.seconds(5)

    let engine: TransferEngine
    let files: BlockingPool

    /// Returns nil if this location has no credentials.
    func credentials(from location: CredentialsLocation) async -> Credentials? {
        switch location {
        case .environment(let credentials): return credentials
        case .file(let path, let profile):
            guard let text = await read(path) else { return nil }
            return CredentialsFile.credentials(of: profile, in: text)
        case .webIdentity(let role, let file, let session, let endpoint):
            guard let token = await read(file) else { return nil }
            return await assume(role, as: session, showing: token, at: endpoint)
        case .container(let url, let token):
            guard Self.isTrusted(url) else { return nil }
            var request = request(url)
            switch token {
            case .text(let text): request.headers.append(HeaderField("Authorization", text))
            case .file(let path):
                guard let text = await read(path) else { return nil }
                request.headers.append(HeaderField("Authorization", text))
            case nil: break
            }
            return await body(request).flatMap { Credentials(json: $0) }
        case .instance(let endpoint): return await instance(endpoint)
        }
    }

    /// IMDSv2: fetches a token, then the name of the machine's role, then the role's credentials.
    private func instance(_ endpoint: String) async -> Credentials? {
        var tokenRequest = request(endpoint + "/latest/api/token")
        tokenRequest.method = "PUT"
        tokenRequest.connectTimeout = .seconds(1)
        tokenRequest.headers.append(HeaderField("X-aws-ec2-metadata-token-ttl-seconds", "21600"))
        guard let token = await text(tokenRequest) else { return nil }
        let location = endpoint + "/latest/meta-data/iam/security-credentials/"
        var next = request(location)
        next.headers.append(HeaderField("X-aws-ec2-metadata-token", token))
        guard let role = await text(next)?.split(whereSeparator: \.isNewline).first, !role.contains("/") else {
            return nil
        }
        next.url = location + role
        return await body(next).flatMap { Credentials(json: $0) }
    }

    private func assume(
        _ role: String, as session: String, showing token: String, at endpoint: String
    ) async -> Credentials? {
        var request = self.request(endpoint + "/")
        request.method = "POST"
        request.headers.append(HeaderField("Content-Type", "application/x-www-form-urlencoded"))
        request.body = .text(
            URIText.query([
                ("Action", "AssumeRoleWithWebIdentity"), ("Version", "2011-06-15"), ("RoleArn", role),
                ("RoleSessionName", session), ("WebIdentityToken", token),
            ]))
        return await body(request).flatMap { XMLElement($0) }.flatMap { Credentials(assumed: $0) }
    }

    /// Whether the request for a container's credentials, which carries a token, may be sent to `url`: over https, on
    /// this machine, or at an address that Amazon reserves for such services.
    static func isTrusted(_ url: String) -> Bool {
        guard let url = WebURL(url) else { return false }
        if url.scheme == "https" { return true }
        if url.host == "localhost" { return true }
        let address = url.host.hasPrefix("[") ? String(url.host.dropFirst().dropLast()) : url.host
        return IPAddress(address).map { address in services.contains { $0.contains(address) } } ?? false
    }

    /// Loopback, and the addresses of the services for Amazon's containers (ECS, EKS Pod Identity).
    private static let services = ["127.0.0.0/8", "::1", "169.254.170.2", "169.254.170.23", "fd00:ec2::23"]
        .compactMap { Network($0) }

    private func request(_ url: String) -> HTTPRequest {
        var request = HTTPRequest(url: url)
        (request.connectTimeout, request.stallTimeout) = (Self.timeout, Self.timeout)
        return request
    }

    private func text(_ request: HTTPRequest) async -> String? {
        await body(request).map { String(decoding: $0, as: UTF8.self) }
    }

    private func body(_ request: HTTPRequest) async -> [UInt8]? {
        guard let transfer = try? await engine.start(request), transfer.head.status == 200 else { return nil }
        return try? await transfer.collect(limit: 64 << 10)
    }

    private func read(_ path: String) async -> String? { await files.run { CredentialsFile.text(at: path) } }
}
