import HaulBus
import HaulContract
import HaulHTTPServer
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulWeb

/// A web server without sockets, with a Redis server of its own, and a worker whose calls the test makes.
struct WebFixture {
    let server: RedisServer
    let queue: Queue
    let web: WebServer
    let worker = WorkerIdentity(name: "w1", store: "s")

    init(_ change: (inout WebConfiguration) -> Void = { _ in }) async throws {
        server = try await RedisServer()
        let url = try RedisURL(server.url)
        queue = Queue(.default, redis: Redis(url, name: "test"))
        var configuration = WebConfiguration(
            redis: url, queues: [.default], addresses: [ListenAddress("127.0.0.1:0")!])
        configuration.version = "test"
        change(&configuration)
        web = WebServer(configuration)
        _ = try await queue.register(worker, fields: [], known: [])
    }

    struct Response {
        let status: Int
        let fields: [(name: String, value: String)]
        let text: String
        var json: JSON? { try? JSON(text) }
        subscript(field: String) -> String? { fields.first { $0.name == field }?.value }
    }

    /// Sends a request as a program on this machine does. Every method but GET gets the content type of JSON.
    func send(
        _ method: String, _ target: String, _ body: String? = nil, fields: [(name: String, value: String)] = [],
        from client: String = "127.0.0.1"
    ) async -> Response {
        let parts = target.split(separator: "?", maxSplits: 1).map(String.init)
        var all = fields
        if !all.contains(where: { $0.name == "host" }) { all.append(("host", "localhost:8484")) }
        if method != "GET", !all.contains(where: { $0.name == "content-type" }) {
            all.append(("content-type", "application/json"))
        }
        let request = ServerRequest(
            method: method, path: parts[0], query: parts.count > 1 ? parts[1] : "", fields: all,
            client: ClientAddress(client)!)
        let response =
            switch await web.decide(request) {
            case .respond(let response): response
            case .readBody(_, _, let respond): await respond(Array((body ?? "").utf8))
            }
        guard case .bytes(let bytes) = response.body else {
            return Response(status: response.status, fields: response.fields, text: "(a stream)")
        }
        return Response(
            status: response.status, fields: response.fields, text: String(decoding: bytes, as: UTF8.self))
    }

    func get(_ target: String) async -> Response { await send("GET", target) }

    static let jobs = "/api/queues/default/jobs"
    static let control = "/api/queues/default/control"

    func push(_ body: String) async -> Response { await send("POST", Self.jobs, body) }

    /// Claims the next job.
    func claim() async throws -> Claim? {
        if case .job(let claim) = try await queue.claim(worker, tokens: [Token.make()]).first { return claim }
        return nil
    }

    func settle(_ claim: Claim, _ settlement: Settlement) async throws {
        let end = RunEnd(claim.run, settlement, RunReport())
        _ = try await queue.settle([end], worker: worker, next: [])
    }

    /// Makes a tick, which applies requests.
    func tick(_ claims: [Claim] = []) async throws {
        var tick = Tick(worker, runs: claims.map { ($0.run, RunReport()) })
        try await queue.perform(&tick)
    }

    static let file = CompletedFile(
        file: "f", bytes: 3, store: "s", inode: 1, modified: 1, entity: Entity(etag: "\"e\"", total: 3),
        source: "http://h/f", validated: 1)
    static let done = Settlement.completed(file, seconds: 1, unchanged: false)
}

extension JSON {
    /// The member at the end of a path of names.
    func at(_ path: String...) -> JSON? { path.reduce(self as JSON?) { $0?[$1] } }
}
