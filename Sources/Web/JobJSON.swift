import HaulBus
import HaulContract

/// A job as JSON of the API. Its members are named as the fields of the job's hash, numbers are JSON numbers, and
/// secrets are left out.
enum JobJSON {
    /// Fields that become numbers. `inode` and `mtime` stay strings, because many JSON parsers would round them.
    private static let numbers: Set<String> = [
        "received", "total", "speed", "attempt", "crashes", "created", "started", "updated", "finished", "seq", "epoch",
        "deadline_at", "settled_until", "validated", "last_modified_strong", "status", "response_dropped",
    ]
    /// The fields with a server's response to a `request` job. They may be private, so viewers do not see them.
    private static let responseFields: Set<String> = ["headers", "body", "body_base64"]
    /// The fields of a job's hash that a row of a list needs.
    static let rowFields = Queue.summaryFields + ["kind", "method", "status", "batch", "retryable"]
    /// Keeps the JSON small: no page draws more intervals than these.
    private static let maxIntervals = 4096
    private static let maxRowIntervals = 16

    /// All fields of a job, except for those that are empty or internal.
    ///
    /// - Parameter isOpen: True for an operator. A viewer sees only the status of a server's response.
    static func allFields(_ record: JobRecord, showsResponse: Bool) -> String {
        var json = JSONObject()
        json.set("id", record.id)
        json.set("host", host(of: record["url"]))
        json.set("ended", record.hasEnded)
        let shown = record.fields.filter {
            !JobRecord.hidden.contains($0.key) && !$0.value.isEmpty
                && (showsResponse || !responseFields.contains($0.key))
        }
        for (name, value) in shown.sorted(by: { $0.key < $1.key }) { set(name, value, in: &json) }
        let intervals = record.offsets.intervals.prefix(maxIntervals)
        let pairs = intervals.map { "[\($0.lowerBound),\($0.upperBound)]" }
        json.set("offsets", json: "[\(pairs.joined(separator: ","))]")
        return json.text
    }

    /// A pushed job without a hash, because no worker has claimed it yet. `job` is its element in the queue, if known.
    static func unclaimed(_ id: String, _ job: ListedJob? = nil) -> String {
        var json = JSONObject()
        json.set("id", id)
        json.set("state", JobState.queued.rawValue)
        json.set("ended", false)
        if let url = job?.maskedURL {
            json.set("url", url)
            json.set("host", host(of: url))
        }
        json.set("batch", job?.batch)
        json.set("waiting", job?.waitReason)
        json.set("offsets", json: "[]")
        return json.text
    }

    /// A row of a list. `fields` come from the job's hash, and are empty if there is none.
    static func row(
        _ job: ListedJob, state: JobState, _ fields: [String: String], _ offsets: ByteIntervals? = nil
    ) -> String {
        var json = JSONObject()
        json.set("id", job.id)
        json.set("state", fields["state"] ?? state.rawValue)
        let url = fields["url"] ?? job.maskedURL
        json.set("url", url)
        json.set("host", host(of: url))
        if state != .running { json.set("timestamp", job.timestamp) }
        if fields["batch"] == nil { json.set("batch", job.batch) }
        if fields["waiting"] == nil { json.set("waiting", job.waitReason) }
        for name in rowFields where name != "state" && name != "url" {
            if let value = fields[name], !value.isEmpty { set(name, value, in: &json) }
        }
        if let offsets, !offsets.intervals.isEmpty {
            json.set(
                "offsets",
                json: "[\(merged(offsets).map { "[\($0.lowerBound),\($0.upperBound)]" }.joined(separator: ","))]")
        }
        return json.text
    }

    /// The intervals that a bar in a row can show: the smallest gaps are closed until `maxRowIntervals` are left.
    static func merged(_ offsets: ByteIntervals) -> [Range<Int64>] {
        let all = Array(offsets.intervals)
        guard all.count > maxRowIntervals else { return all }
        let gaps = (1..<all.count).sorted {
            all[$0].lowerBound - all[$0 - 1].upperBound > all[$1].lowerBound - all[$1 - 1].upperBound
        }
        var merged: [Range<Int64>] = []
        let kept = Set(gaps.prefix(maxRowIntervals - 1))
        for (place, interval) in all.enumerated() {
            if place == 0 || kept.contains(place) {
                merged.append(interval)
            } else {
                merged[merged.count - 1] = merged[merged.count - 1].lowerBound..<interval.upperBound
            }
        }
        return merged
    }

    /// An event for viewers, without the server's response.
    static func withoutResponse(_ event: JSON) -> String {
        (event.members ?? []).filter { !responseFields.contains($0.name) }
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

    /// The host in a masked URL, which has no credentials, in lower case; nil if there is none.
    static func host(of url: String?) -> String? {
        guard let url, let scheme = url.byteRange(of: "://") else { return nil }
        let authority = url[scheme.upperBound...].prefix { $0 != "/" && $0 != "?" && $0 != "#" }
        let host = Admission.host(of: String(authority))?.lowercased() ?? ""
        return host.isEmpty ? nil : host
    }
}
