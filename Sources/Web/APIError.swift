import HaulContract
import HaulHTTPServer
import HaulRedis

/// Why a request is refused: an HTTP status, a stable code, and a sentence.
struct APIError: Error, Equatable {
    let status: Int
    let code: String
    let message: String
    /// The methods that the path has, for a 405.
    var allowed: [String] = []

    init(_ status: Int, _ code: String, _ message: String) {
        (self.status, self.code, self.message) = (status, code, message)
    }

    init(_ error: RedisError) {
        let isOurs = error.code == .noPermission
        self.init(isOurs ? 502 : 503, isOurs ? "redis_permission" : "redis", error.message)
    }

    static func notFound(_ what: String) -> APIError { APIError(404, "not_found", "\(what) is not known here") }

    /// No worker has seen the job, or it has been removed.
    static func unseen(_ id: String) -> APIError {
        APIError(404, "not_found", "the job \(id) is not known: no worker has seen it yet, or it has been removed")
    }

    /// The error as an answer's body, or with `watch` as an event about a watched resource.
    func json(watch: String? = nil) -> String {
        var json = JSONObject()
        json.set("watch", watch)
        json.set("error", code)
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
