import HaulContract
import HaulHTTP

/// What to do with a response. Its head alone decides, before the first byte of the body.
enum ResponseDecision: Equatable {
    /// Take the whole entity from byte 0. It begins a new generation, whatever was there before.
    case takeWhole(Entity, length: Int64?)
    /// Take the requested bytes, or the first of them.
    case takePart(at: Int64, length: Int64)
    /// Nothing has changed, but the server does not honour If-Range: ask once more without it.
    case askWithoutIfRange
    /// The bytes so far are of another version: drop them and restart.
    case restart(why: String)
    /// The same, and from now on over one response only: this server's parts do not name their version.
    case restartWhole(why: String)
    case unchanged
    case fail(Failure)
}

/// The request, as far as it decides what is done with the response.
struct ResponseExpectation: Sendable {
    enum Kind: Sendable {
        case whole
        /// The bytes of `entity` from `position` up to `end` (nil: up to its end).
        case part(position: Int64, end: Int64?, of: Entity, ifRange: Bool)
        /// The whole entity, if its version is no longer `entity`.
        case changed(Entity)
    }

    let kind: Kind
    /// A digest will verify the whole file, so bytes may be joined without a validator.
    let isProven: Bool
    /// The `Entity.resource` of the response.
    var resource = ""

    /// Why a download restarts at a server that does not support ranges. The file has not changed.
    static let wholeAgain = "the server does not continue: it sends the whole file again"

    /// Decides about every response. This is the only place that accepts a 206.
    func decision(on head: ResponseHead) -> ResponseDecision {
        if head.length == .invalid {
            return .fail(
                Failure(
                    .badResponse,
                    "the server sent differing or unreadable lengths, or a transfer coding that was not asked for"))
        }
        if carriesWhole(head) {
            guard case .part(_, _, let entity, let ifRange) = kind else { return whole(head) }
            return wholeInstead(head, of: entity, ifRange: ifRange)
        }
        switch (head.status, kind) {
        case (206, .part(let position, let end, let entity, _)): return part(head, at: position, end: end, of: entity)
        case (206, .whole), (206, .changed):
            if let whole = wholeAsPart(head) { return whole }
            return .fail(Failure(.badResponse, "the server sent a part (206) although the whole file was requested"))
        case (304, .changed): return .unchanged
        // Some servers (WEBrick) answer 304 to If-Range: then the validator is still the right one.
        case (304, .part(_, _, _, true)): return .askWithoutIfRange
        case (416, .part): return .restart(why: "the server has no such range any more")
        case (204, _), (205, _):
            // A repetition would get the same response.
            return .fail(
                Failure(.badResponse, "the server sent no content (\(head.status))", isFinal: true))
        default: return .fail(refusal(head))
        }
    }

    /// Whether a file ends at `position`, by the response to a request for what follows; nil if the response does not
    /// say.
    static func ends(at position: Int64, _ head: ResponseHead) -> Bool? {
        let range = head.headers["content-range"]
        switch head.status {
        case 206: return range.flatMap(ContentRange.init)?.range.lowerBound == position ? false : nil
        case 416:
            guard let range, range.hasPrefix("bytes */") else { return true }
            return Int64(range.dropFirst(8)).flatMap { $0 < position ? nil : $0 == position }
        case 200:
            // A shorter one may be another version.
            guard case .bytes(let length) = head.length, length >= position else { return nil }
            return length == position
        default: return nil
        }
    }

    /// A 203 is a 200 that a proxy has changed. For other methods any success may carry the file, like a 201 for POST.
    private func carriesWhole(_ head: ResponseHead) -> Bool {
        switch head.status {
        case 200, 203: true
        case 204, 205, 206: false
        case 201..<300: head.method != "GET"
        default: false
        }
    }

    private func whole(_ head: ResponseHead) -> ResponseDecision {
        let length: Int64? = if case .bytes(let count) = head.length { count } else { nil }
        return .takeWhole(Entity(head, total: length, resource: resource), length: length)
    }

    /// Some servers send the whole as a part (206) of all bytes.
    private func wholeAsPart(_ head: ResponseHead) -> ResponseDecision? {
        guard let contentRange = range(of: head), let total = contentRange.total, contentRange.range == 0..<total,
            head.length == .bytes(total)
        else { return nil }
        return .takeWhole(Entity(head, total: total, resource: resource), length: total)
    }

    /// The Content-Range of a part. nil if there is none, or several.
    private func range(of head: ResponseHead) -> ContentRange? {
        // Several parts in one body are not the bytes themselves, whatever the head says about them.
        let isMultipart = head.headers["content-type"]?.lowercased().hasPrefix("multipart/byteranges") ?? false
        let headers = head.headers.all("content-range")
        return isMultipart || headers.count != 1 ? nil : ContentRange(headers[0])
    }

    private func wholeInstead(_ head: ResponseHead, of entity: Entity, ifRange: Bool) -> ResponseDecision {
        guard case .takeWhole(let new, _) = whole(head), new.isSame(as: entity) else {
            return .restart(why: "the remote file has changed")
        }
        return ifRange
            ? .askWithoutIfRange : .restart(why: Self.wholeAgain)
    }

    private func part(_ head: ResponseHead, at position: Int64, end: Int64?, of entity: Entity) -> ResponseDecision {
        guard let contentRange = range(of: head), let total = contentRange.total else {
            return .restart(why: "the server's part has no usable Content-Range, or is several parts")
        }
        guard contentRange.range.lowerBound == position, end.map({ contentRange.range.upperBound <= $0 }) ?? true else {
            return .restart(why: "the server sent other bytes than were requested")
        }
        guard total == entity.total, head.encoding == entity.encoding else {
            return .restart(why: "the remote file has changed its length")
        }
        guard resource == entity.resource || isProven else {
            return .restart(
                why: "the URL has another query or redirects elsewhere, where a validator may mean another file")
        }
        guard repeatsValidator(head, of: entity) else {
            return .restartWhole(why: "the server's part does not say which version it is of")
        }
        guard head.etag == entity.etag, !entity.isModified(head.headers["last-modified"]),
            !entity.contradicts(DigestFields.checksum(head)),
            entity.strongValidator != nil || isProven
        else {
            return .restart(why: "the remote file has changed, or nothing proves that it has not")
        }
        let length = contentRange.range.upperBound - contentRange.range.lowerBound
        if case .bytes(let count) = head.length, count != length {
            return .fail(Failure(.badResponse, "the server's Content-Range and Content-Length contradict each other"))
        }
        return .takePart(at: position, length: length)
    }

    /// Whether a part repeats the validator that the join relies on. RFC 9110 section 15.3.7 lets a part leave out the
    /// Last-Modified of If-Range. But then only an If-Range that the server honoured would prove the version.
    private func repeatsValidator(_ head: ResponseHead, of entity: Entity) -> Bool {
        guard !head.hasUnusableValidators else { return false }
        if entity.etag != nil, head.etag == nil { return false }
        let isDateNeeded = !isProven && entity.strongETag == nil && entity.lastModifiedIsStrong
        return !isDateNeeded || head.headers["last-modified"] != nil
    }

    private func refusal(_ head: ResponseHead) -> Failure {
        let advice =
            switch head.status {
            case 401, 403: "the server refuses access: check the credentials or the signed URL"
            case 404, 410: "the server has no such file: check the URL"
            case 407: "the proxy requires credentials"
            case 408, 425: "the server gave up on the request"
            case 429: "the server limits the number of requests"
            case 503: "the server is unavailable"
            case 500...599: "the server has an error"
            default: "the server does not send the file"
            }
        // A date in Retry-After is by the server's own clock.
        let now = head.headers["date"].flatMap(HTTPDate.parse) ?? UnixTime.seconds
        return Failure(
            .http(head.status), "\(advice) (HTTP \(head.status))",
            retryAfter: head.headers["retry-after"].flatMap { RetryPolicy.retryAfter($0, now: now) })
    }
}
