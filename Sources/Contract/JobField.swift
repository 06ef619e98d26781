/// A field of a job. `all` is the contract's table of fields. `Job.init(json:)` reads the table, and
/// Bus/Library/LuaHead.swift renders it into the Lua of the claim function (Bus/Lua/claim/gate.lua). So the client and
/// the claim of an element that was pushed by a raw LPUSH refuse the same values with the same messages.
package struct JobField: Sendable {
    package enum Kind: Sendable, Equatable {
        case url, urls, id, path, file, files, checksum, method, headers, meta, mediaType, ticket, items, json, base64,
            statuses, flag, batch, notify, steps
        case choice([String])
        case integer(ClosedRange<Int64>)
        case number(ClosedRange<Double>)
        /// A string of at most this many bytes.
        case text(Int)
    }

    package let name: String
    package let kind: Kind
    /// The error message for a wrong value, without the field's name. `reason(against:of:)` may name one rule of
    /// several.
    package let rule: String
    /// The kinds of jobs that may have this field.
    package let kinds: Set<Job.Kind>

    private init(_ name: String, _ kind: Kind, _ rule: String, of kinds: Set<Job.Kind> = Set(Job.Kind.allCases)) {
        (self.name, self.kind, self.rule, self.kinds) = (name, kind, rule, kinds)
    }

    /// The error message, without the field's name, for a field that jobs of this kind do not have.
    package static func inapplicableRule(_ kind: Job.Kind) -> String { "is not a field of \(kind.nameWithArticle)" }
    /// The message for an unknown kind. A claim does not use it for a kind with a valid name: it defers the element
    /// for workers that know this kind (docs/reference/bus.md, "Kinds").
    package static let kindRule = "must be " + Job.Kind.allCases.map(\.rawValue).joined(separator: " or ")
    /// The kinds of jobs that keep a response.
    private static let withResponse: Set<Job.Kind> = [.request, .upload]
    package static let bodyRule = "must be the only one of body, json, form and body_base64"

    /// The largest integer that every JSON parser keeps exact.
    package static let maxInteger: Int64 = 1 << 53 - 1
    /// The maximum size of an element in bytes, so that no element keeps Redis busy for long.
    package static let maxElementBytes = 16 << 10
    package static let elementRule = "must be at most \(maxElementBytes) bytes"
    /// The maximum size of an element without the contents of its strings, because such a byte costs Redis more time
    /// than a byte of a string.
    package static let maxSkeletonBytes = 6 << 10
    package static let skeletonRule = "must be at most \(maxSkeletonBytes) bytes besides its texts"
    package static let maxHeaders = 256
    package static let version: Int64 = 1
    /// An unknown field whose name begins like this may be a limit of a later version. Without it a job would run
    /// unlimited, so the element is refused.
    package static let limitPrefixes = ["limit_", "max_", "min_"]
    package static let unknownLimitRule =
        "is not known to this version, and limits (max_, min_, limit_) are not ignored: remove it or upgrade the workers"
    /// Names of unknown limits are clipped to this many bytes in messages.
    package static let shownName = 64
    /// The fields that a continuation may have.
    package static let continuation: Set<String> = ["id", "v", "at", "t"]
    /// Headers that only the engine may set in a download (lower case).
    package static let forbiddenHeaders: Set<String> = [
        "range", "accept-encoding", "host", "content-length", "transfer-encoding", "connection",
    ]
    /// In a download, headers with this prefix are forbidden as well.
    package static let forbiddenPrefix = "if-"
    /// Headers that only the engine may set in a request or an upload (lower case). These may have conditions, ranges
    /// and content codings of their own, because they fetch no file.
    package static let forbiddenInRequests: Set<String> = [
        "host", "content-length", "transfer-encoding", "connection", "expect",
    ]

    /// Unix milliseconds from 2001 to 5138. Smaller numbers are seconds, larger ones are microseconds or nanoseconds.
    package static let timestamps: ClosedRange<Int64> = 1_000_000_000_000...99_999_999_999_999
    package static let timestampRule =
        "must be unix milliseconds like 1763712000000, not seconds, microseconds or nanoseconds"

    private static let maxSeconds = 1e10
    private static let seconds = "must be a number of seconds from 0 to \(Int64(maxSeconds))"
    private static let count = "must be a whole number from 0 to \(maxInteger)"

    private static let items = "an object of at most \(maxHeaders) names and texts, numbers, true or false"

    package static let all: [JobField] = [
        JobField("kind", .choice(Job.Kind.allCases.map(\.rawValue)), kindRule),
        JobField("url", .url, URLRule.text),
        JobField("urls", .urls, "must be a list of 1 to 16 http or https URLs", of: [.download]),
        JobField("id", .id, "must be 1 to 128 of the characters A-Z a-z 0-9 . _ : -"),
        JobField(
            "path", .path,
            "must be relative, of at most 4096 bytes, without control characters; no part may be . or .., begin with "
                + ".haul in any case, or have more than 255 bytes", of: [.download]),
        JobField(
            "if_exists", .choice(["reuse", "overwrite", "rename", "fail"]), "must be reuse, overwrite, rename or fail",
            of: [.download]),
        JobField("fresh_for", .number(0...maxSeconds), seconds, of: [.download, .request]),
        JobField(
            "checksum", .checksum,
            "must be sha256:, sha512:, sha1: or md5:, followed by the digest in hexadecimal digits",
            of: [.download]),
        JobField("size", .integer(0...maxInteger), count, of: [.download]),
        JobField(
            "content_type", .mediaType, "must be a media type, type/subtype, of at most 255 bytes", of: [.download]),
        JobField(
            "method", .method,
            "must be a method in capital letters: for a download not HEAD, for an upload PUT, POST or PATCH"),
        JobField(
            "headers", .headers,
            "must be an object of at most \(maxHeaders) header names and texts, without the headers that the worker sets"
        ),
        JobField("body", .text(maxElementBytes), "must be a text", of: [.download, .request]),
        JobField("json", .json, "must be JSON", of: [.request]),
        JobField("form", .items, "must be " + items, of: withResponse),
        JobField(
            "body_base64", .base64, "must be base 64 of the standard alphabet, with its padding", of: [.request]),
        JobField("query", .items, "must be " + items, of: withResponse),
        JobField(
            "expect", .statuses,
            "must be a list of 1 to 16 statuses from 100 to 599, or ranges of them like \"200-299\"", of: withResponse),
        JobField(
            "max_response", .integer(0...Int64(Job.Request.maxResponse)),
            "must be a whole number from 0 to \(Job.Request.maxResponse)", of: withResponse),
        JobField("idempotent", .flag, "must be true or false", of: withResponse),
        JobField(
            "webhook", .id, "must be the name of a secret: 1 to 128 of the characters A-Z a-z 0-9 . _ : -",
            of: [.request]),
        JobField("file", .file, "must be the path of a file, as for path, without / at its end", of: [.upload]),
        JobField(
            "files", .files,
            "must be a list of 1 to \(Job.Upload.maxFiles) objects with file, and perhaps name, type and filename",
            of: [.upload]),
        JobField("each", .flag, "must be true or false", of: [.upload]),
        JobField("protocol", .choice(Job.Upload.Method.allCases.map(\.rawValue)), "must be tus", of: [.upload]),
        JobField(
            "content_digest", .choice(Job.Upload.Digest.allCases.map(\.rawValue)), "must be sha-256 or sha-512",
            of: [.upload]),
        JobField("connections", .integer(1...16), "must be a whole number from 1 to 16", of: [.download]),
        JobField("limit_rate", .integer(1...maxInteger), "must be a whole number of bytes per second, 1 or more"),
        JobField("max_bytes", .integer(0...maxInteger), count, of: [.download]),
        JobField("min_speed", .integer(0...maxInteger), count, of: [.download]),
        JobField("retries", .integer(0...1000), "must be a whole number from 0 to 1000"),
        JobField("connect_timeout", .number(0.1...86400), "must be a number of seconds from 0.1 to 86400"),
        JobField("stall_timeout", .number(0.1...86400), "must be a number of seconds from 0.1 to 86400"),
        JobField("delay", .number(0...maxSeconds), seconds),
        JobField("deadline", .number(0...maxSeconds), seconds),
        JobField("reply_to", .id, "must be 1 to 128 of the characters A-Z a-z 0-9 . _ : -"),
        JobField("batch", .batch, Job.Batch.rule),
        JobField("group", .id, "must be 1 to 128 of the characters A-Z a-z 0-9 . _ : -"),
        JobField("notify", .notify, Job.Notify.rule),
        JobField("then", .steps, Job.Step.rule),
        JobField("else", .steps, Job.Step.rule),
        JobField("meta", .meta, "must be at most 4096 bytes of JSON"),
        JobField("at", .integer(timestamps), timestampRule),
        JobField("v", .integer(version...version), "must be \(version): no other version of the contract is known"),
        JobField("t", .ticket, "is Redis' own"),
    ]

    package static let byName = Dictionary(uniqueKeysWithValues: all.map { ($0.name, $0) })

    /// Whether the field may have `value` in a job of the kind `job`. `raw` is the value's text.
    func accepts(_ value: JSON, raw: String, of job: Job.Kind) -> Bool {
        switch kind {
        case .url: value.string.map { URLRule.fault($0, of: job) == nil } ?? false
        case .urls:
            value.array.map { urls in
                1...16 ~= urls.count
                    && urls.allSatisfy { $0.string.map { URLRule.fault($0, of: job) == nil } ?? false }
            } ?? false
        case .id: value.string.map(Self.isID) ?? false
        case .path: value.string.map(Self.isPath) ?? false
        case .file: value.string.map(Self.isFile) ?? false
        case .files: Job.Upload.files(value) != nil
        case .checksum: value.string.map { Job.Checksum($0) != nil } ?? false
        case .method:
            value.string.map { text in
                (1...20).contains(text.utf8.count) && text.utf8.allSatisfy { 65...90 ~= $0 }
                    && (job != .download || text != "HEAD")
                    && (job != .upload || ["PUT", "POST", "PATCH"].contains(text))
            } ?? false
        case .headers: value.headers.map { Self.areHeaders($0, of: job) } ?? false
        case .items: value.headers.map { $0.count <= Self.maxHeaders && $0.allSatisfy { $0.itemText != nil } } ?? false
        case .json: true
        case .base64: value.string.map { Base64.decode($0.utf8) != nil } ?? false
        case .statuses: value.array.map { 1...16 ~= $0.count && $0.allSatisfy { $0.statuses != nil } } ?? false
        case .flag: value.bool != nil
        case .batch: Job.Batch(value) != nil
        case .notify: value.bool == false || Job.Notify(value) != nil
        case .steps: Job.Step.list(value) != nil
        case .meta: raw.utf8.count <= 4096
        case .choice(let choices): value.string.map(choices.contains) ?? false
        case .integer(let range): value.integer.map(range.contains) ?? false
        case .number(let range): value.double.map(range.contains) ?? false
        case .text(let limit): value.string.map { $0.utf8.count <= limit } ?? false
        case .mediaType: value.string.map(MediaType.isValid) ?? false
        case .ticket: value.string.map { $0.utf8.count <= 64 } ?? false
        }
    }

    package static func isID(_ text: String) -> Bool {
        (1...128).contains(text.utf8.count)
            && text.utf8.allSatisfy {
                switch $0 {
                case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"),
                    UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: ":"), UInt8(ascii: "-"):
                    true
                default: false
                }
            }
    }

    private static func isPath(_ text: String) -> Bool {
        guard (1...4096).contains(text.utf8.count), text.utf8.first != UInt8(ascii: "/"),
            !text.utf8.contains(where: { $0 < 32 || $0 == 127 })
        else { return false }
        return text.pathParts.allSatisfy { $0 != ".." && $0 != "." && $0.utf8.count <= 255 && !isOwn($0) }
    }

    /// Whether Haul reserves a name for its own files. In any case, because some file systems ignore it.
    static func isOwn(_ part: String) -> Bool {
        part.utf8.prefix(5).map { 65...90 ~= $0 ? $0 | 0x20 : $0 }.elementsEqual(".haul".utf8)
    }

    package static func isFile(_ text: String) -> Bool { isPath(text) && text.utf8.last != UInt8(ascii: "/") }

    static func isHeaderName(_ name: String) -> Bool {
        !name.isEmpty && name.utf8.allSatisfy { $0 > 32 && $0 < 127 && $0 != UInt8(ascii: ":") }
    }

    private static func areHeaders(_ members: [JSON.Member], of job: Job.Kind) -> Bool {
        members.count <= maxHeaders
            && members.allSatisfy { member in
                guard let value = member.value.string, !value.utf8.contains(where: { $0 == 0 || $0 == 10 || $0 == 13 })
                else {
                    return false
                }
                let name = member.name.lowercasedASCII
                return isHeaderName(name)
                    && (job == .download
                        ? !forbiddenHeaders.contains(name) && !name.hasPrefix(forbiddenPrefix)
                        : !forbiddenInRequests.contains(name))
            }
    }
}

extension JSON {
    /// The members of an object. An empty list counts as an empty object, because PHP writes an empty object so.
    var headers: [Member]? { members ?? (array?.isEmpty == true ? [] : nil) }

    /// The range in an element of `expect`: a status, or a string such as "200-299". The ends may be in either order.
    var statuses: ClosedRange<Int>? {
        if let status = integer { return 100...599 ~= status ? Int(status)...Int(status) : nil }
        guard let bytes = string.map({ Array($0.utf8) }), bytes.count == 7, bytes[3] == UInt8(ascii: "-"),
            (bytes[..<3] + bytes[4...]).allSatisfy({ 48...57 ~= $0 })
        else { return nil }
        let ends = [bytes[..<3], bytes[4...]].map { $0.reduce(0) { $0 * 10 + Int($1 - 48) } }
        return ends.allSatisfy { 100...599 ~= $0 } ? ends.min()!...ends.max()! : nil
    }
}

extension JSON.Member {
    /// The value as the text of a query's or a form's item. nil if an item may not have the value.
    var itemText: String? {
        switch value {
        case .string(let text): text
        case .number, .bool: raw
        default: nil
        }
    }
}
