import Glibc
import HaulContract
import HaulTerminal
import Synchronization

/// Where each option of a long-running command comes from: its arguments, else the environment, else systemd's
/// credentials, else a file, else its default.
struct Settings: Sendable {
    enum Source: Sendable, CustomStringConvertible {
        case arguments
        case environment(String)
        case credential(String)
        case file(String, line: Int)

        var description: String {
            switch self {
            case .arguments: "the command line"
            case .environment(let name): "the variable \(name)"
            case .credential(let name): "the credential \(name)"
            case .file(let path, let line): "\(path):\(line)"
            }
        }
    }

    struct Setting: Sendable {
        let name: String
        let values: [String]
        let source: Source
    }

    /// The commands that are services. Only they have settings.
    static let commands: Set<String> = ["worker"]

    /// The settings of the command that runs, for messages.
    private static let current = Mutex<Settings?>(nil)

    let settings: [Setting]
    /// Warnings about variables whose names are nearly that of an option. They are not errors: other programs may set
    /// variables with the prefix `HAUL_`.
    let doubts: [String]
    /// The arguments for the parser.
    let arguments: [String]

    /// Adds the settings from the other sources to the arguments of a process (without the program's name). The
    /// arguments of a command without settings are returned unchanged.
    ///
    /// - Throws: `ExitStatus.usage` if a setting is wrong; the reason has been printed.
    static func complete(_ arguments: [String]) throws -> [String] {
        guard let verb = arguments.first, commands.contains(verb), !arguments.contains("--help"),
            !arguments.contains("-h"), let table = OptionTable(of: verb)
        else { return arguments }
        let settings = try Settings(Array(arguments.dropFirst()), table)
        current.withLock { $0 = settings }
        return settings.arguments
    }

    static var active: Settings? { current.withLock { $0 } }

    private init(_ arguments: [String], _ table: OptionTable) throws {
        let environment = Self.environment()
        let path = try Self.value(of: "--config", in: arguments) ?? Environment.protection("HAUL_CONFIG")
        let file = try path.map { try SettingsFile($0, for: table) }
        settings = try table.options.compactMap { option in
            if let given = Self.given(option, in: arguments) {
                // With one of two gates a worker would not have the protection that its command line shows.
                if !option.isFlag, !option.isRepeating, given.values.count > 1, Self.protections.contains(option.name) {
                    throw ExitStatus.printing(.usage, "--\(option.name) is given twice: give it once")
                }
                return given
            }
            if let setting = try Self.fromEnvironment(option, environment) ?? Self.credential(option)
                ?? Self.fromFile(option, file)
            {
                return setting
            }
            try Self.refuseEmpty(option)
            return nil
        }
        doubts = Self.doubts(environment.keys, table)
        var injected: [String] = []
        for setting in settings {
            if case .arguments = setting.source { continue }
            guard table.option(setting.name)?.isFlag == true else {
                injected += setting.values.map { "--\(setting.name)=\($0)" }
                continue
            }
            if try Self.isTrue(setting) { injected.append("--\(setting.name)") }
        }
        self.arguments = [table.command] + injected + arguments
    }

    /// A text to append to an error message: the sources of the options that `sentence` names. Options from the command
    /// line are left out, because the user sees them.
    static func sources(of sentence: String) -> String {
        let settings = active?.settings ?? []
        let sources: [String] = settings.compactMap { setting in
            if case .arguments = setting.source { return nil }
            return isNamed(setting.name, in: sentence) ? " (--\(setting.name) comes from \(setting.source))" : nil
        }
        return sources.joined()
    }

    /// Whether the sentence names the option, and not one whose name begins with that of this one.
    static func isNamed(_ option: String, in sentence: String) -> Bool {
        guard let range = sentence.firstRange(of: "--\(option)") else { return false }
        let next = sentence[range.upperBound...].first
        return next.map { !$0.isLetter && !$0.isNumber && $0 != "-" } ?? true
    }

    // MARK: Sources

    /// The options that protect or restrict. An empty variable is mostly a mistake, such as a variable of the deployment
    /// that is not set; a worker that started without the protection would not show it.
    private static let protections: Set<String> = [
        "gate", "kinds", "no-overwrite", "file-mode", "max-file-size", "limit-rate", "settle-replicas",
    ]

    /// - Throws: `ExitStatus.usage` if the option protects, no source sets it, and its variable is there and empty.
    private static func refuseEmpty(_ option: OptionTable.Option) throws {
        guard protections.contains(option.name) else { return }
        for name in [option.variable] + (option.isFlag ? [] : [option.fileVariable]) {
            _ = try Environment.protection(name)
        }
    }

    private static func given(_ option: OptionTable.Option, in arguments: [String]) -> Setting? {
        var values: [String] = []
        for (index, word) in arguments.enumerated() {
            if word == "--\(option.name)" {
                values.append(option.isFlag ? "true" : index + 1 < arguments.count ? arguments[index + 1] : "")
            } else if word.hasPrefix("--\(option.name)=") {
                values.append(String(word.dropFirst(option.name.count + 3)))
            }
        }
        return values.isEmpty ? nil : Setting(name: option.name, values: values, source: .arguments)
    }

    private static func fromEnvironment(
        _ option: OptionTable.Option, _ environment: [String: String]
    ) throws -> Setting? {
        if let text = environment[option.variable] {
            let values =
                option.isRepeating ? text.split(separator: ",").map { SettingsFile.trimmed(String($0)) } : [text]
            return Setting(name: option.name, values: values, source: .environment(option.variable))
        }
        guard !option.isFlag, let path = environment[option.fileVariable] else { return nil }
        let source = Source.environment(option.fileVariable)
        return Setting(name: option.name, values: [try secret(path, source)], source: source)
    }

    /// A credential of systemd: a file named after the option (LoadCredential= in systemd.exec(5)).
    private static func credential(_ option: OptionTable.Option) throws -> Setting? {
        guard !option.isFlag, let directory = Environment.text("CREDENTIALS_DIRECTORY") else { return nil }
        let path = "\(directory)/\(option.name)"
        guard access(path, F_OK) == 0 else { return nil }
        let source = Source.credential(option.name)
        return Setting(name: option.name, values: [try secret(path, source)], source: source)
    }

    private static func fromFile(_ option: OptionTable.Option, _ file: SettingsFile?) throws -> Setting? {
        guard let file else { return nil }
        let entries = file.entries.filter { $0.option.name == option.name }
        guard let first = entries.first else { return nil }
        let source = Source.file(file.path, line: first.line)
        let values = try entries.map { $0.isPath ? try secret($0.value, source) : $0.value }
        return Setting(name: option.name, values: values, source: source)
    }

    /// The text of a file, without white space at its ends: editors add a newline.
    private static func secret(_ path: String, _ source: Source) throws -> String {
        guard let text = SettingsFile.text(of: path) else {
            throw ExitStatus.printing(
                .usage, "\(source) names the file \(path), which cannot be read: \(String(cString: strerror(errno)))")
        }
        return SettingsFile.trimmed(text)
    }

    private static func isTrue(_ setting: Setting) throws -> Bool {
        switch setting.values.last?.lowercased() {
        case "true", "yes", "on", "1": return true
        case "false", "no", "off", "0": return false
        default:
            throw ExitStatus.printing(
                .usage, "\(setting.name) must be true or false; \(setting.source) says \"\(setting.values.last ?? "")\""
            )
        }
    }

    /// The environment variables that begin with `HAUL_` and are not empty.
    private static func environment() -> [String: String] {
        var result: [String: String] = [:]
        var entry = environ
        while let text = entry.pointee {
            entry += 1
            guard strncmp(text, "HAUL_", 5) == 0, let sign = strchr(text, 61) else { continue }
            let name = String(decoding: UnsafeRawBufferPointer(start: text, count: sign - text), as: UTF8.self)
            let value = String(cString: sign + 1)
            if !value.isEmpty { result[name] = value }
        }
        return result
    }

    private static func doubts(_ names: some Sequence<String>, _ table: OptionTable) -> [String] {
        let known = table.options.flatMap { [$0.variable, $0.fileVariable] } + ["HAUL_CONFIG"]
        return names.sorted().compactMap { name in
            guard !known.contains(name), let near = Suggestion.nearest(to: name, among: known, within: 2) else {
                return nil
            }
            return "the environment variable \(name) does not set an option: did you mean \(near)?"
        }
    }

    private static func value(of option: String, in words: [String]) -> String? {
        for (index, word) in words.enumerated() {
            if word == option { return index + 1 < words.count ? words[index + 1] : nil }
            if word.hasPrefix(option + "=") { return String(word.dropFirst(option.count + 1)) }
        }
        return nil
    }
}

/// What `--print-config` prints: a file of settings that says where each comes from, without secrets.
enum PrintedSettings {
    static func text(of settings: Settings, _ table: OptionTable) -> String {
        var text = "# The settings of haul \(table.command). Secrets of URLs are left out.\n"
        for option in table.options {
            guard let setting = settings.settings.first(where: { $0.name == option.name }) else {
                let value = option.isFlag ? "false" : option.defaultValue ?? ""
                text += value.isEmpty ? "# \(option.name) =\n" : "# \(option.name) = \(value)\n"
                continue
            }
            text += "# from \(setting.source):\n"
            for value in setting.values { text += "\(option.name) = \(masked(value, of: option.name))\n" }
        }
        return text
    }

    private static func masked(_ value: String, of option: String) -> String {
        if value.contains("://") { return MaskedURL.text(value).printable }
        // These may be given without a scheme.
        guard option == "proxy" || option == "redis" else { return value.printable }
        return String(MaskedURL.text("//://" + value).dropFirst(5)).printable
    }
}
