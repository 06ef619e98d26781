import ArgumentParser
import Glibc
import HaulContract
import HaulHTTP
import HaulTerminal

/// The file of defaults for `haul get`: lines `option = value` by the names of the options, and sections for hosts.
///
///     limit-rate = 20M
///
///     [*.example.org]
///     connections = 2
///     header = X-Team: films
package struct GetConfiguration: Sendable {
    package struct Setting: Sendable {
        package let name: String
        package let value: String
        package let line: Int

        /// The value without secrets.
        var shown: String {
            let mask = "[masked]"
            let parts = value.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            switch name {
            case "bearer": return mask
            case "user" where parts.count == 2: return "\(parts[0]):\(mask)"
            case "cookie" where value.contains("="): return mask
            case "header" where parts.count == 2:
                let field = parts[0].lowercased()
                let isSecret = ["auth", "cookie", "token", "key", "secret", "password"].contains { field.contains($0) }
                return isSecret ? "\(parts[0]): \(mask)" : value
            // It may be given without a scheme.
            case "proxy" where !value.contains("://"):
                return String(MaskedURL.withoutCredentials("//://" + value).dropFirst(5))
            default: return value.contains("://") ? MaskedURL.keepingQuery(value) : value
            }
        }
    }

    struct Section: Sendable {
        /// A host, or `*.` and a domain.
        let host: String
        var settings: [Setting] = []

        func isFor(_ name: String) -> Bool {
            host.hasPrefix("*.") ? name.hasSuffix(host.dropFirst()) : name == host
        }
    }

    package let path: String
    /// The settings before the first section.
    package private(set) var settings: [Setting] = []
    private(set) var sections: [Section] = []

    /// What a section may set, by the member of a job that it becomes.
    private static let members: [String: String] = [
        "connections": "connections", "limit-rate": "limit_rate", "min-speed": "min_speed", "retries": "retries",
        "timeout": "stall_timeout", "connect-timeout": "connect_timeout",
    ]

    /// The file that is read without `--config`: `$XDG_CONFIG_HOME/haul/get.conf`. nil without a home directory.
    package static var defaultPath: String? {
        (Environment.text("XDG_CONFIG_HOME") ?? Environment.text("HOME").map { $0 + "/.config" }).map {
            $0 + "/haul/get.conf"
        }
    }

    /// Reads the file. nil if it was not named and does not exist.
    ///
    /// - Throws: `ExitStatus.usage` at the first line that is wrong; the reason has been printed.
    package init?(named path: String?) throws {
        guard let path = path ?? Self.defaultPath.flatMap({ access($0, F_OK) == 0 ? $0 : nil }) else { return nil }
        self.path = path
        for (index, line) in try TextFile.lines(of: path).enumerated() {
            let text = line[...].trimmed
            func refusal(_ sentence: String) -> ExitStatus { .printing(.usage, "\(path):\(index + 1): \(sentence)") }
            if text.isEmpty || text.hasPrefix("#") { continue }
            if text.hasPrefix("["), text.hasSuffix("]") {
                let host = text.dropFirst().dropLast().lowercased()
                guard !host.isEmpty, !host.contains("/"), !host.contains(":") else {
                    throw refusal(
                        "\(text) must be a host's name without scheme and port, like [example.org] or [*.example.org]")
                }
                sections.append(Section(host: host))
                continue
            }
            guard let sign = text.firstIndex(of: "=") else {
                throw refusal("\"\(text)\" is not a setting: write option = value")
            }
            let setting = Setting(
                name: text[..<sign].trimmed, value: text[text.index(after: sign)...].trimmed, line: index + 1)
            if sections.isEmpty {
                settings.append(setting)
            } else {
                guard Self.members[setting.name] != nil || ["header", "user-agent"].contains(setting.name) else {
                    let names = (Self.members.keys + ["header", "user-agent"]).sorted().joined(separator: ", ")
                    throw refusal("\"\(setting.name)\" is not a setting of a host; these are: \(names)")
                }
                sections[sections.count - 1].settings.append(setting)
            }
        }
    }

    /// What the sections of a host set.
    struct Terms {
        /// Members of a job.
        let members: [(String, String)]
        /// The lines that set the members.
        let lines: [String: String]
        let headers: [(String, String)]
    }

    /// What the sections of a host set. Later sections win.
    ///
    /// - Throws: `ExitStatus.usage` for a value that is not a number; the reason has been printed.
    func terms(for host: String) throws -> Terms {
        var (members, lines, headers) = ([String: String](), [String: String](), [(String, String)]())
        for setting in sections.filter({ $0.isFor(host) }).flatMap(\.settings) {
            switch setting.name {
            case "header": headers.append(try GetSender.header(setting.value))
            case "user-agent": headers.append(("User-Agent", setting.value))
            default:
                guard let number = ByteUnits.count(setting.value) else {
                    throw ExitStatus.printing(
                        .usage, "\(path):\(setting.line): \(setting.name) must be a number, not \"\(setting.value)\"")
                }
                if let member = Self.members[setting.name] {
                    (members[member], lines[member]) = (String(number), "\(path):\(setting.line): \(setting.name)")
                }
            }
        }
        return Terms(members: members.map { ($0.key, $0.value) }, lines: lines, headers: headers)
    }

    /// The header fields that the sections set for the hosts of all these URLs: a job sends its fields to each of its
    /// mirrors, and those of one host are not for another.
    ///
    /// - Throws: As `terms(for:)`.
    func headers(for urls: [String]) throws -> [(String, String)] {
        let all = try urls.map { try WebURL($0).map { try terms(for: $0.host).headers } ?? [] }
        return (all.first ?? []).filter { field in all.allSatisfy { $0.contains { $0 == field } } }
    }

    /// The settings with the lines that they come from. Passwords, tokens and the like are masked, because the text may be
    /// kept or shown elsewhere.
    package var text: String {
        func line(_ setting: Setting) -> String { "\(setting.name) = \(setting.shown)  # \(path):\(setting.line)\n" }
        return settings.map(line).joined()
            + sections.map { "\n[\($0.host)]\n" + $0.settings.map(line).joined() }.joined()
    }
}

/// The options about the file of defaults.
struct ConfigurationOptions: ParsableArguments {
    @Option(
        help: "Read defaults for options from this file. [$XDG_CONFIG_HOME/haul/get.conf]", completion: .file())
    var config: String?
    @Flag(help: "Read no file of defaults.") var noConfig = false
    @Flag(help: "Print the defaults, with the lines that they come from, and end.") var printConfig = false

    func validate() throws {
        guard config == nil || !noConfig else { throw ValidationError("--config and --no-config exclude each other.") }
    }

    /// - Throws: `ExitStatus.usage`; the reason has been printed.
    func read() throws -> GetConfiguration? { noConfig ? nil : try GetConfiguration(named: config) }
}
