import HaulContract

/// A filter for the jobs of a state. A job must match everything that is not empty.
struct JobFilter: Sendable, Hashable, CustomStringConvertible {
    /// A part of the id, the URL, the path, the file or the message. Case is ignored.
    var text = ""
    var host = ""
    var error = ""
    var worker = ""
    /// The name of a batch.
    var batch = ""
    /// `download`, or another kind of job.
    var kind = ""
    /// What a running job waits for, as its record says it; `none` for one that waits for nothing.
    var waiting = ""
    /// `true` or `false`: whether a retry of a failed job may help.
    var retryable = ""

    /// The names of these values in a query and in JSON.
    static let names: Set<String> = ["q", "host", "error", "worker", "batch", "kind", "waiting", "retryable"]

    var isEmpty: Bool { self == JobFilter() }

    /// What is filtered for, like `host=a.example error=http_404`.
    var description: String {
        [
            ("q", text), ("host", host), ("error", error), ("worker", worker), ("batch", batch), ("kind", kind),
            ("waiting", waiting), ("retryable", retryable),
        ]
        .filter { !$0.1.isEmpty }.map { "\($0.0)=\($0.1)" }.joined(separator: " ")
    }

    /// What is wrong with the filter; nil if nothing is.
    var problem: String? {
        if !batch.isEmpty, !JobField.isID(batch) { return "batch must be a batch's name, not \(JSON.quoted(batch))" }
        if !kind.isEmpty, Job.Kind(rawValue: kind) == nil {
            return "kind must be \(Job.Kind.allCases.map(\.rawValue).joined(separator: ", ")), not \(JSON.quoted(kind))"
        }
        if !["", "true", "false"].contains(retryable) {
            return "retryable must be true or false, not \(JSON.quoted(retryable))"
        }
        return nil
    }

    init() {}

    init(_ query: Query) {
        text = (query["q"] ?? "").lowercased()
        host = (query["host"] ?? "").lowercased()
        error = query["error"] ?? ""
        worker = query["worker"] ?? ""
        batch = query["batch"] ?? ""
        kind = query["kind"] ?? ""
        waiting = query["waiting"] ?? ""
        retryable = query["retryable"] ?? ""
    }

    /// Takes the values from an object's members.
    init(_ json: JSON) {
        text = (json["q"]?.string ?? "").lowercased()
        host = (json["host"]?.string ?? "").lowercased()
        error = json["error"]?.string ?? ""
        worker = json["worker"]?.string ?? ""
        batch = json["batch"]?.string ?? ""
        kind = json["kind"]?.string ?? ""
        waiting = json["waiting"]?.string ?? ""
        retryable = json["retryable"]?.string ?? ""
    }
}
