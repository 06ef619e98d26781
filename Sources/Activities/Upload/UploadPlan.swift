import HaulContract
import HaulHTTP

/// The HTTP requests that a job of the kind `upload` describes.
struct UploadPlan: Sendable {
    /// The job's URL with its query parameters.
    let url: String
    let method: String
    /// The job's own header fields, and Idempotency-Key for a job that is `idempotent` and has one request.
    let headers: [HeaderField]
    /// The job's id, if each file is sent with an Idempotency-Key of its own.
    private let keyPrefix: String?
    let files: [Job.Upload.File]
    let form: [Job.Item]
    /// Each file is sent in a request of its own.
    let isEach: Bool
    let isTus: Bool
    let contentDigest: Job.Upload.Digest?

    init(_ job: Job) {
        url = CallRequest.url(job.urls[0], query: job.request.query)
        (method, isEach, form) = (job.method, job.upload.isEach, job.request.form)
        (isTus, contentDigest) = (job.upload.method == .tus, job.upload.contentDigest)
        files = job.upload.file.map { [Job.Upload.File($0, filename: job.upload.filename)] } ?? job.upload.files
        isForm = job.upload.file == nil && !isEach
        let hasKey = job.headers.contains { $0.isNamed(Self.keyName) }
        let id = job.request.isIdempotent && !hasKey ? job.id : nil
        headers = job.headers + (isEach ? [] : id.map { [HeaderField(Self.keyName, $0)] } ?? [])
        keyPrefix = isEach ? id : nil
    }

    private static let keyName = "Idempotency-Key"

    /// All files are sent in one form.
    let isForm: Bool

    /// Sending the upload again does no harm. (A tus server reports what it already has.)
    var isRepeatable: Bool {
        isTus || IdempotentMethod.contains(method) || keyPrefix != nil || headers.contains { $0.isNamed(Self.keyName) }
    }

    /// Names the URL with its query, which a masked URL does not show. "" without a query.
    var sourceResource: String { WebURL(url)?.sourceResource ?? "" }

    /// A digest of the method, the URL and the files.
    var digest: String {
        Job.Checksum.Algorithm.sha256.hexadecimal(of: ([method, url] + files.map(\.file)).joined(separator: "\n"))
    }

    /// Identifies the request that sends one version of a file by itself: its method, its resource and the file. What
    /// signs the URL does not count.
    func mark(of file: Job.Upload.File, version: String) -> String {
        let target = target(of: file)
        let text = [method, WebURL(target)?.resource ?? target, file.file, version].joined(separator: "\n")
        return String(Job.Checksum.Algorithm.sha256.hexadecimal(of: text).prefix(12))
    }

    /// Why the files cannot all be sent: by PUT each would replace the file before it that has the same URL. nil if
    /// their URLs differ.
    var conflict: TransferError? {
        guard isEach, method == "PUT" else { return nil }
        var names: [String: String] = [:]
        for file in files {
            let target = target(of: file)
            if let other = names.updateValue(file.file, forKey: target) {
                return TransferError(
                    .badJob,
                    "\(other) and \(file.file) would both be sent to \(MaskedURL.text(target)), where the second would"
                        + " replace the first: give them different filenames, and a URL that ends with /")
            }
        }
        return nil
    }

    /// The URL for a file that is sent by itself. If the job's URL ends with "/", the file's name is appended.
    func target(of file: Job.Upload.File) -> String {
        let bytes = Array(url.utf8)
        let end = bytes.firstIndex { $0 == UInt8(ascii: "?") || $0 == UInt8(ascii: "#") } ?? bytes.endIndex
        guard bytes[..<end].last == UInt8(ascii: "/") else { return url }
        return String(decoding: bytes[..<end], as: UTF8.self) + PercentEncoding.component(file.sentName)
            + String(decoding: bytes[end...], as: UTF8.self)
    }

    /// The header fields for a file that is sent by itself: the job's, and a Content-Type if the job sets none. To the
    /// server only a request with the same version of the same file is a repetition.
    func headers(of file: Job.Upload.File, version: String) -> [HeaderField] {
        let hasType = headers.contains { $0.isNamed("content-type") }
        return headers
            + (hasType ? [] : [HeaderField("Content-Type", file.type ?? Job.Upload.File.defaultType)])
            + (keyPrefix.map { [HeaderField(Self.keyName, "\($0)-\(mark(of: file, version: version))")] } ?? [])
    }
}

extension HeaderField {
    func isNamed(_ name: String) -> Bool { self.name.lowercased() == name.lowercased() }
}

extension Job.Upload.File {
    static let defaultType = "application/octet-stream"

    /// The file name that is sent to the server.
    var sentName: String { filename ?? file.pathParts.last ?? file }
}
