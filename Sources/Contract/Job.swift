/// What a producer asks for: one element of the `jobs` list, to be written or as it was read and checked.
///
///     var job = Job("https://example.org/big.iso")
///     job.path = "isos/"
///     job.checksum = Job.Checksum("sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08")
///     job.deadline = .seconds(3600)
///
/// The bus contract in docs/bus.md says what each field means. A field that is nil, or has its default, is not written.
public struct Job: Sendable, Equatable {
    /// What is to be done.
    public enum Kind: String, Sendable, CaseIterable {
        /// A file is fetched from a URL into the workers' store.
        case download
        /// A request is sent, and its response kept.
        case request
        /// Files of the workers' store are sent to a server, and its response kept.
        case upload

        /// With an article, for messages.
        package var words: String {
            switch self {
            case .download: "a download"
            case .request: "a request"
            case .upload: "an upload"
            }
        }
    }

    /// What is done where another file has the name: docs/bus.md, "What stands in the way of a file".
    public enum IfExists: String, Sendable, CaseIterable {
        /// The job's own earlier file is kept or replaced; another file makes the job fail, or takes a number in the name.
        case reuse
        /// Another file is replaced.
        case overwrite
        /// The new file takes a number: `name (1).ext`.
        case rename
        /// The job fails with ``ErrorCode/fileExists``.
        case fail
    }

    /// What the bytes of the file must hash to.
    public struct Checksum: Sendable, Equatable, CustomStringConvertible {
        /// A hash function that the contract knows.
        public enum Algorithm: String, Sendable, CaseIterable { case sha256, sha512, sha1, md5 }
        /// The hash function.
        public var algorithm: Algorithm
        /// Lower-case hexadecimal.
        public var digest: String
        /// `digest` is hexadecimal, of the algorithm's length; that is checked when the job is pushed.
        public init(algorithm: Algorithm, digest: String) { (self.algorithm, self.digest) = (algorithm, digest) }
    }

    /// What is to be done.
    public var kind = Kind.download
    /// What only jobs of the kinds ``Kind/request`` and ``Kind/upload`` have.
    public var request = Request()
    /// What only jobs of the kind ``Kind/upload`` have.
    public var upload = Upload()
    /// 1 to 128 of `A-Z a-z 0-9 . _ : -`. As given; nil lets the bus name it after the URL and the path.
    public var id: String?
    /// At least one; more are mirrors of the same entity in order of preference.
    public var urls: [String]
    /// Relative to the worker's root; a trailing "/" names a directory; nil lets the response name the file.
    public var path: String?
    /// What is done where another file has the name.
    public var ifExists: IfExists = .reuse
    /// For so long a completed file, or a response, is good without asking the server.
    public var freshFor: Duration?
    /// What the bytes must hash to. Nothing else proves that a file is the right one.
    public var checksum: Checksum?
    /// How many bytes the file must have.
    public var size: Int64?
    /// The media type that the file must have, without parameters.
    public var contentType: String?
    /// In capital letters.
    public var method: String = "GET"
    /// In the order given.
    public var headers: [HeaderField] = []
    /// The body of the request. A job with a body needs an ``id``.
    public var body: String?
    /// The most connections for this file, 1 to 16.
    public var connections: Int?
    /// Bytes per second, over all of the job's connections.
    public var limitRate: Int64?
    /// A file that is larger makes the job fail.
    public var maxBytes: Int64?
    /// Bytes per second, on average over 30 seconds: less makes the attempt fail.
    public var minSpeed: Int64?
    /// How many attempts may follow the first in a row, 0 to 1000.
    public var retries: Int?
    /// How long a connection may take to come about, from 0.1 seconds to a day.
    public var connectTimeout: Duration?
    /// How long no byte may come, from 0.1 seconds to a day.
    public var stallTimeout: Duration?
    /// How long the job waits before it may start.
    public var delay: Duration?
    /// By when the job must be done, counted from ``at`` or from when a worker took it.
    public var deadline: Duration?
    /// The final event is also pushed onto the list `haul:{QUEUE}:reply:<replyTo>`.
    public var replyTo: String?
    /// The set of jobs that this one is counted in.
    public var batch: Batch?
    /// The raw JSON text: never re-encoded. At most 4 KiB.
    public var meta: String?
    /// Unix ms of the push: the same `at` once more is a duplicate.
    public var at: Int64?
    /// Names of fields that the contract does not know; ignored, and reported as a warning. Not written.
    public var unknownFields: [String] = []

    /// A job for the first of `urls`; more are mirrors of the same entity, best first.
    public init(id: String? = nil, urls: [String]) { (self.id, self.urls) = (id, urls) }

    /// A job of the kind ``Kind/request``: what the server answers is kept.
    public static func request(_ method: String = "GET", _ url: String, id: String? = nil) -> Job {
        var job = Job(url, id: id)
        (job.kind, job.method) = (.request, method)
        return job
    }

    /// A job for one URL.
    public init(_ url: String, id: String? = nil) { self.init(id: id, urls: [url]) }
}
