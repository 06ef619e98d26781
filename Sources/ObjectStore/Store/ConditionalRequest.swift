/// A request with a condition. A server may know some of them and not others, and each protects something else.
enum ConditionalRequest: String, Sendable {
    case create = "PUT If-None-Match"
    case replace = "PUT If-Match"
    case complete = "the condition of Complete"
    case delete = "DELETE If-Match"
}
