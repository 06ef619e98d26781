import Glibc
import HaulBus

/// The conditions that the jobs of a list meet.
struct ListFilter: Sendable {
    /// Error codes; `*` stands for any characters.
    var errors: [String] = []
    /// Hosts of URLs. Their subdomains match, too.
    var hosts: [String] = []
    var workers: [String] = []
    /// The name of a batch.
    var batch: String?
    var groups: [String] = []
    /// The minimum time in milliseconds since the job entered its state.
    var older: Int64?
    /// A part of an id, a URL or a file name. Case does not count. With a `*` or a `?` it is a pattern for the whole
    /// text.
    var match: String?

    var isEmpty: Bool {
        errors.isEmpty && hosts.isEmpty && workers.isEmpty && batch == nil && groups.isEmpty
            && older == nil && match == nil
    }

    /// - Parameter now: Redis' clock, Unix ms.
    func accepts(_ row: JobRow, now: Int64) -> Bool {
        if !errors.isEmpty, !errors.contains(where: { Self.fits($0, row.error) }) { return false }
        if !hosts.isEmpty {
            let host = row.host
            guard
                hosts.contains(where: {
                    // An IPv6 address may be given as it is written in a URL.
                    let wanted = $0.lowercased().filter { $0 != "[" && $0 != "]" }
                    return host == wanted || host.hasSuffix("." + wanted)
                })
            else { return false }
        }
        if !workers.isEmpty, !workers.contains(row.worker) { return false }
        if let batch, !row.batch.split(separator: " ").contains(batch[...]) { return false }
        if !groups.isEmpty, !groups.contains(row.group) { return false }
        if let older {
            guard let since = row.since, now - since >= older else { return false }
        }
        guard let match else { return true }
        return [row.id, row.url, row.file].contains { Self.contains($0, match) }
    }

    /// Whether `text` matches `part` by the rules of `--match`.
    static func contains(_ text: String, _ part: String) -> Bool {
        if part.contains(where: { $0 == "*" || $0 == "?" }) { return fits(part.lowercased(), text.lowercased()) }
        return text.lowercased().contains(part.lowercased())
    }

    private static func fits(_ pattern: String, _ text: String) -> Bool { fnmatch(pattern, text, 0) == 0 }
}
