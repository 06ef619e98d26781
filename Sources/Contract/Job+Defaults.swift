// The defaults that a queue adds to its jobs: docs/operate/queues.md.

extension JobField {
    /// The maximum size of one default, in bytes of JSON.
    package static let maxDefaultBytes = 4096
    package static let defaultRule = "must be JSON of at most \(maxDefaultBytes) bytes"

    /// Whether a queue may have a default for this field. Fields that identify a job or its content may have none.
    package var mayHaveDefault: Bool { Self.withDefaults.contains(name) }

    private static let withDefaults: Set<String> = [
        "path", "if_exists", "fresh_for", "content_type", "headers", "query", "expect", "max_response", "idempotent",
        "connections", "limit_rate", "max_bytes", "min_speed", "retries", "connect_timeout", "stall_timeout", "delay",
        "deadline", "reply_to", "notify", "meta",
    ]

    /// Reads the text of a default. nil if no kind of job may have this value.
    package func defaultValue(_ text: String) -> JSON? {
        guard mayHaveDefault, text.utf8.count <= Self.maxDefaultBytes, let value = try? JSON(text) else { return nil }
        return kinds.contains { accepts(value, raw: text, of: $0) } ? value : nil
    }
}

extension Job {
    /// Reads an element, and adds the defaults of the fields that it lacks. Leaves out a default that a job of this
    /// kind, or an upload with this `protocol`, may not have. Merges `headers` and `query` by name: the job's own values win.
    ///
    /// - Throws: `Invalid` if the element is not a valid job.
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
        let excluded = kind == .upload && json["protocol"] != nil ? Upload.excludedByProtocol : []
        // A webhook goes to another server than the queue's other jobs, so their headers must not go there.
        for (name, text) in defaults where kind != .request || json["webhook"] == nil {
            guard let field = JobField.byName[name], field.kinds.contains(kind), !excluded.contains(name),
                let value = field.defaultValue(text), field.accepts(value, raw: text, of: kind)
            else { continue }
            guard let index = members.firstIndex(where: { $0.name == name }) else {
                members.append(JSON.Member(name: name, value: value, raw: text))
                continue
            }
            guard let own = members[index].value.headers, let more = value.headers else { continue }
            let merged = JSON.object(own + more.filter { !Self.has(own, $0.name, isHeader: name == "headers") })
            // If the merged object has too many names, the job keeps its own names only.
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
