import HaulContract
import HaulHTTP

/// What an upload asks, made of its job: a value.
struct UploadPlan: Sendable {
    /// With the job's query.
    let url: String
    let method: String
    /// The job's own.
    let headers: [HeaderField]
    let files: [Job.Upload.File]
    let form: [Job.Item]
    /// Each file is the body of a request of its own.
    let isEach: Bool
    let isTus: Bool
    let contentDigest: Job.Upload.Digest?

    init(_ job: Job) {
        url = CallQuestion.url(job.urls[0], query: job.request.query)
        (method, isEach, form) = (job.method, job.upload.isEach, job.request.form)
        (isTus, contentDigest) = (job.upload.method == .tus, job.upload.contentDigest)
        files = job.upload.file.map { [Job.Upload.File($0)] } ?? job.upload.files
        isForm = job.upload.file == nil && !isEach
        var headers = job.headers
        if job.request.isIdempotent, let id = job.id, !headers.contains(where: { $0.isNamed("idempotency-key") }) {
            headers.append(HeaderField("Idempotency-Key", id))
        }
        self.headers = headers
    }

    /// All files are one body.
    let isForm: Bool

    /// Sending it again does no harm. A tus server says what it has.
    var isRepeatable: Bool {
        isTus || IdempotentMethod.contains(method) || headers.contains { $0.isNamed("idempotency-key") }
    }

    /// All of it as a digest.
    var digest: String {
        Job.Checksum.Algorithm.sha256.hexadecimal(of: ([method, url] + files.map(\.file)).joined(separator: "\n"))
    }

    /// Where a file is sent that is a body of its own. To a URL that ends with "/" its name is added.
    func target(of file: Job.Upload.File) -> String {
        let bytes = Array(url.utf8)
        let end = bytes.firstIndex { $0 == UInt8(ascii: "?") || $0 == UInt8(ascii: "#") } ?? bytes.endIndex
        guard bytes[..<end].last == UInt8(ascii: "/") else { return url }
        return String(decoding: bytes[..<end], as: UTF8.self) + PercentEncoding.component(file.sentName)
            + String(decoding: bytes[end...], as: UTF8.self)
    }

    /// The job's header fields, and the media type of a body.
    func headers(type: String) -> [HeaderField] {
        headers.contains { $0.isNamed("content-type") } ? headers : headers + [HeaderField("Content-Type", type)]
    }
}

extension HeaderField {
    func isNamed(_ name: String) -> Bool { self.name.lowercased() == name }
}

extension Job.Upload.File {
    static let usualType = "application/octet-stream"

    /// What the server is told that it is called.
    var sentName: String { filename ?? file.pathParts.last ?? file }
}
