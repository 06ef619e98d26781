package import HaulContract

/// A job as a list or a screen shows it. It is made from the job's hash or, if no worker has seen the job, from its
/// element.
package struct JobRow: Sendable, Equatable {
    package let id: String
    package let state: JobState
    package var url = ""
    /// The finished file, or the path that the job asks for.
    package var file = ""
    package var received: Int64 = 0
    package var total: Int64?
    package var speed: Int64 = 0
    package var attempt = 0
    package var worker = ""
    package var kind = ""
    /// The names of its batches, with blanks between them.
    package var batch = ""
    /// The group with which it takes turns.
    package var group = ""
    package var error = ""
    package var message = ""
    /// What the job waits for.
    package var waiting = ""
    /// When the job entered its state, Unix ms. For a scheduled job: when it is due.
    package var since: Int64?

    /// The job's entry in the index of its state.
    package let listed: ListedJob

    /// - Parameters:
    ///   - fields: Fields of the job's hash; empty if no worker has seen the job.
    ///   - listed: The job's entry in the index of its state.
    package init(id: String, state: JobState, fields: [String: String], listed: ListedJob? = nil) {
        (self.id, self.state) = (id, state)
        self.listed = listed ?? ListedJob(id: id)
        let fields = state.describing(fields, self.listed) ?? [:]
        func text(_ name: String) -> String { fields[name] ?? "" }
        func number(_ name: String) -> Int64? { Int64(field: fields[name]) }
        url = fields["url"] ?? listed?.maskedURL ?? ""
        file = text("file").isEmpty ? text("path") : text("file")
        received = number("received") ?? 0
        total = number("total")
        speed = state == .running ? number("speed") ?? 0 : 0
        attempt = Int(number("attempt") ?? 0)
        worker = text("worker")
        kind = fields["kind"] ?? (fields["state"] == nil ? listed?.kind ?? "" : Job.Kind.download.rawValue)
        batch = fields["batch"] ?? listed?.batch ?? ""
        group = fields["group"] ?? listed?.group ?? ""
        (error, message, waiting) = (text("error"), text("message"), fields["waiting"] ?? listed?.waitsFor ?? "")
        since =
            state == .running
            ? number("started") : state == .queued ? number("updated") ?? listed?.timestamp : listed?.timestamp
    }

    /// The file if it has a name, else the URL.
    package var name: String { file.isEmpty || file.hasSuffix("/") ? url : file }

    /// The host of the URL; empty if there is none.
    package var host: String { MaskedURL.host(url) ?? "" }

    /// The received part, 0 to 1; nil if the size is not known.
    package var fraction: Double? {
        guard let total, total > 0 else { return nil }
        return min(1, max(0, Double(received) / Double(total)))
    }

    /// The seconds that are left at the present speed.
    package var eta: Int64? {
        guard let total, speed > 0, total > received else { return nil }
        return (total - received) / speed
    }
}

extension JobState {
    /// The fields of a hash that describe a job which is listed in this state. nil for an element that waits and does not
    /// make its job a queued one: it repeats a push, or is for a job that runs, is paused or is scheduled. Workers decide
    /// in the same way: Pushes.verdict() in Lua/claim/pushes.lua.
    ///
    /// - Parameter fields: Among them `ListedJob.decisiveFields`.
    package func describing(_ fields: [String: String], _ job: ListedJob) -> [String: String]? {
        guard self == .queued else { return fields }
        let state = fields["state"].flatMap(JobState.init)
        if state == .running || state == .paused || state == .scheduled { return nil }
        // A job that was removed has left a hash without a state.
        guard state?.isFinal ?? (fields["state"] == nil) else { return fields }
        if let timestamp = job.timestamp,
            JobRecord.isSettled(timestamp, settledUntil: fields["settled_until"], ahead: fields["ahead"])
        {
            return nil
        }
        // A push that begins a job anew whose hash still tells of its last end.
        return state == nil ? fields : [:]
    }
}

extension ListedJob {
    /// The fields of a hash that decide whether a waiting element makes its job a queued one.
    package static let decisiveFields = ["state", "settled_until", "ahead"]
}

/// What a list is sorted by.
package enum JobOrder: String, CaseIterable, Sendable {
    case age, size, received, done, speed, eta, name, id, worker, host, error

    /// The fields of a job's hash that this order compares.
    package var fields: [String] {
        switch self {
        case .age: ["started", "updated"]
        case .size: ["total"]
        case .received: ["received"]
        case .done: ["total", "received"]
        case .speed: ["speed"]
        case .eta: ["total", "received", "speed"]
        case .name: ["file", "path", "url"]
        case .id: []
        case .worker: ["worker"]
        case .host: ["url"]
        case .error: ["error"]
        }
    }

    /// Whether `one` comes before `other`. Ages, sizes and speeds are in descending order, texts and `eta` in ascending
    /// order. Equal jobs are in the order of their ids, so that the order is stable.
    package func precedes(_ one: JobRow, _ other: JobRow) -> Bool {
        switch self {
        case .age: Self.ascending(one.since ?? .max, other.since ?? .max, one, other)
        case .size: Self.ascending(-(one.total ?? -1), -(other.total ?? -1), one, other)
        case .received: Self.ascending(-one.received, -other.received, one, other)
        case .done: Self.ascending(-(one.fraction ?? -1), -(other.fraction ?? -1), one, other)
        case .speed: Self.ascending(-one.speed, -other.speed, one, other)
        case .eta: Self.ascending(one.eta ?? .max, other.eta ?? .max, one, other)
        case .name: Self.ascending(one.name, other.name, one, other)
        case .id: one.id < other.id
        case .worker: Self.ascending(one.worker, other.worker, one, other)
        case .host: Self.ascending(one.host, other.host, one, other)
        case .error: Self.ascending(one.error, other.error, one, other)
        }
    }

    private static func ascending<T: Comparable>(_ a: T, _ b: T, _ one: JobRow, _ other: JobRow) -> Bool {
        a == b ? one.id < other.id : a < b
    }
}
