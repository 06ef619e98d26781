extension Job {
    /// Why a text is no job. `description` begins with the field's name, or with "element" if there is none to name.
    public struct Invalid: Error, Sendable, Equatable, CustomStringConvertible {
        public let field: String?
        public let reason: String
        public var description: String { "\(field ?? "element"): \(reason)" }
    }

    /// Reads an element of the `jobs` list: one JSON object with a `url` or `urls`.
    public init(element bytes: some Collection<UInt8>) throws(Invalid) {
        guard bytes.count <= JobField.largestElement else {
            throw Invalid(field: nil, reason: "must be at most \(JobField.largestElement) bytes")
        }
        let json: JSON
        do { json = try JSON(bytes) } catch { throw Invalid(field: nil, reason: "must be a JSON object: \(error)") }
        try self.init(json: json)
    }

    /// Reads a JSON object.
    public init(json: JSON) throws(Invalid) {
        guard let members = json.members else { throw Invalid(field: nil, reason: "must be a JSON object") }
        self.init(id: nil, urls: [])
        for member in members {
            guard let field = JobField.byName[member.name] else {
                unknownFields.append(member.name)
                continue
            }
            guard field.accepts(member.value, raw: member.raw) else {
                throw Invalid(field: field.name, reason: field.rule)
            }
            set(member)
        }
        urls = [json["url"]?.string].compactMap(\.self) + (json["urls"]?.array ?? []).compactMap(\.string)
        guard !urls.isEmpty else { throw Invalid(field: "url", reason: "is missing") }
        if body != nil, id == nil { throw Invalid(field: "id", reason: "is required with a body") }
    }

    private mutating func set(_ member: JSON.Member) {
        let value = member.value
        switch member.name {
        // Of members of the same name the last one counts, as everywhere.
        case "url", "urls": break
        case "id": id = value.string
        case "path": path = value.string
        case "if_exists": ifExists = IfExists(rawValue: value.string!)!
        case "fresh_for": freshFor = value.double
        case "checksum": checksum = Checksum(value.string!)
        case "size": size = value.integer
        case "content_type": contentType = value.string
        case "method": method = value.string!
        case "headers": headers = value.members!.map { ($0.name, $0.value.string!) }
        case "body": body = value.string
        case "connections": connections = value.integer.map { Int($0) }
        case "limit_rate": limitRate = value.integer
        case "max_bytes": maxBytes = value.integer
        case "min_speed": minSpeed = value.integer
        case "retries": retries = value.integer.map { Int($0) }
        case "connect_timeout": connectTimeout = value.double
        case "stall_timeout": stallTimeout = value.double
        case "delay": delay = value.double
        case "deadline": deadline = value.double
        case "reply_to": replyTo = value.string
        case "meta": meta = member.raw
        case "at": at = value.integer
        default: break
        }
    }
}

extension Job.Checksum {
    /// `sha256:…` in either case; nil if it is not an algorithm that is known and a digest of its length.
    public init?(_ text: String) {
        let parts = text.split(separator: ":", maxSplits: 1)
        guard parts.count == 2, let algorithm = Algorithm(rawValue: String(parts[0])),
            parts[1].utf8.count == algorithm.hexadecimalDigits,
            parts[1].utf8.allSatisfy({ Character(Unicode.Scalar($0)).isHexDigit })
        else { return nil }
        self.init(algorithm: algorithm, digest: parts[1].lowercased())
    }

    public var description: String { "\(algorithm.rawValue):\(digest)" }
}

extension Job.Checksum.Algorithm {
    public var hexadecimalDigits: Int {
        switch self {
        case .md5: 32
        case .sha1: 40
        case .sha256: 64
        case .sha512: 128
        }
    }
}
