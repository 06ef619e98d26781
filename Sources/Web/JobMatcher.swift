import Glibc
import HaulBus
import HaulContract

/// A filter that is prepared for many jobs: only the fields that decide are read, and they are compared as bytes.
struct JobMatcher: Sendable {
    /// The fields of a job's hash that decide, in the order in which `matches` takes their values.
    let fields: [String]
    private let filter: JobFilter
    /// The filter's text; nil if it is not ASCII: the case of other letters cannot be ignored byte by byte.
    private let needle: Needle?
    /// Texts that the element of a job without a hash must contain if the job matches; empty if there are none.
    private let traces: [Needle]

    /// The latest time at which a job may have got into its state, unix ms; nil if that does not matter.
    private let latest: Int64?

    /// - Parameter now: Redis' clock, unix ms.
    init(_ filter: JobFilter, now: Int64) {
        self.filter = filter
        latest = filter.older > 0 ? now - min(filter.older, JobField.maxInteger / 1000) * 1000 : nil
        needle = filter.text.utf8.allSatisfy { $0 < 0x80 } ? Needle(filter.text, ignoresCase: true) : nil
        traces = [filter.text, filter.host, filter.batch.lowercased(), filter.group.lowercased()].filter(
            Self.leavesTrace
        ).map {
            Needle($0, ignoresCase: true)
        }
        var fields: [String] = []
        if filter.older > 0 { fields += ["state", "started", "updated"] }
        if !filter.error.isEmpty { fields.append("error") }
        if !filter.worker.isEmpty { fields.append("worker") }
        if !filter.batch.isEmpty { fields.append("batch") }
        if !filter.group.isEmpty { fields.append("group") }
        if !filter.kind.isEmpty { fields.append("kind") }
        if !filter.waiting.isEmpty { fields.append("waiting") }
        if !filter.retryable.isEmpty { fields.append("retryable") }
        if !filter.host.isEmpty || !filter.text.isEmpty { fields.append("url") }
        if !filter.text.isEmpty { fields += ["path", "file", "message"] }
        self.fields = fields
    }

    func matches(_ job: ListedJob, _ values: [[UInt8]?]) -> Bool {
        var rest = values[...]
        if let latest {
            let texts = (0..<3).map { _ in (rest.popFirst() ?? nil).map { String(decoding: $0, as: UTF8.self) } }
            // A running job is listed by its lease, and a queued one by its push.
            let since =
                switch texts[0] {
                case "running": texts[1].flatMap { Int64($0) }
                case "queued": texts[2].flatMap { Int64($0) } ?? job.timestamp
                default: job.timestamp
                }
            guard let since, since <= latest else { return false }
        }
        if !filter.error.isEmpty, !Self.isSame(rest.popFirst() ?? nil, filter.error, else: JobFacts.unknown) {
            return false
        }
        if !filter.worker.isEmpty, !Self.isSame(rest.popFirst() ?? nil, filter.worker) { return false }
        if !filter.batch.isEmpty, !isMember(job, rest.popFirst() ?? nil) { return false }
        if !filter.group.isEmpty {
            let group = (rest.popFirst() ?? nil) ?? job.group.map { Array($0.utf8) }
            if !Self.isSame(group, filter.group) { return false }
        }
        if !filter.kind.isEmpty {
            let kind = (rest.popFirst() ?? nil) ?? job.kind.map { Array($0.utf8) }
            if !Self.isSame(kind, filter.kind, else: Job.Kind.download.rawValue) { return false }
        }
        if !filter.waiting.isEmpty {
            let value = (rest.popFirst() ?? nil) ?? job.waitsFor.map { Array($0.utf8) }
            if !Self.isSame(value, filter.waiting, else: "none") { return false }
        }
        if !filter.retryable.isEmpty,
            !Self.isSame(rest.popFirst() ?? nil, filter.retryable == "true" ? "1" : "0", else: "0")
        {
            return false
        }
        guard !filter.host.isEmpty || !filter.text.isEmpty else { return true }
        let url = (rest.popFirst() ?? nil) ?? job.maskedURL.map { Array($0.utf8) }
        if !filter.host.isEmpty, !isAtHost(url) { return false }
        if filter.text.isEmpty || has(Array(job.id.utf8)) { return true }
        return ([url] + rest).contains { $0.map(has) ?? false }
    }

    /// Whether a URL's host is that of the filter, which may have a port.
    private func isAtHost(_ url: [UInt8]?) -> Bool {
        let url = url.map { String(decoding: $0, as: UTF8.self) }
        return url.flatMap(MaskedURL.host) ?? JobFacts.unknown == filter.host
            || url.flatMap(MaskedURL.authority) == filter.host
    }

    /// Whether a queued job that has no hash may match, by the bytes of its element. May be true in vain, but is never
    /// false for a job that matches. The element must have no escapes.
    func mayMatch(_ element: [UInt8]) -> Bool {
        // Only a job with a hash has an error or a worker.
        guard filter.error.isEmpty, filter.worker.isEmpty, filter.retryable != "true" else { return false }
        // Credentials are removed from a URL before it is compared, so its text may differ from the element's.
        return memchr(element, Int32(UInt8(ascii: "@")), element.count) != nil
            || traces.allSatisfy { $0.isIn(element) }
    }

    /// Whether a masked text that contains `text` has also contained it before it was masked.
    private static func leavesTrace(_ text: String) -> Bool {
        let mask = "[masked]"
        return !text.isEmpty && !mask.contains(text) && text.utf8.allSatisfy { $0 < 0x80 && $0 != 0x5b && $0 != 0x5d }
    }

    private static func isSame(_ value: [UInt8]?, _ text: String) -> Bool { value?.elementsEqual(text.utf8) ?? false }

    /// The same; a missing value counts as `absent`.
    private static func isSame(_ value: [UInt8]?, _ text: String, else absent: String) -> Bool {
        value.map { $0.elementsEqual(text.utf8) } ?? (text == absent)
    }

    /// Whether the job's hash or its element in the queue names the batch.
    private func isMember(_ job: ListedJob, _ batches: [UInt8]?) -> Bool {
        if job.batch == filter.batch { return true }
        return (batches ?? []).split(separator: 32).contains { $0.elementsEqual(filter.batch.utf8) }
    }

    /// Whether `value` contains the text. Case is ignored.
    private func has(_ value: [UInt8]) -> Bool {
        guard let needle else { return String(decoding: value, as: UTF8.self).lowercased().contains(filter.text) }
        return needle.isIn(value)
    }
}
