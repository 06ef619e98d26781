import HaulContract
import HaulHTTP

/// The HTTP request that a job of the kind `request` describes.
struct CallRequest: Sendable {
    /// The job's URL with its query parameters.
    let url: String
    let method: String
    /// The job's own header fields, and those that describe its body.
    let headers: [HeaderField]
    let body: [UInt8]?
    /// Whether the request is signed.
    let isWebhook: Bool

    init(_ job: Job) {
        url = Self.url(job.urls[0], query: job.request.query)
        method = job.method
        isWebhook = job.request.webhook != nil
        var headers = job.headers
        func add(_ name: String, _ value: String) {
            if !headers.contains(where: { $0.name.lowercased() == name.lowercased() }) {
                headers.append(HeaderField(name, value))
            }
        }
        if let json = job.request.json {
            body = Array(json.utf8)
            add("Content-Type", "application/json")
        } else if !job.request.form.isEmpty {
            body = Array(Self.encoded(job.request.form).utf8)
            add("Content-Type", "application/x-www-form-urlencoded")
        } else if let text = job.request.bodyBase64 {
            body = Base64.decode(text.utf8) ?? []
            add("Content-Type", "application/octet-stream")
        } else {
            body = job.body.map { Array($0.utf8) }
            if body != nil { add("Content-Type", "text/plain; charset=utf-8") }
        }
        if job.request.isIdempotent, let id = job.id { add("Idempotency-Key", id) }
        self.headers = headers
    }

    /// Whether sending the request again does no harm, because its method is idempotent (RFC 9110 section 9.2.2) or
    /// because the server recognizes a repetition by its Idempotency-Key.
    var isRepeatable: Bool {
        // A receiver of webhooks knows a repetition by webhook-id.
        IdempotentMethod.contains(method) || isWebhook
            || headers.contains { $0.name.lowercased() == "idempotency-key" }
    }

    /// Whether the server can be asked if a stored response is still valid.
    var isConditional: Bool { method == "GET" || method == "HEAD" }

    /// A digest of the whole request. Requests that differ in anything may have different responses.
    var digest: String {
        var text = JSONObject()
        text.set("method", method)
        text.set("url", url)
        for header in headers { text.set(header.name.lowercased(), header.value) }
        text.set("body", body.map { Base64.encode($0) })
        return Job.Checksum.Algorithm.sha256.hexadecimal(of: text.text)
    }

    /// Adds the query, before a fragment, which is not sent to the server.
    static func url(_ url: String, query: [Job.Item]) -> String {
        guard !query.isEmpty else { return url }
        let bytes = Array(url.utf8)
        let end = bytes.firstIndex(of: UInt8(ascii: "#")) ?? bytes.endIndex
        let separator = bytes[..<end].contains(UInt8(ascii: "?")) ? "&" : "?"
        return String(decoding: bytes[..<end], as: UTF8.self) + separator + encoded(query)
            + String(decoding: bytes[end...], as: UTF8.self)
    }

    /// Encodes as forms are encoded: https://url.spec.whatwg.org/#urlencoded-serializing.
    static func encoded(_ items: [Job.Item]) -> String {
        items.map { encoded($0.name) + "=" + encoded($0.value) }.joined(separator: "&")
    }

    private static func encoded(_ text: String) -> String {
        var result = ""
        for byte in text.utf8 {
            switch byte {
            case 48...57, 65...90, 97...122, UInt8(ascii: "*"), UInt8(ascii: "-"), UInt8(ascii: "."),
                UInt8(ascii: "_"):
                result.unicodeScalars.append(Unicode.Scalar(byte))
            case 32: result += "+"
            default:
                let digits = String(byte, radix: 16, uppercase: true)
                result += "%" + (digits.count == 1 ? "0" : "") + digits
            }
        }
        return result
    }
}
