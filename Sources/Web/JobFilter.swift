import HaulBus
import HaulContract

/// Which jobs of a state are meant: those that match all that is given.
struct JobFilter: Sendable, Hashable {
    /// A part of the id, the URL, the path, the file or the message, whatever its case.
    var text = ""
    var host = ""
    var error = ""
    var worker = ""

    var isEmpty: Bool { self == JobFilter() }

    init() {}

    init(_ query: Query) {
        text = (query["q"] ?? "").lowercased()
        host = (query["host"] ?? "").lowercased()
        error = query["error"] ?? ""
        worker = query["worker"] ?? ""
    }

    /// Of an object's members.
    init(_ json: JSON) {
        text = (json["q"]?.string ?? "").lowercased()
        host = (json["host"]?.string ?? "").lowercased()
        error = json["error"]?.string ?? ""
        worker = json["worker"]?.string ?? ""
    }

    func matches(_ job: ListedJob, _ fields: [String: String]) -> Bool {
        let url = fields["url"] ?? job.maskedURL
        if !error.isEmpty, fields["error"] != error { return false }
        if !worker.isEmpty, fields["worker"] != worker { return false }
        if !host.isEmpty, JobJSON.host(of: url) != host { return false }
        if text.isEmpty { return true }
        return [job.id, url, fields["path"], fields["file"], fields["message"]].contains {
            $0?.lowercased().contains(text) ?? false
        }
    }
}
