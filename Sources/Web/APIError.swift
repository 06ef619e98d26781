import HaulContract
import HaulHTTPServer
import HaulRedis

/// Why a request is refused: an HTTP status, a stable code, and a sentence.
struct APIError: Error, Equatable {
    let status: Int
    let code: Code
    let message: String
    /// The methods that the path has, for a 405.
    var allowed: [String] = []

    init(_ status: Int, _ code: Code, _ message: String) {
        (self.status, self.code, self.message) = (status, code, message)
    }

    init(_ error: RedisError) {
        let isOurs = error.code == .noPermission
        self.init(isOurs ? 502 : 503, isOurs ? .redisPermission : .redis, error.message)
    }

    static func notFound(_ what: String) -> APIError { APIError(404, .notFound, "\(what) is not known here") }

    /// No worker has seen the job, or it has been removed.
    static func unknownJob(_ id: String) -> APIError {
        APIError(404, .notFound, "the job \(id) is not known: no worker has seen it yet, or it has been removed")
    }

    /// The error as an answer's body, or with `watch` as an event about a watched resource.
    func json(watch: String? = nil) -> String {
        var json = JSONObject()
        json.set("watch", watch)
        json.set("error", code.rawValue)
        json.set("message", message)
        return json.text
    }

    var response: ServerResponse {
        var response = ServerResponse(status, "application/json", json())
        if status == 401 {
            response.fields.append(("WWW-Authenticate", #"Basic realm="haul", charset="UTF-8""#))
        }
        if status == 405 { response.fields.append(("Allow", allowed.joined(separator: ", "))) }
        if status == 429 || status == 503 { response.fields.append(("Retry-After", "2")) }
        return response
    }
}

extension APIError {
    /// The codes of the API: docs/reference/http-api.md and docs/reference/openapi.json are generated from them.
    enum Code: String, CaseIterable {
        case badRequest = "bad_request"
        case badJSON = "bad_json"
        case badJob = "bad_job"
        case signIn = "sign_in"
        case viewer
        case foreignOrigin = "foreign_origin"
        case notFound = "not_found"
        case removed
        case method
        case contentType = "content_type"
        case unknownHost = "unknown_host"
        case busy
        case tooMany = "too_many"
        case redisPermission = "redis_permission"
        case redis
        case http
        case cancelled

        /// The statuses that responses with this code have.
        var statuses: [Int] {
            switch self {
            case .badRequest: [400, 422]
            case .badJSON: [400]
            case .signIn: [401]
            case .viewer, .foreignOrigin: [403]
            case .notFound, .removed: [404]
            case .method: [405]
            case .contentType: [415]
            case .unknownHost: [421]
            case .badJob: [422]
            case .busy: [429, 503]
            case .tooMany: [429]
            case .redisPermission: [502]
            case .redis, .cancelled: [503]
            case .http: [400, 411, 413, 414, 431, 503, 505]
            }
        }

        /// What has happened, and what a client should do; empty if there is nothing to do.
        var explanation: (meaning: String, remedy: String) {
            switch self {
            case .badRequest: ("a parameter, the path or a member of the body is wrong; nothing was done", "correct it")
            case .badJSON: ("the body is not JSON", "correct it")
            case .badJob: ("a job is not valid; nothing was pushed", "the message names the field")
            case .signIn: ("no credentials, or wrong ones", "sign in")
            case .viewer: ("a viewer asks for a change, or for what was pushed", "sign in as an operator")
            case .foreignOrigin: ("a page of another site has sent the request", "use the page's own origin")
            case .notFound: ("no such path, queue, job, batch or worker", "")
            case .removed: ("the job was removed while its end was awaited", "")
            case .method: ("the path has no such method", "`Allow` names its methods")
            case .contentType: ("a change came without `Content-Type: application/json`", "set it")
            case .unknownHost: ("the Host field is not a name of this server", "`haul web --host`")
            case .busy: ("too many sign-ins wait, or too many jobs are watched at once", "wait")
            case .tooMany:
                ("this user or address has too many streams, feeds or searches", "close some, or wait")
            case .redisPermission: ("the server's user in Redis lacks a right", "the role `web` of users.acl")
            case .redis: ("Redis does not answer, or refuses", "try again")
            case .http:
                (
                    "no valid HTTP, a body without `Content-Length`, more than 1 MiB of body or 16 KiB of head (4xx); or "
                        + "the server is full: connections, streams, bodies or responses (503)",
                    "correct it, or try again after a 503"
                )
            case .cancelled: ("the server is ending, or the request was given up", "try again")
            }
        }
    }
}
