/// A job: one element of the `jobs` list, to be written by a producer, or as it was read and checked.
///
///     var job = Job("https://example.org/big.iso")
///     job.path = "isos/"
///     job.checksum = Job.Checksum("sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08")
///     job.deadline = .seconds(3600)
///
/// docs/reference/fields.md says in full what each field means. A field that is nil or has its default is not written.
public struct Job: Sendable, Equatable {
    /// What a worker does for the job.
    public enum Kind: String, Sendable, CaseIterable {
        /// Fetches a file from a URL into the workers' store.
        case download
        /// Sends a request to a server, and keeps the response.
        case request
        /// Sends files of the workers' store to a server, and keeps the response.
        case upload

        /// The kind with an article, for messages.
        package var nameWithArticle: String {
            switch self {
            case .download: "a download"
            case .request: "a request"
            case .upload: "an upload"
            }
        }
    }

    /// What happens if another file has the name: docs/guides/files.md.
    public enum IfExists: String, Sendable, CaseIterable {
        /// The job's own earlier file is kept or replaced. If another file has the name, the job fails (a name from
        /// ``Job/path``) or the new file gets a number (a name from the server or the URL).
        case reuse
        /// The new file replaces the other file.
        case overwrite
        /// The new file gets a number in its name: `name (1).ext`.
        case rename
        /// The job fails with ``ErrorCode/fileExists``.
        case fail
    }

    /// The digest that the file must have.
    public struct Checksum: Sendable, Equatable, CustomStringConvertible {
        /// A hash function that the contract knows.
        public enum Algorithm: String, Sendable, CaseIterable { case sha256, sha512, sha1, md5 }
        /// The hash function.
        public var algorithm: Algorithm
        /// Lower-case hexadecimal.
        public var digest: String
        /// A checksum with a hexadecimal digest. The digest's length is checked when the job is pushed.
        public init(algorithm: Algorithm, digest: String) { (self.algorithm, self.digest) = (algorithm, digest) }
    }

    /// What a worker does for the job.
    public var kind = Kind.download
    /// Fields that only jobs of the kinds ``Kind/request`` and ``Kind/upload`` have.
    public var request = Request()
    /// Fields that only jobs of the kind ``Kind/upload`` have.
    public var upload = Upload()
    /// 1 to 128 of the characters `A-Z a-z 0-9 . _ : -`. If nil, the bus derives the id from the URL and the path.
    public var id: String?
    /// At least one URL. Further URLs are mirrors of the same entity, in order of preference.
    public var urls: [String]
    /// Relative to the workers' root. A path that ends with "/" names a directory. If nil, the response names the file.
    public var path: String?
    /// What happens if another file has the name.
    public var ifExists: IfExists = .reuse
    /// For how long a completed file or a kept response may be reused without asking the server.
    public var freshFor: Duration?
    /// The digest that the file must have. Only a checksum proves that the file is the right one.
    public var checksum: Checksum?
    /// The number of bytes that the file must have.
    public var size: Int64?
    /// The media type that the file must have, without parameters.
    public var contentType: String?
    /// The request's method, in capital letters.
    public var method: String = "GET"
    /// Additional header fields, in the order in which they are written to the element.
    public var headers: [HeaderField] = []
    /// The body of the request. A job with a body needs an ``id``.
    public var body: String?
    /// The maximum number of connections for this file, 1 to 16.
    public var connections: Int?
    /// The limit in bytes per second, over all connections of the job.
    public var limitRate: Int64?
    /// The maximum size of the file, in bytes.
    public var maxBytes: Int64?
    /// The lowest allowed speed in bytes per second, on average over 30 seconds. A slower attempt fails.
    public var minSpeed: Int64?
    /// The maximum number of failed attempts in a row after the first one, 0 to 1000.
    public var retries: Int?
    /// How long it may take to establish a connection, from 0.1 seconds to a day.
    public var connectTimeout: Duration?
    /// How long a connection may go without receiving a byte, from 0.1 seconds to a day.
    public var stallTimeout: Duration?
    /// How long the job waits before it may start, counted from the same time as ``deadline``.
    public var delay: Duration?
    /// The time within which the job must be done, counted from ``at``, or from when a worker claimed the job if that
    /// was earlier or ``at`` is nil.
    public var deadline: Duration?
    /// The name of a list `haul:{QUEUE}:reply:<replyTo>` onto which the job's final event is pushed.
    public var replyTo: String?
    /// The batch to which the job belongs.
    public var batch: Batch?
    /// The group, such as a tenant, with which the job takes turns for slots. Jobs without one are a group as well.
    public var group: String?
    /// Signed requests that report the job's end.
    public var notify: Notify?
    /// Whether the job has no webhooks even if the queue's defaults have some.
    public var isSilent = false
    /// Jobs that are pushed when this one has completed, at most 8.
    public var then: [Step] = []
    /// Jobs that are pushed when this one has failed, at most 8.
    public var `else`: [Step] = []
    /// JSON text of at most 4 KiB, which events carry byte for byte.
    public var meta: String?
    /// When the job was pushed, in unix milliseconds. A further push with the same `at` is a duplicate.
    public var at: Int64?
    /// Names of fields that are not part of the contract. They are ignored, reported in a warning, and not written.
    public var unknownFields: [String] = []

    /// A download of the first of `urls`. Further URLs are mirrors of the same entity, best first.
    public init(id: String? = nil, urls: [String]) { (self.id, self.urls) = (id, urls) }

    /// A job of the kind ``Kind/request``: the worker sends one request, and keeps the response.
    public static func request(_ method: String = "GET", _ url: String, id: String? = nil) -> Job {
        var job = Job(url, id: id)
        (job.kind, job.method) = (.request, method)
        return job
    }

    /// A download of one URL.
    public init(_ url: String, id: String? = nil) { self.init(id: id, urls: [url]) }
}
