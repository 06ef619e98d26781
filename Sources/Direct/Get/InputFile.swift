import HaulContract
import HaulTerminal

/// A list of downloads. Each line is a URL, several URLs with tabs between them (mirrors of one file), or a job in JSON
/// (docs/reference/fields.md). Indented lines after it are its options, as in aria2's input files.
enum InputFile {
    /// - Throws: `ExitStatus.usage`; the reason, which names the line, has been printed.
    static func entries(of path: String, _ lists: GetLists) throws -> [GetPlan.Entry] {
        var entries: [GetPlan.Entry] = []
        let server = TextFile.isURL(path) ? path : nil
        for (index, line) in try lists.lines(of: path).enumerated() {
            let origin = "\(TextFile.name(path)), line \(index + 1)"
            let text = line.trimmingSpace
            if text.isEmpty || text.hasPrefix("#") { continue }
            if line.first == " " || line.first == "\t" {
                guard !entries.isEmpty else {
                    throw ExitStatus.printing(
                        .usage, "\(origin): an indented line is an option of the URL before it, and there is none")
                }
                try set(text, of: &entries[entries.count - 1], origin)
            } else if text.hasPrefix("{") {
                entries.append(try job(text, origin, of: server))
            } else {
                var entry = GetPlan.Entry(origin: origin, server: server)
                entry.urls = text.split(separator: "\t").map { $0.trimmingSpace }
                entries.append(entry)
            }
        }
        return entries
    }

    /// The members of a job that `haul get` honours, and `id`, which bus.md requires of some jobs.
    private static let honoured: Set<String> = [
        "kind", "id", "url", "urls", "path", "if_exists", "fresh_for", "checksum", "size", "content_type", "method",
        "headers", "body", "connections", "limit_rate", "max_bytes", "min_speed", "retries", "connect_timeout",
        "stall_timeout",
    ]

    private static func job(_ text: String, _ origin: String, of server: String?) throws -> GetPlan.Entry {
        let members: [JSON.Member]
        do { members = try JSON(text).members ?? [] } catch { throw ExitStatus.printing(.usage, "\(origin): \(error)") }
        var entry = GetPlan.Entry(origin: origin, server: server)
        if let kind = members.first(where: { $0.name == "kind" }), kind.value.string != "download" {
            throw ExitStatus.printing(
                .usage,
                "\(origin): kind: \(kind.raw) cannot be done here, only \"download\": haul put uploads files, and haul call sends requests"
            )
        }
        let unknown = members.map(\.name).filter { !honoured.contains($0) }
        guard unknown.isEmpty else {
            let areJobFields = unknown.allSatisfy { JobField.byName[$0] != nil }
            throw ExitStatus.printing(
                .usage,
                areJobFields
                    ? "\(origin): \(unknown.joined(separator: ", ")) would have no effect in haul get: remove it"
                    : "\(origin): unknown fields: \(unknown.joined(separator: ", "))")
        }
        for member in members {
            switch member.name {
            case "url", "urls":
                // A line may have both. They become one member, so that what is decided about URLs is about all of them.
                guard let texts = urls(of: member) else {
                    let form = member.name == "url" ? "a text" : "a list of texts"
                    throw ExitStatus.printing(.usage, "\(origin): \(member.name) must be \(form)")
                }
                entry.urls = member.name == "url" ? texts + entry.urls : entry.urls + texts
            case "path":
                guard let path = member.value.string else {
                    throw ExitStatus.printing(.usage, "\(origin): path must be a text, not \(member.raw)")
                }
                entry.path = path
            case "if_exists": entry.ifExists = try policy(member.value.string ?? member.raw, origin)
            case "checksum":
                // In the form that an entry of the same file may have.
                let text = member.value.string.map { JSON.quoted(GivenChecksum.normalized($0)) }
                entry.members.append((member.name, text ?? member.raw))
            default: entry.members.append((member.name, member.raw))
            }
        }
        // A job with a body must have an id. `haul get` does not use the id.
        if !members.contains(where: { $0.name == "id" }) { entry.members.append(("id", "\"get\"")) }
        return entry
    }

    /// The URLs of a member; nil if it has anything else.
    private static func urls(of member: JSON.Member) -> [String]? {
        if member.name == "url" { return member.value.string.map { [$0] } }
        let texts = member.value.array?.compactMap(\.string)
        return texts?.count == member.value.array?.count ? texts : nil
    }

    /// Sets an option of aria2's input files, if `haul get` has a counterpart.
    private static func set(_ text: String, of entry: inout GetPlan.Entry, _ origin: String) throws {
        let parts = text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        let (name, value) = (parts[0].trimmingSpace, parts.count > 1 ? parts[1].trimmingSpace : "")
        func number() throws -> String {
            guard let count = ByteUnits.count(value) else {
                throw ExitStatus.printing(.usage, "\(origin): \(name) must be a number, not \"\(value)\"")
            }
            return String(count)
        }
        func isTrue() throws -> Bool {
            guard let flag = ["true": true, "false": false][value] else {
                throw ExitStatus.printing(.usage, "\(origin): \(name) must be true or false, not \"\(value)\"")
            }
            return flag
        }
        switch name {
        case "out": entry.path = value
        case "dir": entry.directory = value
        case "checksum": entry.set("checksum", JSON.quoted(GivenChecksum.normalized(value)))
        case "header", "referer", "user-agent":
            let header = name == "header" ? value : "\(name == "referer" ? "Referer" : "User-Agent"): \(value)"
            try add(header, to: &entry, origin)
        case "max-download-limit": entry.set("limit_rate", try number())
        case "split", "max-connection-per-server":
            // Both limit the connections of a file, as in aria2.
            let other = entry.members.first { $0.0 == "connections" }.flatMap { Int64($0.1) }
            entry.set("connections", String(min(Int64(try number()) ?? .max, other ?? .max)))
        case "max-tries":
            // In aria2 0 means no limit.
            let tries = Int(try number()) ?? 0
            entry.set("retries", String(tries == 0 ? 1000 : min(1000, tries - 1)))
        case "connect-timeout": entry.set("connect_timeout", try number())
        case "timeout": entry.set("stall_timeout", try number())
        case "conditional-get": entry.isOnlyNewer = try isTrue()
        case "allow-overwrite": if try isTrue() { entry.ifExists = .overwrite }
        case "auto-file-renaming": if try isTrue() { entry.ifExists = .rename }
        case "if-exists": entry.ifExists = try policy(value, origin)
        // Accepted, without effect: `haul get` needs none of these.
        case "continue", "gid", "always-resume", "file-allocation", "min-split-size": break
        default:
            throw ExitStatus.printing(
                .usage,
                "\(origin): \"\(name)\" is not an option of a list (docs/guides/haul-get.md names those that are)")
        }
    }

    private static func policy(_ text: String, _ origin: String) throws -> ExistingPolicy {
        guard let policy = ExistingPolicy(rawValue: text) else {
            throw ExitStatus.printing(
                .usage, "\(origin): if_exists must be reuse, overwrite, rename, fail or skip, not \(text)")
        }
        return policy
    }

    private static func add(_ header: String, to entry: inout GetPlan.Entry, _ origin: String) throws {
        guard let colon = header.utf8.firstIndex(of: UInt8(ascii: ":")) else {
            throw ExitStatus.printing(.usage, "\(origin): header must be \"Name: value\", not \"\(header)\"")
        }
        let pair = (
            String(header[..<colon]), JSON.quoted(header[header.utf8.index(after: colon)...].trimmingSpace)
        )
        let index = entry.members.firstIndex { $0.0 == "headers" }
        var members = index.flatMap { try? JSON(entry.members[$0].1) }?.members?.map { ($0.name, $0.raw) } ?? []
        guard !members.contains(where: { $0.0.lowercased() == pair.0.lowercased() }) else {
            throw ExitStatus.printing(
                .usage, "\(origin): \(pair.0) is given twice for one URL: write one field with both values")
        }
        members.append(pair)
        if let index { entry.members.remove(at: index) }
        entry.members.append(("headers", JSON.object(members)))
    }
}

extension StringProtocol {
    /// Without white space at its ends.
    fileprivate var trimmingSpace: String {
        var text = self[...]
        while let first = text.first, first.isWhitespace { text.removeFirst() }
        while let last = text.last, last.isWhitespace { text.removeLast() }
        return String(text)
    }
}
