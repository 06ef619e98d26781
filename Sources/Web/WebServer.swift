import HaulBus
import HaulContract
package import HaulHTTPServer
import HaulMetrics
import HaulRedis

/// `haul web`: the page, and the API behind it.
package final class WebServer: Sendable {
    private let configuration: WebConfiguration
    private let admission: Admission
    private let api: API
    private let page = Page()
    private let exporter: QueueExporter
    private let audit: AuditLog
    private let aria2: Aria2?

    package init(_ configuration: WebConfiguration) {
        self.configuration = configuration
        admission = Admission(hosts: Set(configuration.hosts.map { $0.lowercased() }), accounts: configuration.accounts)
        audit = AuditLog(configuration.log)
        api = API(configuration, audit)
        aria2 = configuration.aria2.map { [admission, audit, api] in
            Aria2(QueueReaderCache(Queue($0, redis: api.redis)), admission, audit, api)
        }
        // Another connection than the page's, so that no scrape delays the page.
        let redis = Redis(configuration.redis, name: "haul-web-export")
        exporter = QueueExporter(configuration.queues.map { Queue($0, redis: redis) })
    }

    /// Listens and answers until the task is cancelled. Calls `ready` once, with the addresses that it listens on.
    ///
    /// - Throws: If it cannot listen on one of the addresses.
    package func run(ready: @Sendable ([ListenAddress]) -> Void) async throws {
        let server = HTTPServer(limits: configuration.limits, refusal: Self.refusal) { [self] request in
            await decide(request)
        }
        var bound: [ListenAddress] = []
        for address in configuration.addresses { bound.append(try await server.listen(on: address)) }
        ready(bound)
        let (forever, _) = AsyncStream<Never>.makeStream()
        for await _ in forever {}
        await server.stop()
        await exporter.close()
        await api.redis.close()
    }

    /// The response to what is not a valid request: an error like all others.
    @Sendable private static func refusal(_ status: Int, _ reason: String) -> ServerResponse {
        protected(APIError(status, .http, reason).response)
    }

    /// Decides about a request from its head, before any of its body is read.
    func decide(_ request: ServerRequest) async -> HTTPServer.Decision {
        var request = request
        if configuration.trustsForwardedFor, let client = Self.forwardedFor(request) { request.client = client }
        let recipient = request.client.network
        do throws(APIError) {
            switch try await answer(request) {
            case .respond(let response): return .respond(Self.protected(response, for: recipient))
            case .readBody(let stranger, _, let respond):
                return .readBody(stranger: stranger, recipient: recipient) {
                    Self.protected(await respond($0), for: recipient)
                }
            }
        } catch {
            return .respond(Self.protected(error.response, for: recipient))
        }
    }

    /// The last address of X-Forwarded-For, which the proxy has added.
    private static func forwardedFor(_ request: ServerRequest) -> ClientAddress? {
        // As bytes: a comma may be part of a Swift Character that a client has begun.
        let last = request["x-forwarded-for"]?.utf8.split(separator: UInt8(ascii: ",")).last
        return last.flatMap { ClientAddress(String(decoding: $0, as: UTF8.self).filter { $0 != " " && $0 != "\t" }) }
    }

    private static func protected(_ response: ServerResponse, for recipient: ClientNetwork? = nil) -> ServerResponse {
        var response = response
        response.fields += protection
        response.recipient = recipient
        return response
    }

    /// Browsers run, show and request only what this server serves, and no other site can embed the page.
    private static let protection: [(name: String, value: String)] = [
        (
            "Content-Security-Policy",
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; manifest-src 'self'; "
                + "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
        ),
        ("X-Content-Type-Options", "nosniff"), ("Referrer-Policy", "no-referrer"),
        ("Cross-Origin-Opener-Policy", "same-origin"), ("Cross-Origin-Resource-Policy", "same-origin"),
    ]

    private func answer(_ request: ServerRequest) async throws(APIError) -> HTTPServer.Decision {
        if let refusal = admission.refusal(ofHost: request) { throw refusal }
        guard let path = localPath(of: request) else {
            guard request.path == configuration.prefix else { throw .notFound("this path") }
            return .respond(ServerResponse(308, fields: [("Location", configuration.prefix + "/")]))
        }
        if let aria2, path == "jsonrpc" {
            return try aria2.decide(request, api)
        }
        let parts = path.split(separator: "/", omittingEmptySubsequences: false)
        let decoded = parts.compactMap { Query.segment($0) }
        guard decoded.count == parts.count else { throw .notFound("this path") }
        let isAPI = decoded.count > 1 && decoded[0] == "api"
        let methods = API.methods(of: isAPI ? Array(decoded.dropFirst()) : [])
        guard methods.contains(request.method) else {
            let names = methods.joined(separator: ", ")
            var error = APIError(405, .method, "this path has no method \(request.method), but \(names)")
            error.allowed = methods
            throw error
        }
        if path == "healthz" { return .respond(ServerResponse(200, "text/plain; charset=utf-8", "ok\n")) }
        if path == "readyz" { return .respond(await readiness()) }
        let caller = try await admission.caller(request, audit)
        if path == "metrics" { return .respond(await metrics()) }
        let isRead = request.method == "GET" || request.method == "HEAD"
        if isRead, let file = page.response(path, to: request) { return .respond(file) }
        guard isAPI else { throw .notFound("this path") }
        if let refusal = admission.refusal(ofOrigin: request) { throw refusal }
        return try await api.decide(request, Array(decoded.dropFirst()), caller)
    }

    /// The path behind the prefix, without a leading slash; nil if the request is outside of the prefix.
    private func localPath(of request: ServerRequest) -> String? {
        guard request.path.hasPrefix(configuration.prefix + "/") else { return nil }
        return String(request.path.dropFirst(configuration.prefix.count + 1))
    }

    /// The figures of the queues and of this process, for Prometheus.
    private func metrics() async -> ServerResponse {
        var exposition = Exposition()
        exposition.add(.buildInfo, [("version", configuration.version)], 1)
        await exporter.add(to: &exposition)
        ProcessMetrics.add(to: &exposition)
        return ServerResponse(200, Exposition.contentType, exposition.text)
    }

    /// Whether Redis answers.
    private func readiness() async -> ServerResponse {
        do throws(APIError) {
            let redis = api.redis
            let pong = API.Resource(key: "ping", age: .milliseconds(500)) {
                try await redis.send(Command("PING"), timeout: .seconds(2)).string ?? ""
            }
            _ = try await api.text(of: pong)
            return ServerResponse(200, "text/plain; charset=utf-8", "ready\n")
        } catch {
            return ServerResponse(503, "text/plain; charset=utf-8", "Redis does not answer\n")
        }
    }
}
