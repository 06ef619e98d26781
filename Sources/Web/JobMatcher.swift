import Glibc
import HaulBus

/// A filter, ready to look at many jobs: only the fields that decide are read of each, and they are compared as bytes.
struct JobMatcher: Sendable {
    /// The fields of a job's hash that decide, in the order in which `matches` is given them.
    let fields: [String]
    private let filter: JobFilter
    private let needle: [UInt8]
    private let isASCII: Bool
    /// Bytes that an element has if its job matches and has no hash; empty where that cannot be said.
    private let traces: [[UInt8]]

    init(_ filter: JobFilter) {
        self.filter = filter
        needle = Array(filter.text.utf8)
        isASCII = needle.allSatisfy { $0 < 0x80 }
        traces = [filter.text, filter.host, filter.batch.lowercased()].filter(Self.leavesTrace).map { Array($0.utf8) }
        var fields: [String] = []
        if !filter.error.isEmpty { fields.append("error") }
        if !filter.worker.isEmpty { fields.append("worker") }
        if !filter.batch.isEmpty { fields.append("batch") }
        if !filter.host.isEmpty || !filter.text.isEmpty { fields.append("url") }
        if !filter.text.isEmpty { fields += ["path", "file", "message"] }
        self.fields = fields
    }

    func matches(_ job: ListedJob, _ values: [[UInt8]?]) -> Bool {
        var rest = values[...]
        if !filter.error.isEmpty, !Self.isSame(rest.popFirst() ?? nil, filter.error) { return false }
        if !filter.worker.isEmpty, !Self.isSame(rest.popFirst() ?? nil, filter.worker) { return false }
        if !filter.batch.isEmpty, !isMember(job, rest.popFirst() ?? nil) { return false }
        guard !filter.host.isEmpty || !filter.text.isEmpty else { return true }
        let url = (rest.popFirst() ?? nil) ?? job.maskedURL.map { Array($0.utf8) }
        if !filter.host.isEmpty, JobJSON.host(of: url.map { String(decoding: $0, as: UTF8.self) }) != filter.host {
            return false
        }
        if filter.text.isEmpty || has(Array(job.id.utf8)) { return true }
        return ([url] + rest).contains { $0.map(has) ?? false }
    }

    /// Whether a queued job of which nothing is known but its element may match; never no if it does.
    func mayMatch(_ element: [UInt8]) -> Bool {
        // Only a hash has these.
        guard filter.error.isEmpty, filter.worker.isEmpty else { return false }
        // Without its credentials a URL is another text.
        return memchr(element, Int32(UInt8(ascii: "@")), element.count) != nil
            || traces.allSatisfy { Self.has($0, in: element) }
    }

    /// Whether what contains `text` once it is masked has contained it before.
    private static func leavesTrace(_ text: String) -> Bool {
        let mask = "[masked]"
        return !text.isEmpty && !mask.contains(text) && text.utf8.allSatisfy { $0 < 0x80 && $0 != 0x5b && $0 != 0x5d }
    }

    private static func isSame(_ value: [UInt8]?, _ text: String) -> Bool { value?.elementsEqual(text.utf8) ?? false }

    /// Whether one of the batches that the hash names is the one that is meant, or that of its element in line.
    private func isMember(_ job: ListedJob, _ batches: [UInt8]?) -> Bool {
        if job.batch == filter.batch { return true }
        return (batches ?? []).split(separator: 32).contains { $0.elementsEqual(filter.batch.utf8) }
    }

    /// Whether the text is in `value`, whatever its case.
    private func has(_ value: [UInt8]) -> Bool {
        guard isASCII else { return String(decoding: value, as: UTF8.self).lowercased().contains(filter.text) }
        return Self.has(needle, in: value)
    }

    /// Whether `needle`, in lower case, is in `value`.
    private static func has(_ needle: [UInt8], in value: [UInt8]) -> Bool {
        guard let first = needle.first else { return true }
        guard value.count >= needle.count else { return false }
        return value.withUnsafeBufferPointer { value in
            needle.withUnsafeBufferPointer { needle in
                search: for start in 0...value.count - needle.count where lowered(value[start]) == first {
                    for place in 1..<needle.count where lowered(value[start + place]) != needle[place] {
                        continue search
                    }
                    return true
                }
                return false
            }
        }
    }

    private static func lowered(_ byte: UInt8) -> UInt8 { 65...90 ~= byte ? byte | 32 : byte }
}
