import ArgumentParser
import HaulBus
import HaulContract
import HaulRedis
import HaulTerminal

/// A setting of a queue, a default of its jobs, or the limits of a host or a group, by its name on the command line.
enum QueueEntry {
    case setting(QueueSetting)
    case jobDefault(QueueDefault)
    case hostLimit(String)

    static let prefix = "default."
    static let hostPrefix = "limits."

    init(name: String) throws {
        if name == QueueDefault.base.name {
            self = .jobDefault(.base)
        } else if name.hasPrefix(Self.hostPrefix) {
            let host = String(name.dropFirst(Self.hostPrefix.count))
            guard HostLimit.isName(host) else {
                throw Self.unknown(name, "\(host) is not \(HostLimit.nameRule)")
            }
            self = .hostLimit(host)
        } else if name.hasPrefix(Self.prefix) {
            let field = String(name.dropFirst(Self.prefix.count))
            guard let known = QueueDefault(name: field), known != .base else {
                throw Self.unknown(name, "\(field) can have no default")
            }
            self = .jobDefault(known)
        } else {
            guard let setting = QueueSetting(name: name) else { throw Self.unknown(name, "\(name) is not a setting") }
            self = .setting(setting)
        }
    }

    private static var names: [String] {
        QueueSetting.fixed.map(\.name) + QueueDefault.all.map { QueueEntry.jobDefault($0).name }
    }

    /// "Did you mean …?", if a name is similar. A prefix that both names have does not count as similarity.
    private static func nearest(to name: String) -> String? {
        let fields = QueueDefault.all.dropFirst().map(\.name)
        let near =
            name.hasPrefix(prefix)
            ? Suggestion.nearest(to: String(name.dropFirst(prefix.count)), among: fields).map { prefix + $0 }
            : fields.contains(name) ? prefix + name : Suggestion.nearest(to: name, among: names)
        return near.map { "Did you mean \($0)?" }
    }

    private static func unknown(_ name: String, _ reason: String) -> ExitStatus {
        return .printing(.usage, "\(reason). \(nearest(to: name) ?? "haul queue set --help names all")")
    }

    var name: String {
        switch self {
        case .setting(let setting): setting.name
        case .jobDefault(.base): QueueDefault.base.name
        case .jobDefault(let field): Self.prefix + field.name
        case .hostLimit(let host): Self.hostPrefix + host
        }
    }

    /// Whether it limits all jobs of the queue together, so that each partition has its own.
    var isLimit: Bool {
        switch self {
        case .setting(.maxRunning), .setting(.rate), .setting(.starts), .setting(.hostConnections), .hostLimit: true
        case .setting(.eventStream), .setting(.maxResponsesBytes), .setting(.maxRepliesBytes): true
        default: false
        }
    }

    var rule: String {
        switch self {
        case .setting(let setting): setting.rule
        case .jobDefault(let field): field.rule
        case .hostLimit(let host): HostLimit.rule(of: host)
        }
    }

    /// The value as Redis keeps it; nil if it is not valid. A string needs no quotes on the command line.
    func kept(_ value: String) -> String? {
        switch self {
        case .setting(let setting): return setting.accepts(value) ? value : nil
        case .jobDefault(let field):
            if field.accepts(value) { return value }
            let text = JSON.quoted(value)
            return field.accepts(text) ? text : nil
        case .hostLimit(let host): return HostLimit.accepts(value, of: host) ? value : nil
        }
    }

    /// Why a valid value is not set; nil if it is. Workers accept a zone that they do not know, and apply the lowest rate.
    func fault(of kept: String) -> String? {
        switch self {
        case .setting(.rate): RateSchedule(kept)?.zoneFault
        case .hostLimit: HostLimit.rate(kept)?.zoneFault
        default: nil
        }
    }

    func set(to value: String?, in queue: Queue) async throws {
        try await queue.change(record(of: value)) { () throws(RedisError) in
            switch self {
            case .setting(let setting): try await queue.set(setting, to: value)
            case .jobDefault(let field): try await queue.set(field, to: value)
            case .hostLimit(let host): try await queue.setLimit(of: host, to: value)
            }
        }
    }

    private func record(of value: String?) -> ChangeRecord {
        // A default of jobs may hold a secret.
        if case .jobDefault = self, value != nil { return ChangeRecord(setting: name) }
        return ChangeRecord(setting: "\(name)=\(value ?? "none")")
    }
}

extension QueueCommand {
    struct SetQueue: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "set", abstract: "Set a setting of the queue, or a default of its jobs.",
            discussion:
                "Settings: \(QueueSetting.fixed.map(\.name).joined(separator: ", ")). Defaults: base, and default.FIELD with a "
                + "field of a job: "
                + QueueDefault.all.dropFirst().map(\.name).joined(separator: ", ")
                + ". Limits: limits.HOST with a value like {\"connections\":4,\"rate\":5000000,\"starts\":\"10/s\"}, and max_seconds, min_speed and max_bytes as of the queue. limits.group:NAME are those of a group, with running instead of connections. A default is JSON; a string needs no quotes. Jobs follow a default from their next run on, but path, delay, deadline, reply_to, notify and meta are those of the moment at which the push is taken."
        )
        @OptionGroup var common: CommonOptions
        @Argument(help: "Its name, like keep_failed, default.retries or base.") var name: String
        @Argument(help: "Its value.") var value: String

        func run() async throws {
            let entry = try QueueEntry(name: name)
            guard let kept = entry.kept(value) else {
                throw ExitStatus.printing(.usage, "\(name) \(entry.rule), not \(value)")
            }
            if let fault = entry.fault(of: kept) { throw ExitStatus.printing(.usage, "\(name): \(fault)") }
            let queue = try await common.connect()
            try await entry.set(to: kept, in: queue)
            QueueCommand.printValues(
                [(name, kept)], common,
                "\(name) of the queue \(queue.name) is \(kept)\(entry.isLimit ? queue.scopeOfLimits : "")")
        }
    }

    struct UnsetQueue: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "unset", abstract: "Remove a setting of the queue, or a default of its jobs.")
        @OptionGroup var common: CommonOptions
        @Argument(help: "Its name, like keep_failed, default.retries or base.") var name: String

        func run() async throws {
            let entry = try QueueEntry(name: name)
            let queue = try await common.connect()
            try await entry.set(to: nil, in: queue)
            QueueCommand.printValues([(name, nil)], common, "\(name) of the queue \(queue.name) is no longer set")
        }
    }

    struct ShowQueue: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "show", abstract: "Show the settings of the queue, and the defaults of its jobs.",
            discussion: "The values of header fields may be secret, and are shown.")
        @OptionGroup var common: CommonOptions

        func run() async throws {
            let queue = try await common.connect()
            let found = try await queue.configuration()
            var rows: [(name: String, value: String, isValid: Bool)] = []
            for (name, value) in found.settings {
                rows.append((name, value, QueueSetting(name: name)?.accepts(value) ?? false))
            }
            for (name, value) in found.defaults {
                let known = QueueDefault(name: name)
                let shown = known == .base ? name : QueueEntry.prefix + name
                rows.append((shown, value, known?.accepts(value) ?? false))
            }
            for (host, value) in found.limits {
                let isValid = HostLimit.accepts(value, of: host)
                rows.append((QueueEntry.hostPrefix + host, value, isValid))
            }
            let differences = try await queue.differences()
            let differing = Dictionary(differences.map { (Self.name(of: $0), $0) }) { first, _ in first }
            let sorted = rows.sorted { $0.name < $1.name }
            if common.json {
                let names = differing.keys.sorted().map(JSON.quoted).joined(separator: ",")
                let note = differing.isEmpty ? [] : [("differs", "[\(names)]" as String?)]
                return QueueCommand.printValues(sorted.map { ($0.name, $0.value) } + note, common, "")
            }
            if sorted.isEmpty { return Terminal.line("nothing is set for the queue \(queue.name)") }
            var table = Table([.init(title: "NAME"), .init(title: "VALUE"), .init(title: "NOTE")])
            for (name, value, isValid) in sorted {
                let difference = differing[name].map { Self.note(of: $0, value, in: queue) }
                table.add([name, value, difference ?? (isValid ? "" : "has no effect: see haul check")])
            }
            for line in table.lines(width: Terminal.width) { Terminal.line(line) }
            if !differing.isEmpty {
                Terminal.printError(
                    "haul: partitions differ, because a change did not reach all of them: set or unset these again")
            }
        }

        /// The name as `haul queue set` takes it.
        private static func name(of difference: SettingDifference) -> String {
            switch difference.hash {
            case "limits": QueueEntry.hostPrefix + difference.name
            case "defaults" where difference.name != QueueDefault.base.name: QueueEntry.prefix + difference.name
            default: difference.name
            }
        }

        /// In how many partitions the field has the value that is shown, and which others differ.
        private static func note(of difference: SettingDifference, _ value: String, in queue: Queue) -> String {
            let others = difference.values.indices.filter { difference.values[$0] != value }
            let names = others.prefix(4).map { index in
                let name = queue.partitions[index].name.text
                return difference.values[index].map { "\(name) has \($0)" } ?? "\(name) has none"
            }
            return "only in \(difference.values.count - others.count) of \(difference.values.count) partitions: "
                + names.joined(separator: ", ") + (others.count > 4 ? " and \(others.count - 4) more differ" : "")
        }
    }

    /// Prints the values as one JSON object with `--json`, else the sentence.
    fileprivate static func printValues(_ values: [(String, String?)], _ common: CommonOptions, _ sentence: String) {
        guard common.json else { return Terminal.line(sentence.printable) }
        var object = JSONObject()
        for (name, value) in values {
            // A value that is not JSON becomes a string.
            let isJSON = value.map { (try? JSON($0)) != nil } ?? true
            object.set(name, json: isJSON ? value ?? "null" : JSON.quoted(value!))
        }
        Terminal.line(object.text)
    }
}
