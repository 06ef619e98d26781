/// A stable code for why a job failed, as in the job's hash and in events. A newer worker may send further codes.
public struct ErrorCode: RawRepresentable, Hashable, Sendable, Codable, CustomStringConvertible {
    /// The code in the wire format: `http_404`, `checksum_mismatch`.
    public let rawValue: String
    /// Any code, known to this version or not.
    public init(rawValue: String) { self.rawValue = rawValue }
    /// The code in the wire format.
    public var description: String { rawValue }

    /// The code of an HTTP status that is an error: `http_404`.
    public static func http(_ status: Int) -> ErrorCode { ErrorCode(rawValue: "http_\(status)") }

    /// The HTTP status of a code such as `http_404`, nil for all other codes.
    public var httpStatus: Int? { rawValue.hasPrefix("http_") ? Int(rawValue.dropFirst(5)) : nil }

    /// The URL leads to an address that the operator has not allowed.
    public static let addressForbidden = ErrorCode(rawValue: "address_forbidden")
    /// The job cannot be done as it is, or its element is gone from Redis or unreadable.
    public static let badJob = ErrorCode(rawValue: "bad_job")
    /// The server's response is not valid HTTP.
    public static let badResponse = ErrorCode(rawValue: "bad_response")
    /// The file does not have the digest that the job or the server gives.
    public static let checksumMismatch = ErrorCode(rawValue: "checksum_mismatch")
    /// The connection to the server could not be established.
    public static let connect = ErrorCode(rawValue: "connect")
    /// Too many workers were lost while they ran the job.
    public static let crashLoop = ErrorCode(rawValue: "crash_loop")
    /// The job was not done before its deadline.
    public static let deadline = ErrorCode(rawValue: "deadline")
    /// The name of the host does not resolve.
    public static let dns = ErrorCode(rawValue: "dns")
    /// Another file has the name already.
    public static let fileExists = ErrorCode(rawValue: "file_exists")
    /// The connection ended before the file was complete.
    public static let incomplete = ErrorCode(rawValue: "incomplete")
    /// The worker's disk failed, or the partial file was changed by another process.
    public static let io = ErrorCode(rawValue: "io")
    /// The worker reached a limit of its own, such as open files.
    public static let localLimit = ErrorCode(rawValue: "local_limit")
    /// A request that must not be sent twice was sent, and its outcome is unknown.
    public static let outcomeUnknown = ErrorCode(rawValue: "outcome_unknown")
    /// The path leads out of the root.
    public static let pathForbidden = ErrorCode(rawValue: "path_forbidden")
    /// The worker has no permission to write at the path.
    public static let permission = ErrorCode(rawValue: "permission")
    /// The worker's proxy failed or refused.
    public static let proxy = ErrorCode(rawValue: "proxy")
    /// A redirect leads from https to http, or to another scheme.
    public static let redirectForbidden = ErrorCode(rawValue: "redirect_forbidden")
    /// The remote file changes faster than it can be fetched.
    public static let remoteChanged = ErrorCode(rawValue: "remote_changed")
    /// The file does not have the ``Job/size`` of the job.
    public static let sizeMismatch = ErrorCode(rawValue: "size_mismatch")
    /// The file to be sent has changed since the upload began.
    public static let sourceChanged = ErrorCode(rawValue: "source_changed")
    /// The file to be sent does not exist.
    public static let sourceMissing = ErrorCode(rawValue: "source_missing")
    /// No byte arrived for too long.
    public static let stalled = ErrorCode(rawValue: "stalled")
    /// TLS failed: the server's certificate is not trusted, or the server requires a client certificate.
    public static let tls = ErrorCode(rawValue: "tls")
    /// The file is larger than the job allows.
    public static let tooLarge = ErrorCode(rawValue: "too_large")
    /// More than ten redirects.
    public static let tooManyRedirects = ErrorCode(rawValue: "too_many_redirects")
    /// The download was slower than the job allows.
    public static let tooSlow = ErrorCode(rawValue: "too_slow")
    /// The file does not have the ``Job/contentType`` of the job.
    public static let wrongContentType = ErrorCode(rawValue: "wrong_content_type")
}

/// Why a job, or one attempt at it, failed.
package struct Failure: Error, Sendable, Equatable, CustomStringConvertible {
    package var code: ErrorCode
    /// One sentence that says what to do. Contains no secret: the creator of the message has masked header values,
    /// credentials and query strings of URLs.
    package var message: String { didSet { message = message.clipped(to: Self.maxMessage) } }
    /// The wait that the server asked for in Retry-After, already capped. nil if there was no such field.
    package var retryAfter: Duration?
    /// Whether a retry is useless, even if other failures with the same code may be retried.
    package var isFinal: Bool
    /// Details for the worker's log alone, which no producer gets.
    package var detail: String?

    package init(_ code: ErrorCode, _ message: String, retryAfter: Duration? = nil, isFinal: Bool = false) {
        (self.code, self.retryAfter, self.isFinal) = (code, retryAfter, isFinal)
        self.message = message.clipped(to: Self.maxMessage)
    }

    /// Bytes. Longer messages are cut: a server's words may be in them.
    package static let maxMessage = 2000

    package var description: String { "\(code): \(message)" }
}
