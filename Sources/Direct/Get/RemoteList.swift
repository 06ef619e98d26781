import HaulContract
import HaulTerminal

/// What a list may say that a server has sent. The user gives the directory, and decides about the user's files and
/// passwords; the list only names files beneath that directory.
enum RemoteList {
    /// The largest list of a server: its bytes, and its lines or files. Each of them becomes a download, in memory.
    static let maxBytes = 16 << 20
    static let maxEntries = 100_000

    /// Refuses a list that has too many entries.
    ///
    /// - Throws: `ExitStatus.usage`; the reason has been printed.
    static func admit(_ entries: Int, _ what: String, of path: String) throws {
        guard entries > maxEntries else { return }
        throw ExitStatus.printing(
            .usage,
            "\(TextFile.name(path)) has more than \(maxEntries) \(what), which is refused in a list from a server: look at the list, and give it as a file if it is right"
        )
    }

    /// The members of a job that choose neither files of the user nor what is sent to servers.
    private static let allowed: Set<String> = [
        "kind", "id", "url", "urls", "checksum", "size", "content_type", "connections", "limit_rate", "max_bytes",
        "min_speed", "retries", "connect_timeout", "stall_timeout",
    ]

    /// Moves the entry's directory into its path, so that the store keeps it beneath the directory of the command.
    ///
    /// - Throws: `ExitStatus.usage` if the entry says what only the user may say; the reason has been printed.
    static func confine(_ entry: inout GetPlan.Entry, of server: String) throws {
        let prefix = entry.origin.map { "\($0): " } ?? ""
        func refuse(_ what: String) -> ExitStatus {
            ExitStatus.printing(
                .usage,
                "\(prefix)\(what) is refused in a list from a server: look at the list, and give it as a file if it is right"
            )
        }
        for (name, json) in entry.members where !allowed.contains(name) {
            let names = name == "headers" ? (try? JSON(json))?.members?.map { $0.name.lowercased() } : nil
            guard names?.allSatisfy(["referer", "user-agent"].contains) == true else { throw refuse(name) }
        }
        if entry.ifExists == .overwrite { throw refuse("if-exists overwrite (allow-overwrite)") }
        if entry.isOnlyNewer { throw refuse("conditional-get, which replaces files,") }
        for (name, path) in [("dir", entry.directory), ("out", entry.path)] {
            guard let path else { continue }
            if path.hasPrefix("/") || GetTarget.isBucket(path) {
                throw refuse("\(name)=\(path), which is not relative,")
            }
            if path.pathParts.contains(where: { $0.utf8.first == UInt8(ascii: ".") }) {
                throw refuse("\(name)=\(path), with a name that begins with a dot,")
            }
        }
        guard let directory = entry.directory else { return }
        entry.directory = nil
        entry.path = (directory.hasSuffix("/") || directory.isEmpty ? directory : directory + "/") + (entry.path ?? "")
    }
}
