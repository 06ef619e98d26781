extension Job {
    /// Why a text is not a valid job.
    public struct Invalid: Error, Sendable, Equatable, CustomStringConvertible {
        /// The name of the wrong field. nil if the whole element is wrong.
        public let field: String?
        /// The rule that the field breaks, such as "must be true or false".
        public let reason: String
        /// The field's name, or "element" without a field, and the reason.
        public var description: String { "\(field ?? "element"): \(reason)" }

        package init(field: String?, reason: String) { (self.field, self.reason) = (field, reason) }
    }

    /// Reads and checks an element of the `jobs` list: one JSON object with a `url` or `urls`.
    ///
    /// - Throws: ``Invalid`` if the element is not a valid job.
    public init(element bytes: some Collection<UInt8>) throws(Invalid) {
        try Self.checkSize(bytes)
        let json: JSON
        do { json = try JSON(bytes) } catch { throw Invalid(field: nil, reason: "must be a JSON object: \(error)") }
        try self.init(json: json)
    }

    /// Checks the size limits of an element without parsing it.
    ///
    /// - Throws: `Invalid` if the element is too large.
    package static func checkSize(_ bytes: some Collection<UInt8>) throws(Invalid) {
        guard bytes.count <= JobField.maxElementBytes else { throw Invalid(field: nil, reason: JobField.elementRule) }
        guard JSON.skeletonCount(bytes) <= JobField.maxSkeletonBytes else {
            throw Invalid(field: nil, reason: JobField.skeletonRule)
        }
    }

    /// Reads and checks a JSON object.
    ///
    /// - Throws: ``Invalid`` if the object is not a valid job. If several fields are wrong, the error names the one
    ///   that comes first in the contract's table.
    public init(json: JSON) throws(Invalid) {
        guard let members = json.members else { throw Invalid(field: nil, reason: "must be a JSON object") }
        self.init(id: nil, urls: [])
        let named = json["kind"]
        let kind = named?.string.flatMap(Kind.init(rawValue:)) ?? .download
        self.kind = kind
        var wrong: Set<String> = []
        var unknownLimits: [String] = []
        for member in members {
            guard let field = JobField.byName[member.name] else {
                let isLimit = JobField.limitPrefixes.contains { member.name.utf8.starts(with: $0.utf8) }
                if isLimit { unknownLimits.append(member.name) } else { unknownFields.append(member.name) }
                continue
            }
            // Only a continuation has a ticket. A job's field of this name is ignored.
            let isIgnored = field.kind == .ticket && (json["url"] ?? json["urls"]) != nil
            if isIgnored || field.kinds.contains(kind) && field.accepts(member.value, raw: member.raw, of: kind) {
                set(member)
            } else {
                wrong.insert(field.name)
            }
        }
        if let field = JobField.all.first(where: { wrong.contains($0.name) }) {
            let isInapplicable = !field.kinds.contains(kind)
            let reason =
                isInapplicable ? JobField.inapplicableRule(kind) : field.reason(against: json[field.name]!, of: kind)
            throw Invalid(field: field.name, reason: reason)
        }
        if let name = unknownLimits.min(by: { $0.utf8.lexicographicallyPrecedes($1.utf8) }) {
            throw Invalid(field: name.truncated(toBytes: JobField.shownName), reason: JobField.unknownLimitRule)
        }
        urls = [json["url"]?.string].compactMap(\.self) + (json["urls"]?.array ?? []).compactMap(\.string)
        guard !urls.isEmpty else { throw Invalid(field: "url", reason: "is missing") }
        if kind == .upload {
            if let (field, reason) = Upload.contradiction(in: json) { throw Invalid(field: field, reason: reason) }
            if json["method"] == nil { method = upload.defaultMethod }
            return
        }
        let bodies = ["body", "json", "form", "body_base64"].count { json[$0] != nil }
        if bodies > 1 { throw Invalid(field: "body", reason: JobField.bodyRule) }
        if bodies > 0, id == nil { throw Invalid(field: "id", reason: "is required with a body") }
        // A request with a body is a POST unless it names a method.
        if kind == .request, bodies > 0, json["method"] == nil { method = "POST" }
    }

    private mutating func set(_ member: JSON.Member) {
        let value = member.value
        switch member.name {
        case "url", "urls": break
        case "id": id = value.string
        case "path": path = value.string
        case "if_exists": ifExists = IfExists(rawValue: value.string!)!
        case "fresh_for": freshFor = value.double.map { .seconds($0) }
        case "checksum": checksum = Checksum(value.string!)
        case "size": size = value.integer
        case "content_type": contentType = value.string
        case "method": method = value.string!
        case "headers": headers = value.headers!.map { HeaderField($0.name, $0.value.string!) }
        case "body": body = value.string
        case "json": request.json = member.raw
        case "form": request.form = value.headers!.map { Item($0.name, $0.itemText!) }
        case "body_base64": request.bodyBase64 = value.string
        case "query": request.query = value.headers!.map { Item($0.name, $0.itemText!) }
        case "expect": request.expect = value.array!.map { $0.statuses! }
        case "max_response": request.maxResponse = value.integer.map { Int($0) }
        case "idempotent": request.isIdempotent = value.bool!
        case "file": upload.file = value.string
        case "files": upload.files = Upload.files(value)!
        case "each": upload.isEach = value.bool!
        case "protocol": upload.method = Upload.Method(rawValue: value.string!)
        case "content_digest": upload.contentDigest = Upload.Digest(rawValue: value.string!)
        case "connections": connections = value.integer.map { Int($0) }
        case "limit_rate": limitRate = value.integer
        case "max_bytes": maxBytes = value.integer
        case "min_speed": minSpeed = value.integer
        case "retries": retries = value.integer.map { Int($0) }
        case "connect_timeout": connectTimeout = value.double.map { .seconds($0) }
        case "stall_timeout": stallTimeout = value.double.map { .seconds($0) }
        case "delay": delay = value.double.map { .seconds($0) }
        case "deadline": deadline = value.double.map { .seconds($0) }
        case "reply_to": replyTo = value.string
        case "batch": batch = Batch(value)
        case "group": group = value.string
        case "notify":
            notify = Notify(value)
            isSilent = notify == nil
        case "webhook": request.webhook = value.string
        case "then": then = Step.list(value)!
        case "else": self.else = Step.list(value)!
        case "meta": meta = member.raw
        case "at": at = value.integer
        default: break
        }
    }
}

extension Job.Checksum {
    /// Reads `sha256:…`, with digits in either case. nil if the algorithm is unknown or the digest has another length.
    public init?(_ text: String) {
        // Compare bytes: Swift joins ":" and a following combining mark into one character.
        let bytes = text.utf8
        guard let colon = bytes.firstIndex(of: UInt8(ascii: ":")),
            let algorithm = Algorithm(rawValue: String(text[..<colon]))
        else { return nil }
        let digest = bytes[colon...].dropFirst()
        guard digest.count == algorithm.hexadecimalDigits,
            digest.allSatisfy({ 48...57 ~= $0 || 97...102 ~= $0 | 32 })
        else { return nil }
        self.init(algorithm: algorithm, digest: String(Substring(digest)).lowercased())
    }

    /// The checksum in the wire format: `sha256:…`.
    public var description: String { "\(algorithm.rawValue):\(digest)" }
}

extension Job.Checksum.Algorithm {
    /// The number of hexadecimal digits of a digest.
    public var hexadecimalDigits: Int {
        switch self {
        case .md5: 32
        case .sha1: 40
        case .sha256: 64
        case .sha512: 128
        }
    }
}
