import HaulContract
import HaulHTTP

/// What to do with a response, decided on its head alone, before the first body byte.
enum ResponseDecision: Equatable {
    /// The whole entity, from byte 0: a new one, whatever there was before.
    case takeWhole(Entity, length: Int64?)
    /// The bytes that were asked for, or the first of them.
    case takePart(at: Int64, length: Int64)
    /// The server does not honour If-Range, though nothing has changed: ask once more without it.
    case askWithoutIfRange
    /// What is there is of another version: drop it and begin anew.
    case restart(why: String)
    /// The same, and from now on over one response only: parts of this server's do not say which version they are of.
    case restartWhole(why: String)
    case unchanged
    case fail(Failure)
}

/// What was asked, as far as it decides what is done with the answer.
struct Question: Sendable {
    enum Kind: Sendable {
        case whole
        /// Bytes from `position` to `end` (nil: to the end) of `entity`.
        case part(position: Int64, end: Int64?, of: Entity, ifRange: Bool)
        /// Whole, if it is not `entity` any more.
        case changed(Entity)
    }

    let kind: Kind
    /// A checksum will be compared with the whole file, so bytes may be joined without a validator.
    let isProven: Bool
    /// What the answer is of: `Entity.resource`.
    var resource = ""

    /// Where a 206 is accepted, and everything else.
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
            return .fail(Failure(.badResponse, "the server sent a part (206) though the whole was asked for"))
        case (304, .changed): return .unchanged
        // Some servers take If-Range for a question of its own (WEBrick): the validator is the right one.
        case (304, .part(_, _, _, true)): return .askWithoutIfRange
        case (416, .part): return .restart(why: "the server has no such range any more")
        case (204, _), (205, _): return .fail(Failure(.badResponse, "the server sent no content (\(head.status))"))
        default: return .fail(refusal(head))
        }
    }

    /// 203 is a 200 that was changed on its way. To another method than GET any success may carry what is wanted, as 201 does
    /// to POST.
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

    /// Some servers call the whole a part, of all bytes.
    private func wholeAsPart(_ head: ResponseHead) -> ResponseDecision? {
        guard let answer = range(of: head), let total = answer.total, answer.range == 0..<total,
            head.length == .bytes(total)
        else { return nil }
        return .takeWhole(Entity(head, total: total, resource: resource), length: total)
    }

    /// The range that a part says it is; nil if it says none, or several.
    private func range(of head: ResponseHead) -> ContentRange? {
        // Whatever a head claims of them, several parts are not the bytes themselves.
        let isMultipart = head.headers["content-type"]?.lowercased().hasPrefix("multipart/byteranges") ?? false
        let headers = head.headers.all("content-range")
        return isMultipart || headers.count != 1 ? nil : ContentRange(headers[0])
    }

    private func wholeInstead(_ head: ResponseHead, of entity: Entity, ifRange: Bool) -> ResponseDecision {
        guard case .takeWhole(let new, _) = whole(head), new.isSame(as: entity) else {
            return .restart(why: "the remote file has changed")
        }
        return ifRange
            ? .askWithoutIfRange : .restart(why: "the server does not continue: it sends the whole file again")
    }

    private func part(_ head: ResponseHead, at position: Int64, end: Int64?, of entity: Entity) -> ResponseDecision {
        guard let answer = range(of: head), let total = answer.total else {
            return .restart(why: "the server's part has no usable Content-Range, or is several parts")
        }
        guard answer.range.lowerBound == position, end.map({ answer.range.upperBound <= $0 }) ?? true else {
            return .restart(why: "the server sent other bytes than were asked for")
        }
        guard total == entity.total, (head.headers["content-encoding"] ?? "") == entity.encoding else {
            return .restart(why: "the remote file has changed its length")
        }
        guard resource == entity.resource || isProven else {
            return .restart(why: "the URL leads elsewhere now, where a validator may mean another file")
        }
        guard repeatsValidator(head, of: entity) else {
            return .restartWhole(why: "the server's part does not say which version it is of")
        }
        guard head.headers["etag"] == entity.etag, !entity.isModified(head.headers["last-modified"]),
            !entity.contradicts(DigestFields.checksum(head)),
            entity.strongValidator != nil || isProven
        else {
            return .restart(why: "the remote file has changed, or nothing proves that it has not")
        }
        let length = answer.range.upperBound - answer.range.lowerBound
        if case .bytes(let count) = head.length, count != length {
            return .fail(Failure(.badResponse, "the server's Content-Range and Content-Length contradict each other"))
        }
        return .takePart(at: position, length: length)
    }

    /// Whether a part tells the validator that the join relies on. RFC 9110 section 15.3.7 lets it leave out a Last-Modified
    /// that If-Range had; but then nothing but the server's care for If-Range would say that it is of the same version.
    private func repeatsValidator(_ head: ResponseHead, of entity: Entity) -> Bool {
        guard !head.hasContradictoryValidators else { return false }
        if entity.etag != nil, head.headers["etag"] == nil { return false }
        let isDateNeeded = !isProven && entity.strongETag == nil && entity.lastModifiedIsStrong
        return !isDateNeeded || head.headers["last-modified"] != nil
    }

    private func refusal(_ head: ResponseHead) -> Failure {
        let advice =
            switch head.status {
            case 401, 403: "the server refuses access: check the credentials or the signed URL"
            case 404, 410: "the server has no such file: check the URL"
            case 407: "the proxy wants credentials"
            case 408, 425, 429, 503: "the server asks to be left alone for a while"
            case 500...599: "the server is in trouble"
            default: "the server does not give the file"
            }
        // A date is by the server's own clock.
        let now = head.headers["date"].flatMap(HTTPDate.parse) ?? UnixTime.seconds
        return Failure(
            .http(head.status), "\(advice) (HTTP \(head.status))",
            retryAfter: head.headers["retry-after"].flatMap { RetryPolicy.retryAfter($0, now: now) })
    }
}
