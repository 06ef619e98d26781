import HaulBus
import HaulContract
import HaulTerminal

/// One job as a page for people.
struct JobPage {
    let record: JobRecord
    /// Redis' clock, unix ms.
    let now: Int64
    /// What a queued job waits for; nil if it waits for its turn.
    var waitsFor: String?
    /// What keeps it from starting, or slows it.
    var bottlenecks: [Bottleneck] = []
    /// What is wrong with the worker of a running job, such as "is silent for 3m"; nil if it is at work.
    var workerFault: String?
    /// Who paused or cancelled the job; nil for a job in another state, or if that was not recorded.
    var stoppedBy: String?
    /// What is in force for the job's batches, such as "paused by ann@films", by the names of the batches.
    var batchStops: [String: String] = [:]

    /// The job is a request. Its bytes are a response, of which no part is kept before the end.
    private var isRequest: Bool { record["kind"] == Job.Kind.request.rawValue }
    private var row: JobRow { JobRow(id: record.id, state: record.state, fields: record.fields) }

    /// A time or a size, limited to sensible values: any client may write into a hash.
    private func integer(_ field: String) -> Int64? { record.integer(field).map { min(max(0, $0), 1 << 53) } }

    /// Names and texts, in the order of the page.
    var facts: [(name: String, text: String)] {
        var facts = [("state", state)]
        if !bottlenecks.isEmpty {
            facts.append(("slowed by", bottlenecks.map { $0.text(at: now) }.joined(separator: "; ")))
        }
        func add(_ name: String, _ text: String?) {
            if let text, !text.isEmpty { facts.append((name, text)) }
        }
        if let error = record["error"] { add("error", error + (record["message"].map { ": \($0)" } ?? "")) }
        add("url", record["url"])
        // The mirror that the bytes came from, if the job has several.
        add("from", record["source"].flatMap { $0 == record["url"] ? nil : $0 })
        add("response", response)
        add("file", record["file"])
        if record["file"] == nil { add("to", record["path"]) }
        add("size", size)
        add("progress", progress)
        add("durable", durable)
        add("attempts", attempts)
        // The only failure of a failed job is its error.
        if record.state != .failed || failures.count > 1 { failures.forEach { add("failed", $0) } }
        add("checksum", record["checksum"] ?? record["digest"])
        add("version", version)
        add("pushed", timestamp("created"))
        add("started", timestamp("started"))
        // Left out for a running job: there it is the time of the claim, and not of the last progress.
        add("updated", record.state.isFinal || record.state == .running ? nil : timestamp("updated"))
        add("ended", timestamp("finished"))
        add("due", record.dueAt.map { Age.date(min(max(0, $0), 1 << 53)) })
        add("deadline", integer("deadline_at").map { Age.date($0) })
        add("request", record["want"].map { "\($0) is requested, but no worker has applied it yet" })
        let batches = record.batches.map { name in name + (batchStops[name].map { ", \($0)" } ?? "") }
        add("batch", batches.joined(separator: "; "))
        add("group", record["group"])
        add("reply to", record["reply_to"])
        add("steps", record["steps"])
        add("meta", record["meta"])
        return facts
    }

    private var state: String {
        var text = record.state.rawValue
        if let stoppedBy {
            text += " by \(stoppedBy)"
        } else if let batch = record.batches.first(where: { batchStops[$0] == text }) {
            text += " with its batch \(batch)"
        }
        if let waiting = record["waiting"] ?? waitsFor { text += ", waits for \(waiting)" }
        switch record.state {
        case .running:
            text += (record["worker"].map { " on \($0)" } ?? "") + age("started", " for ", "")
            return text + (workerFault.map { "; the worker \($0)" } ?? "")
        case .completed, .cancelled: return text + age("finished", " ", " ago")
        case .failed: return text + age("finished", " ", " ago") + (record["worker"].map { " on \($0)" } ?? "")
        case .scheduled:
            guard let due = record.dueAt else { return text + age("updated", " ", " ago") }
            let start = due > now ? "in \(Age.text(due - now))" : "now"
            return text + (record["error"] == nil ? ", starts \(start)" : ", is tried again \(start)")
        default: return text + age("updated", " for ", "")
        }
    }

    private func age(_ field: String, _ before: String, _ behind: String) -> String {
        integer(field).map { before + Age.text(now - $0) + behind } ?? ""
    }

    /// The server's answer to a request, without its body: `haul cache show` prints that.
    private var response: String? {
        guard let status = record["status"] else { return nil }
        let type = record["headers"].flatMap { try? JSON($0) }?["content-type"]?.string
        return "HTTP \(status) to \(record["method"] ?? "the request")" + (type.map { ", \($0)" } ?? "")
            + (record.droppedResponse.map { "; \($0)" } ?? "")
    }

    private var size: String? {
        guard let total = integer("total") ?? (record.state == .completed ? integer("received") : nil)
        else { return nil }
        return total < 1024 ? "\(total) bytes" : "\(Units.bytes(total)) (\(total) bytes)"
    }

    private var progress: String? {
        let row = row
        guard !isRequest, record.state != .completed, row.received > 0 else { return nil }
        var parts = [row.percent.isEmpty ? Units.bytes(row.received) : "\(row.percent), \(Units.bytes(row.received))"]
        // Of a lost worker the record has the last speed.
        if row.state == .running, workerFault == nil { parts.append(Units.speed(row.speed)) }
        if workerFault == nil, let eta = row.eta { parts.append("\(Units.duration(eta)) left") }
        return parts.joined(separator: ", ")
    }

    private var durable: String? {
        let intervals = record.offsets.intervals
        guard let first = intervals.first, first.lowerBound >= 0 else { return nil }
        let shown = intervals.prefix(4).map { "\($0.lowerBound)-\($0.upperBound)" }.joined(separator: " ")
        let more = intervals.count > 4 ? " and \(intervals.count - 4) more ranges" : ""
        return "\(Units.bytes(record.offsets.count)): bytes \(shown)\(more)"
    }

    private var attempts: String? {
        var parts: [String] = []
        if let count = integer("attempt"), count > 0 {
            parts.append(record.state == .completed ? "\(count) failed before" : "\(count) failed in a row")
        }
        if let count = integer("crashes"), count > 0 { parts.append("\(count) lost with their workers") }
        return parts.isEmpty ? nil : parts.joined(separator: ", ")
    }

    /// The attempts that failed, the oldest first.
    private var failures: [String] {
        let attempts = record["failures"].flatMap { try? JSON($0) }?.array ?? []
        return attempts.compactMap { attempt in
            guard let ended = attempt["ended"]?.integer, ended > 0, ended < 1 << 53 else { return nil }
            let worker = attempt["worker"]?.string.map { " on \($0)" } ?? ""
            let reason = [attempt["error"]?.string, attempt["message"]?.string].compactMap(\.self)
            return "\(Age.text(now - ended)) ago\(worker): \(reason.joined(separator: ": "))"
        }
    }

    private var version: String? {
        let parts = [record["etag"].map { "ETag \($0)" }, record["last_modified"].map { "of \($0)" }]
        let text = parts.compactMap(\.self).joined(separator: ", ")
        return text.isEmpty ? nil : text
    }

    private func timestamp(_ field: String) -> String? {
        integer(field).map { "\(Age.date($0)) (\(Age.text(now - $0)) ago)" }
    }

    /// The id, a bar of the received bytes if the size is known, and the facts. Long texts are wrapped.
    func lines(width: Int, isUnicode: Bool = Columns.showsUnicode) -> [String] {
        var lines = [record.id.printable]
        let facts = facts
        let indent = (facts.map(\.name.count).max() ?? 0) + 4
        let hasBar = record.state != .completed && !isRequest && width > indent + 12
        if hasBar, let total = integer("total"), total > 0 {
            let bar = IntervalBar(record.offsets, total: total, received: integer("received") ?? 0)
            lines.append("  [" + bar.text(width: min(width, 100) - 4, isUnicode: isUnicode) + "]")
        }
        for (name, text) in facts {
            let pieces = Self.wrapped(text.printable, width: max(20, width - indent))
            for (index, piece) in pieces.enumerated() {
                lines.append((index == 0 ? "  " + name.padded(to: indent - 2) : String.spaces(indent)) + piece)
            }
        }
        return lines
    }

    /// The words in lines of at most `width` columns. A longer word is broken.
    static func wrapped(_ text: String, width: Int) -> [String] {
        var lines = [""]
        for word in text.split(separator: " ") {
            for (index, piece) in String(word).pieces(of: width).enumerated() {
                let last = lines[lines.count - 1]
                if last.isEmpty {
                    lines[lines.count - 1] = piece
                } else if index == 0, Columns.of(last) + 1 + Columns.of(piece) <= width {
                    lines[lines.count - 1] = last + " " + piece
                } else {
                    lines.append(piece)
                }
            }
        }
        return lines
    }
}
