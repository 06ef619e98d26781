import HaulContract
import HaulHTTP

/// Why an object store has not executed a request.
struct StoreError: Error, Sendable, Equatable {
    /// What the error means for the caller.
    enum Kind: Sendable, Equatable {
        /// A retry may succeed.
        case transient
        /// The server requires fewer requests.
        case throttled
        /// The local clock and the server's differ by too much.
        case clock
        /// The credentials have expired.
        case expired
        /// The bucket is in another region: this one, if the server names it.
        case region(String?)
        case noSuchUpload, noSuchObject, noSuchBucket
        /// A condition of the request does not hold.
        case precondition
        /// The store does not support the request.
        case unknownRequest
        /// The credentials do not allow the request.
        case denied
        /// The store has no space, or a quota is used up.
        case full
        /// A retry would be refused again.
        case permanent
        /// The task was cancelled.
        case cancelled
    }

    let status: Int
    /// The server's error code, or the status if the server sends none; one of Haul if there was no response.
    let code: String
    let message: String
    let kind: Kind

    /// - Parameter body: The XML of the response; nil if it has none, as after a HEAD.
    init(status: Int, headers: HeaderFields, body: XMLElement?) {
        let error = body?.name == "Error" ? body : nil
        self.status = status
        code = (error?.text("Code") ?? headers["x-amz-error-code"] ?? "HTTP \(status)").truncated(toBytes: 100)
        message = (error?.text("Message") ?? "").truncated(toBytes: 200)
        let region = (headers["x-amz-bucket-region"] ?? error?.text("Region"))?.truncated(toBytes: 100)
        kind = Self.kind(of: code, status, region: region)
    }

    init(status: Int, code: String, message: String, kind: Kind) {
        (self.status, self.code, self.message, self.kind) = (status, code, message, kind)
    }

    private static func kind(of code: String, _ status: Int, region: String?) -> Kind {
        switch code {
        case "SlowDown", "ServiceUnavailable", "Throttling", "ThrottlingException", "RequestLimitExceeded",
            "TooManyRequests", "RequestThrottled", "BandwidthLimitExceeded":
            return .throttled
        case "InternalError", "RequestTimeout", "OperationAborted", "ConditionalRequestConflict", "BadDigest",
            "IncompleteBody", "XAmzContentSHA256Mismatch":
            return .transient
        case "RequestTimeTooSkewed", "RequestExpired": return .clock
        case "ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired": return .expired
        case "PermanentRedirect", "TemporaryRedirect", "AuthorizationHeaderMalformed",
            // The same about a presigned request.
            "AuthorizationQueryParametersError", "IllegalLocationConstraintException":
            return .region(region)
        case "NoSuchUpload": return .noSuchUpload
        case "NoSuchKey": return .noSuchObject
        case "NoSuchBucket": return .noSuchBucket
        case "PreconditionFailed": return .precondition
        case "NotImplemented": return .unknownRequest
        case "AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "AllAccessDisabled",
            "AccountProblem":
            return .denied
        case "QuotaExceeded", "XMinioStorageFull", "InsufficientCapacity", "StorageFull": return .full
        default: break
        }
        switch status {
        case 301, 307, 308: return .region(region)
        case 404: return .noSuchObject
        case 408: return .transient
        case 409: return .transient
        case 412: return .precondition
        case 429, 503: return .throttled
        case 501: return .unknownRequest
        case 507: return .full
        case 500...599: return .transient
        case 401, 403: return .denied
        default: return .permanent
        }
    }

    /// A sentence for messages. Contains no secret, because the server's message about a signature is left out.
    var summary: String {
        // There was no response.
        if status == 0 { return "\(code): \(message)" }
        let isAboutSignature = code == "SignatureDoesNotMatch"
        let detail = isAboutSignature || message.isEmpty ? "" : ": \(message)"
        return "\(code) (HTTP \(status))\(detail)"
    }

    /// The failure as it is recorded in the job's hash.
    var failure: Failure {
        if status == 0 { return Failure(.io, "a request to the object store failed, \(summary)") }
        return switch kind {
        case .denied:
            Failure(.permission, "the object store refuses access, \(summary): check the credentials and the policy")
        case .noSuchBucket: Failure(.io, "the object store has no such bucket, \(summary)")
        default: Failure(.io, "the object store refused a request, \(summary)")
        }
    }
}

extension StoreError {
    /// There was no response, or none that could be read. The status is 0.
    init(_ error: TransferError) {
        switch error {
        case .failed(let failure):
            self.init(status: 0, code: failure.code.rawValue, message: failure.message, kind: .transient)
        case .noSpace: self.init(status: 0, code: "io", message: "no space", kind: .transient)
        case .cancelled: self.init(status: 0, code: "cancelled", message: "", kind: .cancelled)
        }
    }

    /// The error that the activity gets.
    var transferError: TransferError { kind == .cancelled ? .cancelled : kind == .full ? .noSpace : .failed(failure) }
}

/// A response of an object store.
struct StoreResponse: Sendable {
    let status: Int
    let headers: HeaderFields
    let body: [UInt8]

    /// The maximum bytes of an ETag or an upload's id. Both are stored for each part, and sent back.
    static let maxToken = 1024

    var xml: XMLElement? { body.isEmpty ? nil : XMLElement(body) }

    /// The ETag without its quotes; nil if there is none.
    var etag: String? { headers["etag"].flatMap(Self.unquoted) }

    /// An ETag without its quotes; nil if it is empty, as some servers send it, or too long to be stored.
    static func unquoted(_ text: String) -> String? {
        guard text.utf8.count <= maxToken else { return nil }
        let bare = text.replacing("\"", with: "")
        return bare.isEmpty ? nil : bare
    }
}
