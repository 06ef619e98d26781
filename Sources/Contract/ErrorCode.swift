/// A stable code for why a job failed, as it stands in the hash and in events. Open: a newer worker may send others.
public struct ErrorCode: RawRepresentable, Hashable, Sendable, Codable, CustomStringConvertible {
    public let rawValue: String
    public init(rawValue: String) { self.rawValue = rawValue }
    public var description: String { rawValue }

    /// An HTTP status that is an error: `http_404`.
    public static func http(_ status: Int) -> ErrorCode { ErrorCode(rawValue: "http_\(status)") }

    public static let addressForbidden = ErrorCode(rawValue: "address_forbidden")
    public static let badJob = ErrorCode(rawValue: "bad_job")
    public static let badResponse = ErrorCode(rawValue: "bad_response")
    public static let checksumMismatch = ErrorCode(rawValue: "checksum_mismatch")
    public static let connect = ErrorCode(rawValue: "connect")
    public static let crashLoop = ErrorCode(rawValue: "crash_loop")
    public static let deadline = ErrorCode(rawValue: "deadline")
    public static let dns = ErrorCode(rawValue: "dns")
    public static let fileExists = ErrorCode(rawValue: "file_exists")
    public static let incomplete = ErrorCode(rawValue: "incomplete")
    public static let io = ErrorCode(rawValue: "io")
    public static let localLimit = ErrorCode(rawValue: "local_limit")
    public static let pathForbidden = ErrorCode(rawValue: "path_forbidden")
    public static let permission = ErrorCode(rawValue: "permission")
    public static let proxy = ErrorCode(rawValue: "proxy")
    public static let redirectForbidden = ErrorCode(rawValue: "redirect_forbidden")
    public static let remoteChanged = ErrorCode(rawValue: "remote_changed")
    public static let sizeMismatch = ErrorCode(rawValue: "size_mismatch")
    public static let stalled = ErrorCode(rawValue: "stalled")
    public static let tls = ErrorCode(rawValue: "tls")
    public static let tooLarge = ErrorCode(rawValue: "too_large")
    public static let tooManyRedirects = ErrorCode(rawValue: "too_many_redirects")
    public static let tooSlow = ErrorCode(rawValue: "too_slow")
    public static let wrongContentType = ErrorCode(rawValue: "wrong_content_type")
}

/// Why a job, or one attempt at it, did not succeed.
public struct Failure: Error, Sendable, Equatable, CustomStringConvertible {
    public var code: ErrorCode
    /// One sentence that tells a person what to do. Holds no secret: header values, credentials and query strings of
    /// URLs are masked before they come here.
    public var message: String
    /// The server asked to be left alone for this long (Retry-After), already capped; nil if it did not say.
    public var retryAfter: Duration?
    /// It stays as it is however often it is tried, though others with this code may pass.
    public var isFinal: Bool

    public init(_ code: ErrorCode, _ message: String, retryAfter: Duration? = nil, isFinal: Bool = false) {
        (self.code, self.message, self.retryAfter, self.isFinal) = (code, message, retryAfter, isFinal)
    }

    public var description: String { "\(code): \(message)" }
}
