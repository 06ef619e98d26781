import HaulContract

/// A filter for the jobs of a state. A job must match everything that is not empty.
struct JobFilter: Sendable, Hashable, CustomStringConvertible {
    /// A whole URL of the job, with its query, or of a mirror. Records mask queries, so jobs are found by a digest.
    var url = ""
    /// A part of the id, the URL, the path, the file or the message. Case is ignored.
    var text = ""
    var host = ""
    var error = ""
    var worker = ""
    /// The name of a batch.
    var batch = ""
    /// The group with which a job takes turns.
    var group = ""
    /// `download`, or another kind of job.
    var kind = ""
    /// What a running job waits for, as its record says it; `none` for one that waits for nothing.
    var waiting = ""
    /// `true` or `false`: whether a retry of a failed job may help.
    var retryable = ""
    /// The minimum time that the job has been in its state, in seconds; 0 for any.
    var older: Int64 = 0

    /// The names of these values in a query and in JSON.
    static let names = [
        "url", "q", "host", "error", "worker", "batch", "group", "kind", "waiting", "retryable", "older",
    ]

    var isEmpty: Bool { self == JobFilter() }

    /// What is filtered for, like `host=a.example error=http_404`.
    var description: String {
        [
            ("url", MaskedURL.text(url)), ("q", text), ("host", host), ("error", error), ("worker", worker),
            ("batch", batch), ("group", group), ("kind", kind), ("waiting", waiting), ("retryable", retryable),
            ("older", older > 0 ? "\(older)" : ""),
        ]
        .filter { !$0.1.isEmpty }.map { "\($0.0)=\($0.1)" }.joined(separator: " ")
    }

    /// What is wrong with the filter; nil if nothing is.
    var problem: String? {
        if !batch.isEmpty, !JobField.isID(batch) { return "batch must be a batch's name, not \(JSON.quoted(batch))" }
        if !group.isEmpty, !JobField.isID(group) { return "group must be a group's name, not \(JSON.quoted(group))" }
        if !kind.isEmpty, Job.Kind(rawValue: kind) == nil {
            return "kind must be \(Job.Kind.allCases.map(\.rawValue).joined(separator: ", ")), not \(JSON.quoted(kind))"
        }
        if !["", "true", "false"].contains(retryable) {
            return "retryable must be true or false, not \(JSON.quoted(retryable))"
        }
        return (0...JobField.maxInteger).contains(older)
            ? nil : "older must be a number of seconds, 0 to \(JobField.maxInteger)"
    }

    init() {}

    /// - Throws: `bad_request` for a filter without a value, which would select more jobs than were meant.
    init(_ query: Query) throws(APIError) {
        if let name = Self.names.first(where: { query[$0] == "" }) {
            throw APIError(400, .badRequest, "\(name) is empty: give a value, or leave it out")
        }
        self.init { query[$0] }
        older = try query.integer("older", in: 0...JobField.maxInteger, else: 0)
    }

    /// Takes the values from an object's members.
    init(_ json: JSON) {
        self.init { json[$0]?.string }
        older = json["older"].map { $0.integer ?? -1 } ?? 0
    }

    private init(_ value: (String) -> String?) {
        url = value("url") ?? ""
        text = (value("q") ?? "").lowercased()
        // A text with a query can only be a whole URL, because records have none.
        if url.isEmpty, let whole = value("q"), whole.contains("?"), !whole.contains("?[masked]"),
            URLRule.fault(whole, of: .download) == nil
        {
            (url, text) = (whole, "")
        }
        host = (value("host") ?? "").lowercased()
        error = value("error") ?? ""
        worker = value("worker") ?? ""
        batch = value("batch") ?? ""
        group = value("group") ?? ""
        kind = value("kind") ?? ""
        waiting = value("waiting") ?? ""
        retryable = value("retryable") ?? ""
    }
}
