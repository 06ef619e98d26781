import Glibc

/// Which jobs a list is about.
struct JobFilter: Sendable {
    /// Codes, with `*` for any characters.
    var errors: [String] = []
    /// Hosts of URLs; their subdomains as well.
    var hosts: [String] = []
    var workers: [String] = []
    /// Milliseconds for which a job has been what it is.
    var older: Int64?
    /// A part of an id, a URL or a file name, in any case; a pattern if it has a `*` or a `?`.
    var match: String?

    var isEmpty: Bool { errors.isEmpty && hosts.isEmpty && workers.isEmpty && older == nil && match == nil }

    /// By the clock that says `now`, unix ms.
    func accepts(_ row: JobRow, now: Int64) -> Bool {
        if !errors.isEmpty, !errors.contains(where: { Self.fits($0, row.error) }) { return false }
        if !hosts.isEmpty {
            let host = row.host
            guard hosts.contains(where: { host == $0.lowercased() || host.hasSuffix("." + $0.lowercased()) }) else {
                return false
            }
        }
        if !workers.isEmpty, !workers.contains(row.worker) { return false }
        if let older {
            guard let since = row.since, now - since >= older else { return false }
        }
        guard let match else { return true }
        return [row.id, row.url, row.file].contains { Self.contains($0, match) }
    }

    /// As `--match` means it.
    static func contains(_ text: String, _ part: String) -> Bool {
        if part.contains(where: { $0 == "*" || $0 == "?" }) { return fits(part.lowercased(), text.lowercased()) }
        return text.lowercased().contains(part.lowercased())
    }

    private static func fits(_ pattern: String, _ text: String) -> Bool { fnmatch(pattern, text, 0) == 0 }
}
