import HaulBus
import HaulContract

/// A job as the API tells it: the hash's own names, numbers as numbers, and no secret.
enum JobJSON {
    /// `inode` and `mtime` stay texts: they are larger than what many JSON readers keep of a number.
    private static let numbers: Set<String> = [
        "received", "total", "speed", "attempt", "crashes", "created", "started", "updated", "finished", "seq", "epoch",
        "deadline_at", "validated", "last_modified_strong", "status", "response_dropped",
    ]
    /// What a server answered to a request: it may hold what only its asker is to see.
    private static let answer: Set<String> = ["headers", "body", "body_base64"]
    /// The fields of a job's hash that are enough for a line about it.
    static let lineFields = Queue.summaryFields + ["kind", "method", "status", "batch"]
    /// More are drawn by no page.
    private static let mostIntervals = 4096

    /// All there is to know.
    ///
    /// - Parameter isOpen: For an operator; a viewer is not told what a server answered but for its status.
    static func whole(_ record: JobRecord, isOpen: Bool) -> String {
        var json = JSONObject()
        json.set("id", record.id)
        json.set("host", host(of: record["url"]))
        json.set("ended", record.hasEnded)
        let shown = record.fields.filter {
            !JobRecord.hidden.contains($0.key) && !$0.value.isEmpty && (isOpen || !answer.contains($0.key))
        }
        for (name, value) in shown.sorted(by: { $0.key < $1.key }) { set(name, value, in: &json) }
        let intervals = record.offsets.intervals.prefix(mostIntervals)
        let pairs = intervals.map { "[\($0.lowerBound),\($0.upperBound)]" }
        json.set("offsets", json: "[\(pairs.joined(separator: ","))]")
        return json.text
    }

    /// A job that was pushed, and that no worker has seen: what is known of its element in line.
    static func unseen(_ id: String, _ job: ListedJob? = nil) -> String {
        var json = JSONObject()
        json.set("id", id)
        json.set("state", JobState.queued.rawValue)
        json.set("ended", false)
        if let url = job?.maskedURL {
            json.set("url", url)
            json.set("host", host(of: url))
        }
        json.set("batch", job?.batch)
        json.set("offsets", json: "[]")
        return json.text
    }

    /// A line about it: `fields` of its hash, as far as there is one.
    static func line(_ job: ListedJob, state: JobState, _ fields: [String: String]) -> String {
        var json = JSONObject()
        json.set("id", job.id)
        json.set("state", fields["state"] ?? state.rawValue)
        let url = fields["url"] ?? job.maskedURL
        json.set("url", url)
        json.set("host", host(of: url))
        if state != .running { json.set("moment", job.moment) }
        if fields["batch"] == nil { json.set("batch", job.batch) }
        for name in lineFields where name != "state" && name != "url" {
            if let value = fields[name], !value.isEmpty { set(name, value, in: &json) }
        }
        return json.text
    }

    /// An event as a viewer is told it.
    static func closed(_ event: JSON) -> String {
        (event.members ?? []).filter { !answer.contains($0.name) }
            .reduce(into: JSONObject()) { $0.set($1.name, json: $1.raw) }.text
    }

    private static func set(_ name: String, _ value: String, in json: inout JSONObject) {
        switch name {
        case "meta", "headers", "files": json.set(name, json: (try? JSON(value)) != nil ? value : JSON.quoted(value))
        case _ where numbers.contains(name):
            json.set(name, json: Int64(value).map { "\($0)" } ?? JSON.quoted(value))
        default: json.set(name, value)
        }
    }

    /// The host of a URL without credentials, in lower case.
    static func host(of url: String?) -> String? {
        guard let url, let scheme = url.byteRange(of: "://") else { return nil }
        let authority = url[scheme.upperBound...].prefix { $0 != "/" && $0 != "?" && $0 != "#" }
        let host = Admission.host(of: String(authority)).lowercased()
        return host.isEmpty ? nil : host
    }
}
