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

    /// The names of these values in a query and in JSON.
    static let names: Set<String> = ["q", "host", "error", "worker", "batch"]

    var isEmpty: Bool { self == JobFilter() }

    /// What is filtered for, like `host=a.example error=http_404`.
    var description: String {
        [("q", text), ("host", host), ("error", error), ("worker", worker), ("batch", batch)]
            .filter { !$0.1.isEmpty }.map { "\($0.0)=\($0.1)" }.joined(separator: " ")
    }

    /// What is wrong with the filter; nil if nothing is.
    var problem: String? {
        batch.isEmpty || JobField.isID(batch) ? nil : "batch must be a batch's name, not \(JSON.quoted(batch))"
    }

    init() {}

    init(_ query: Query) {
        text = (query["q"] ?? "").lowercased()
        host = (query["host"] ?? "").lowercased()
        error = query["error"] ?? ""
        worker = query["worker"] ?? ""
        batch = query["batch"] ?? ""
    }

    /// Takes the values from an object's members.
    init(_ json: JSON) {
        text = (json["q"]?.string ?? "").lowercased()
        host = (json["host"]?.string ?? "").lowercased()
        error = json["error"]?.string ?? ""
        worker = json["worker"]?.string ?? ""
        batch = json["batch"]?.string ?? ""
    }
}
