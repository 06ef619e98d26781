/// A stable code for why a job failed, as in the job's hash and in events. A newer worker may send further codes.
///
/// The first paragraph of a code says what happened, the second one what to do; docs/reference/errors.md is made of them.
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

    /// The URL leads to an address that the operator has not allowed, or names a bucket that is none of the worker's
    /// sources.
    ///
    /// Use a public address, or ask the operator for `--allow-address`, or for `--source` if it is a bucket.
    public static let addressForbidden = ErrorCode(rawValue: "address_forbidden")
    /// The job cannot be done as it is, or its element is gone from Redis or unreadable.
    ///
    /// Correct what the message names, and push the job again.
    public static let badJob = ErrorCode(rawValue: "bad_job")
    /// The server's response is not valid HTTP, contradicts itself, or does not come to an end: a head of more than
    /// 128 KiB or 512 fields, or more than 100 interim responses.
    ///
    /// Look at the server.
    public static let badResponse = ErrorCode(rawValue: "bad_response")
    /// The file does not have the digest that the job or the server gives.
    ///
    /// Ask whoever published the file or the digest; then push the job again with the right one.
    public static let checksumMismatch = ErrorCode(rawValue: "checksum_mismatch")
    /// The connection to the server could not be established.
    ///
    /// Look at the server and its port.
    public static let connect = ErrorCode(rawValue: "connect")
    /// The job was lost with its worker 6 times while it was at work, without a checkpoint in between.
    ///
    /// Look at the logs of the workers and of the kernel (out of memory?), then retry the job.
    public static let crashLoop = ErrorCode(rawValue: "crash_loop")
    /// The job was not done before its deadline. If the deadline has passed when a worker takes the job, no server is
    /// asked.
    ///
    /// Push the job again with a later deadline if its result is still wanted.
    public static let deadline = ErrorCode(rawValue: "deadline")
    /// The name of the host does not resolve. A name that does not exist, as the resolver says, ends the job at once.
    ///
    /// Check the name in the URL, and the resolver of the worker.
    public static let dns = ErrorCode(rawValue: "dns")
    /// Another file has the name already.
    ///
    /// Choose another `path` or `if_exists`.
    public static let fileExists = ErrorCode(rawValue: "file_exists")
    /// The gate of the worker (`--gate`) could not judge the file: it ended with another status than 0 and 1, took too
    /// long, or could not be run. The job waits half a minute or more, and the gate sees the file again.
    ///
    /// Look at the command of `--gate` and at what it needs, such as a scanner that must run; then retry the job.
    public static let gateFailed = ErrorCode(rawValue: "gate_failed")
    /// The gate of the worker (`--gate`) refused the file. The message is the last line that its command wrote.
    ///
    /// Look at the message. If the gate is wrong, change it and retry the job, which fetches the file again.
    public static let gateRefused = ErrorCode(rawValue: "gate_refused")
    /// The connection ended before the file was complete, or without TLS' close_notify where only that marks the end.
    /// The job continues from its offsets.
    ///
    /// Nothing, unless it stays so: then look at the server.
    public static let incomplete = ErrorCode(rawValue: "incomplete")
    /// The worker's disk or bucket failed, a body without a length has filled the disk, another process has replaced or
    /// cut the partial file, or the credentials for a bucket of `--source` are missing or have expired.
    ///
    /// Look at the disk, the bucket or the credentials of the worker; its log says more.
    public static let io = ErrorCode(rawValue: "io")
    /// The worker reached a limit of its own, such as open files.
    ///
    /// Raise the limit of the worker that its log names.
    public static let localLimit = ErrorCode(rawValue: "local_limit")
    /// A request that must not be sent twice was sent, and no complete response came.
    ///
    /// Look at the server whether it was done. Then retry the job, or push it with `idempotent`.
    public static let outcomeUnknown = ErrorCode(rawValue: "outcome_unknown")
    /// The path leads out of the root by a link, or cannot be a key of the bucket; or an upload came to a worker without
    /// `--upload-from`.
    ///
    /// Choose another `path`, or ask the operator for `--upload-from`.
    public static let pathForbidden = ErrorCode(rawValue: "path_forbidden")
    /// The worker has no permission to write at the path, or the bucket refuses it.
    ///
    /// Check the owner and the mode of the directory in the root, or the policy of the bucket.
    public static let permission = ErrorCode(rawValue: "permission")
    /// The worker's proxy failed or refused.
    ///
    /// Look at the proxy.
    public static let proxy = ErrorCode(rawValue: "proxy")
    /// A redirect leads from https to http, or to another scheme.
    ///
    /// Push the URL to which it leads, if you trust it.
    public static let redirectForbidden = ErrorCode(rawValue: "redirect_forbidden")
    /// The remote file changes faster than it can be fetched.
    ///
    /// Wait until the file no longer changes.
    public static let remoteChanged = ErrorCode(rawValue: "remote_changed")
    /// The file does not have the ``Job/size`` of the job.
    ///
    /// Check the size, or ask whoever published the file.
    public static let sizeMismatch = ErrorCode(rawValue: "size_mismatch")
    /// The file to be sent was changed, replaced or removed since the upload began.
    ///
    /// Push the job again when the file no longer changes.
    public static let sourceChanged = ErrorCode(rawValue: "source_changed")
    /// The file to be sent is not beneath the `--upload-from` of the worker that took the job.
    ///
    /// Push the job again when the file is there. Workers of a queue should share that directory.
    public static let sourceMissing = ErrorCode(rawValue: "source_missing")
    /// No byte arrived for ``Job/stallTimeout``. The job continues from its offsets.
    ///
    /// Nothing, unless it stays so: then look at the server.
    public static let stalled = ErrorCode(rawValue: "stalled")
    /// TLS failed. A certificate that cannot be trusted (an unknown authority, expired, for another name) and a server
    /// that requires a client certificate end the job at once.
    ///
    /// Look at the certificate of the server. `--ca` trusts another authority, `--client-cert` shows a certificate.
    public static let tls = ErrorCode(rawValue: "tls")
    /// The file or the response is larger than the job, the worker, its file system or the server allows.
    ///
    /// Raise `max_bytes`, `max_response` or `--max-file-size`, or check what the server sends. If the message names the
    /// file system, retry the job when a worker has a larger one: then `retryable` is true.
    public static let tooLarge = ErrorCode(rawValue: "too_large")
    /// More than ten redirects.
    ///
    /// Check the URL.
    public static let tooManyRedirects = ErrorCode(rawValue: "too_many_redirects")
    /// The download was slower than the `min_speed` of the job, its queue or its host over 30 s, or the run took longer
    /// than `max_seconds` of its queue or host.
    ///
    /// Lower `min_speed`, use another mirror, or ask the operator for more time.
    public static let tooSlow = ErrorCode(rawValue: "too_slow")
    /// The file does not have the ``Job/contentType`` of the job.
    ///
    /// Check the URL: servers often answer with a page instead of a file.
    public static let wrongContentType = ErrorCode(rawValue: "wrong_content_type")
}

/// Why a job, or one attempt at it, failed.
package struct Failure: Error, Sendable, Equatable, CustomStringConvertible {
    package var code: ErrorCode
    /// One sentence that says what to do. Contains no secret: the creator of the message has masked header values,
    /// credentials and query strings of URLs.
    package var message: String { didSet { message = message.truncated(toBytes: Self.maxMessage) } }
    /// The pause that the server asked for in Retry-After, however long. nil if there was no such field.
    package let requestedPause: Duration?
    /// The same, but at most an hour: a worker does not wait longer because of one response.
    package var retryAfter: Duration? { requestedPause.map { min($0, .seconds(3600)) } }
    /// Whether a retry is useless, even if other failures with the same code may be retried.
    package var isFinal: Bool
    /// The host of the mirror that failed, with its port; nil if it was the job's first URL.
    package var mirror: String?
    /// Whether another mirror may do better, although the code does not say so: a bucket's credentials are missing.
    package var blamesMirror = false
    /// Whether the job may succeed on another worker, although it is not retried by itself: this one's disk is too small.
    package var dependsOnWorker = false
    /// Details for the worker's log alone, which no producer gets.
    package var detail: String?

    package init(_ code: ErrorCode, _ message: String, retryAfter: Duration? = nil, isFinal: Bool = false) {
        (self.code, requestedPause, self.isFinal) = (code, retryAfter, isFinal)
        self.message = message.truncated(toBytes: Self.maxMessage)
    }

    /// Bytes. Longer messages are cut: a server's words may be in them.
    package static let maxMessage = 2000

    package var description: String { "\(code): \(message)" }
}
