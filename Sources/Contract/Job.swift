/// What a producer asks for: one element of the `jobs` list, read and checked.
///
/// The bus contract in docs/bus.md says what each field means; durations are seconds, sizes bytes.
public struct Job: Sendable, Equatable {
    /// What is to be done.
    public enum Kind: String, Sendable, CaseIterable { case download }

    public enum IfExists: String, Sendable, CaseIterable { case reuse, overwrite, rename, fail }

    public struct Checksum: Sendable, Equatable {
        public enum Algorithm: String, Sendable, CaseIterable { case sha256, sha512, sha1, md5 }
        public var algorithm: Algorithm
        /// Lower-case hexadecimal.
        public var digest: String
        public init(algorithm: Algorithm, digest: String) { (self.algorithm, self.digest) = (algorithm, digest) }
    }

    public var kind = Kind.download
    /// As given; nil lets the bus name it after the URL and the path.
    public var id: String?
    /// At least one; more are mirrors of the same entity in order of preference.
    public var urls: [String]
    /// Relative to the worker's root; a trailing "/" names a directory; nil lets the response name the file.
    public var path: String?
    public var ifExists: IfExists = .reuse
    public var freshFor: Double?
    public var checksum: Checksum?
    public var size: Int64?
    public var contentType: String?
    public var method: String = "GET"
    /// In the order given.
    public var headers: [HeaderField] = []
    public var body: String?
    public var connections: Int?
    public var limitRate: Int64?
    public var maxBytes: Int64?
    public var minSpeed: Int64?
    public var retries: Int?
    public var connectTimeout: Double?
    public var stallTimeout: Double?
    public var delay: Double?
    public var deadline: Double?
    public var replyTo: String?
    /// The raw JSON text: never re-encoded.
    public var meta: String?
    /// Unix ms of the push.
    public var at: Int64?
    /// Names of fields that the contract does not know; ignored, and reported as a warning.
    public var unknownFields: [String] = []

    public init(id: String? = nil, urls: [String]) { (self.id, self.urls) = (id, urls) }
}
