import HaulBus
import HaulContract

/// What overviews and facets count of one job.
struct JobFacts: Sendable {
    /// The fields of a job's hash that are read for it.
    static let fields = [
        "speed", "url", "worker", "waiting", "started", "kind", "batch", "group", "received", "total", "error",
        "retryable",
    ]
    /// Those that change while a job runs. Another `started` means another run, perhaps on another worker.
    static let changingFields = ["speed", "waiting", "received", "started"]

    /// Stands for a host or an error that is not known, in counts and in filters.
    static let unknown = "unknown"

    let host: String
    /// The host as in a limit of hosts, with its port if the URL has one.
    let authority: String
    let worker: String?
    let kind: String
    let batches: [String]
    let group: String?
    private(set) var waiting: String?
    let error: String?
    let retryable: Bool?
    let started: Int64?
    /// Whether the job's worker is lost. Then its speed is the last one that it reported, and says nothing about now.
    var isWorkerLost = false
    /// Bytes per second; 0 if its worker is lost.
    var speed: Int64 { isWorkerLost ? 0 : reportedSpeed }
    private var reportedSpeed: Int64
    private let total: Int64?
    private var received: Int64
    /// The bytes that are still to come; nil if the length is unknown.
    var left: Int64? { total.map { max(0, $0 - received) } }

    init(_ fields: [String: String], _ job: ListedJob? = nil) {
        func number(_ name: String) -> Int64? { Int64(field: fields[name]) }
        let url = fields["url"] ?? job?.maskedURL
        host = url.flatMap(MaskedURL.host) ?? Self.unknown
        authority = url.flatMap(MaskedURL.authority) ?? Self.unknown
        worker = fields["worker"]
        kind = fields["kind"] ?? job?.kind ?? Job.Kind.download.rawValue
        batches = (fields["batch"] ?? job?.batch ?? "").split(separator: " ").map(String.init)
        group = fields["group"] ?? job?.group
        waiting = fields["waiting"] ?? job?.waitsFor
        error = fields["error"]
        retryable = fields["retryable"].map { $0 == "1" }
        started = number("started")
        reportedSpeed = number("speed") ?? 0
        total = number("total")
        received = number("received") ?? 0
    }

    /// Takes over `changingFields`. Returns false if all other fields must be read again, too.
    mutating func update(_ fields: [String: String]) -> Bool {
        guard total != nil, let started, fields["started"] == String(started) else { return false }
        waiting = fields["waiting"]
        reportedSpeed = Int64(field: fields["speed"]) ?? 0
        received = Int64(field: fields["received"]) ?? 0
        return true
    }
}

/// Counts of names, as the API writes them: pairs of a name and a count, the most frequent first.
struct Ranking {
    private var counts: [String: Int] = [:]

    init(_ names: some Sequence<String>) { for name in names { counts[name, default: 0] += 1 } }

    /// The `limit` most frequent names.
    func json(_ limit: Int = 12) -> String {
        let first = counts.sorted { ($1.value, $0.key) < ($0.value, $1.key) }.prefix(limit)
        return "[\(first.map { "[\(JSON.quoted($0.key)),\($0.value)]" }.joined(separator: ","))]"
    }
}

/// The ages of some jobs.
enum Ages {
    /// The median, the 95th percentile and the greatest of `starts`' ages in milliseconds, and of how many jobs; nil for
    /// no jobs.
    static func json(of starts: some Sequence<Int64>, now: Int64) -> String? {
        let ages = starts.map { max(0, now - $0) }.sorted()
        guard let oldest = ages.last else { return nil }
        var json = JSONObject()
        json.set("of", ages.count)
        json.set("median", ages[ages.count / 2])
        json.set("p95", ages[min(ages.count - 1, ages.count * 95 / 100)])
        json.set("oldest", oldest)
        return json.text
    }
}
