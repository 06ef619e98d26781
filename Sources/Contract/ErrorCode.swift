/// A stable code for why a job failed, as it stands in the hash and in events. Open: a newer worker may send others.
public struct ErrorCode: RawRepresentable, Hashable, Sendable, Codable, CustomStringConvertible {
    /// As it is on the wire: `http_404`, `checksum_mismatch`.
    public let rawValue: String
    /// Any code, known to this version or not.
    public init(rawValue: String) { self.rawValue = rawValue }
    /// The code as it is on the wire.
    public var description: String { rawValue }

    /// An HTTP status that is an error: `http_404`.
    public static func http(_ status: Int) -> ErrorCode { ErrorCode(rawValue: "http_\(status)") }

    /// The HTTP status, if that is what the code tells.
    public var httpStatus: Int? { rawValue.hasPrefix("http_") ? Int(rawValue.dropFirst(5)) : nil }

    /// The URL leads to an address that the operator has not allowed.
    public static let addressForbidden = ErrorCode(rawValue: "address_forbidden")
    /// The job cannot be done as it is, or what was pushed is gone.
    public static let badJob = ErrorCode(rawValue: "bad_job")
    /// The server sends what is no valid HTTP.
    public static let badResponse = ErrorCode(rawValue: "bad_response")
    /// The file is not what the job, or the server, says.
    public static let checksumMismatch = ErrorCode(rawValue: "checksum_mismatch")
    /// No connection to the server comes about.
    public static let connect = ErrorCode(rawValue: "connect")
    /// The job was lost with its worker again and again.
    public static let crashLoop = ErrorCode(rawValue: "crash_loop")
    /// The job was not done in time.
    public static let deadline = ErrorCode(rawValue: "deadline")
    /// The name of the host does not resolve.
    public static let dns = ErrorCode(rawValue: "dns")
    /// Another file has the name already.
    public static let fileExists = ErrorCode(rawValue: "file_exists")
    /// The connection ended before the file did.
    public static let incomplete = ErrorCode(rawValue: "incomplete")
    /// The worker's disk refused.
    public static let io = ErrorCode(rawValue: "io")
    /// The worker reached a limit of its own, such as open files.
    public static let localLimit = ErrorCode(rawValue: "local_limit")
    /// A request was sent that must not be sent twice, and nobody knows what came of it.
    public static let outcomeUnknown = ErrorCode(rawValue: "outcome_unknown")
    /// The path leads out of the root.
    public static let pathForbidden = ErrorCode(rawValue: "path_forbidden")
    /// The worker may not write there.
    public static let permission = ErrorCode(rawValue: "permission")
    /// The worker's proxy refused.
    public static let proxy = ErrorCode(rawValue: "proxy")
    /// A redirect leads from https to http, or to another scheme.
    public static let redirectForbidden = ErrorCode(rawValue: "redirect_forbidden")
    /// The remote file changes faster than it can be fetched.
    public static let remoteChanged = ErrorCode(rawValue: "remote_changed")
    /// The file does not have the size that the job says.
    public static let sizeMismatch = ErrorCode(rawValue: "size_mismatch")
    /// What is sent has changed on the way, or since the upload began.
    public static let sourceChanged = ErrorCode(rawValue: "source_changed")
    /// The file that is to be sent is not there.
    public static let sourceMissing = ErrorCode(rawValue: "source_missing")
    /// No byte came for too long.
    public static let stalled = ErrorCode(rawValue: "stalled")
    /// TLS does not come about: the certificate is not trusted, or the server wants one.
    public static let tls = ErrorCode(rawValue: "tls")
    /// The file is larger than the job allows.
    public static let tooLarge = ErrorCode(rawValue: "too_large")
    /// More than ten redirects.
    public static let tooManyRedirects = ErrorCode(rawValue: "too_many_redirects")
    /// The download was slower than the job allows.
    public static let tooSlow = ErrorCode(rawValue: "too_slow")
    /// The media type is not the one that the job says.
    public static let wrongContentType = ErrorCode(rawValue: "wrong_content_type")
}

/// Why a job, or one attempt at it, did not succeed.
package struct Failure: Error, Sendable, Equatable, CustomStringConvertible {
    package var code: ErrorCode
    /// One sentence that tells a person what to do. Holds no secret: header values, credentials and query strings of
    /// URLs are masked before they come here.
    package var message: String
    /// The server asked to be left alone for this long (Retry-After), already capped; nil if it did not say.
    package var retryAfter: Duration?
    /// It stays as it is however often it is tried, though others with this code may pass.
    package var isFinal: Bool

    package init(_ code: ErrorCode, _ message: String, retryAfter: Duration? = nil, isFinal: Bool = false) {
        (self.code, self.message, self.retryAfter, self.isFinal) = (code, message, retryAfter, isFinal)
    }

    package var description: String { "\(code): \(message)" }
}
