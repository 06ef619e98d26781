// What a queue gives all of its jobs: docs/bus.md, "Defaults of a queue".

extension JobField {
    /// Of one value, in bytes of JSON.
    package static let largestDefault = 4096
    package static let defaultRule = "must be JSON of at most \(largestDefault) bytes"

    /// What names a job, or says what is to be done once, is each job's own.
    package var mayHaveDefault: Bool { Self.withDefaults.contains(name) }

    private static let withDefaults: Set<String> = [
        "path", "if_exists", "fresh_for", "content_type", "headers", "query", "expect", "max_response", "idempotent",
        "connections", "limit_rate", "max_bytes", "min_speed", "retries", "connect_timeout", "stall_timeout", "delay",
        "deadline", "reply_to", "meta",
    ]

    /// The value that a default's text holds; nil if no job of any kind could have it.
    package func defaultValue(_ text: String) -> JSON? {
        guard mayHaveDefault, text.utf8.count <= Self.largestDefault, let value = try? JSON(text) else { return nil }
        return kinds.contains { accepts(value, raw: text, of: $0) } ? value : nil
    }
}

extension Job {
    /// Reads an element, and gives it what it lacks. A default that a job of its kind could not have is left out. Of `headers` and
    /// `query` it gets the names that it lacks.
    package init(
        element bytes: some Collection<UInt8>, defaults: [(name: String, text: String)]
    ) throws(Invalid) {
        guard !defaults.isEmpty else {
            try self.init(element: bytes)
            return
        }
        try Self.checkSize(bytes)
        let json: JSON
        do { json = try JSON(bytes) } catch { throw Invalid(field: nil, reason: "must be a JSON object: \(error)") }
        guard var members = json.members else { throw Invalid(field: nil, reason: "must be a JSON object") }
        let kind = json["kind"]?.string.flatMap(Kind.init(rawValue:)) ?? .download
        for (name, text) in defaults {
            guard let field = JobField.byName[name], field.kinds.contains(kind),
                let value = field.defaultValue(text), field.accepts(value, raw: text, of: kind)
            else { continue }
            guard let index = members.firstIndex(where: { $0.name == name }) else {
                members.append(JSON.Member(name: name, value: value, raw: text))
                continue
            }
            guard let own = members[index].value.headers, let more = value.headers else { continue }
            let merged = JSON.object(own + more.filter { !Self.has(own, $0.name, isHeader: name == "headers") })
            // More names than a job may have: it keeps its own.
            if field.accepts(merged, raw: "", of: kind) {
                members[index] = JSON.Member(name: name, value: merged, raw: members[index].raw)
            }
        }
        try self.init(json: .object(members))
    }

    private static func has(_ own: [JSON.Member], _ name: String, isHeader: Bool) -> Bool {
        own.contains { isHeader ? $0.name.lowercased() == name.lowercased() : $0.name == name }
    }
}
