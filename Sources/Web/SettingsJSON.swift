import HaulBus
import HaulContract
import HaulRedis

/// The settings of a queue in the API's JSON: settings by their names, and `base`, `defaults` and `limits`.
enum SettingsJSON {
    /// The settings as JSON. Those without effect are named in `ignored`: `haul check` says why.
    ///
    /// - Parameter isOperator: False for a viewer, who does not see the values of header fields and queries, nor
    ///   secrets in URLs.
    static func text(of queue: Queue, isOperator: Bool) async throws(RedisError) -> String {
        text(
            try await queue.configuration(), isOperator: isOperator,
            differing: try await queue.differences().map(\.label))
    }

    private static func text(
        _ found: (settings: [String: String], defaults: [String: String], limits: [String: String]), isOperator: Bool,
        differing: [String]
    ) -> String {
        var json = JSONObject()
        var ignored: [String] = []
        json.set("paused", ["1", "true"].contains(found.settings[QueueSetting.paused.name]))
        for (name, value) in found.settings where QueueSetting(name: name)?.accepts(value) != true {
            ignored.append(name)
        }
        for setting in QueueSetting.fixed where setting != .paused {
            guard let value = found.settings[setting.name], setting.accepts(value) else { continue }
            if setting != .starts, let number = Int64(value) {
                json.set(setting.name, number)
            } else {
                json.set(setting.name, value)
            }
        }
        var defaults = JSONObject()
        for (name, value) in found.defaults.sorted(by: { $0.key < $1.key }) {
            guard let field = QueueDefault(name: name), field.accepts(value), let read = try? JSON(value) else {
                ignored.append("defaults.\(name)")
                continue
            }
            if field == .base {
                json.set(name, isOperator ? read.string : read.string.map(MaskedURL.text))
            } else {
                defaults.set(name, json: isOperator ? value : secret.contains(name) ? masked(read) : maskingURLs(read))
            }
        }
        var limits = JSONObject()
        for (host, value) in found.limits.sorted(by: { $0.key < $1.key }) {
            if HostLimit.accepts(value, of: host) {
                limits.set(host, json: value)
            } else {
                ignored.append("limits.\(host)")
            }
        }
        if !defaults.members.isEmpty { json.set("defaults", json: defaults.text) }
        if !limits.members.isEmpty { json.set("limits", json: limits.text) }
        let quiet = found.settings.compactMap { name, value in
            name.hasPrefix("quiet:") && ["1", "true"].contains(value) ? String(name.dropFirst(6)) : nil
        }
        if !quiet.isEmpty {
            json.set("quiet", json: quiet.sorted().reduce(into: JSONObject()) { $0.set($1, true) }.text)
        }
        if !ignored.isEmpty {
            json.set("ignored", json: "[\(ignored.sorted().map(JSON.quoted).joined(separator: ","))]")
        }
        // Not the same in all partitions: a change did not reach all of them.
        if !differing.isEmpty {
            json.set("differs", json: "[\(differing.sorted().map(JSON.quoted).joined(separator: ","))]")
        }
        return json.text
    }

    /// Defaults of which a viewer sees only the names.
    private static let secret: Set<String> = ["headers", "query"]

    private static func masked(_ value: JSON) -> String {
        (value.members ?? []).reduce(into: JSONObject()) { $0.set($1.name, "[masked]") }.text
    }

    /// A default as a viewer sees it: whatever field it belongs to, its URLs have no secrets.
    private static func maskingURLs(_ value: JSON) -> String {
        switch value {
        case .string(let text): JSON.quoted(text.contains("://") ? MaskedURL.text(text) : text)
        case .array(let elements): "[\(elements.map(maskingURLs).joined(separator: ","))]"
        case .object(let members):
            members.reduce(into: JSONObject()) { $0.set($1.name, json: maskingURLs($1.value)) }.text
        default: value.text
        }
    }

    /// A value to set; nil removes it.
    enum Change: CustomStringConvertible {
        case setting(QueueSetting, String?)
        case jobDefault(QueueDefault, String?)
        case hostLimit(String, String?)
        /// Whether a worker is quiet.
        case workerQuiet(String, Bool)

        /// The name of what is changed, and the new value unless it may hold a secret.
        var description: String {
            switch self {
            case .setting(let setting, let value): "\(setting.name)=\(value ?? "none")"
            case .jobDefault(let field, let value):
                (field == .base ? field.name : "defaults.\(field.name)") + (value == nil ? "=none" : "")
            case .hostLimit(let host, let value): "limits.\(host)=\(value ?? "none")"
            case .workerQuiet(let worker, let isQuiet): "quiet:\(worker)=\(isQuiet)"
            }
        }

        func make(in queue: Queue) async throws(RedisError) {
            switch self {
            case .setting(let setting, let value): try await queue.set(setting, to: value)
            case .jobDefault(let field, let value): try await queue.set(field, to: value)
            case .hostLimit(let host, let value): try await queue.setLimit(of: host, to: value)
            case .workerQuiet(let worker, let isQuiet): try await queue.setQuiet(worker, isQuiet)
            }
        }
    }

    /// The changes that a body asks for. All are checked before any is written.
    ///
    /// - Throws: `bad_request`, with a sentence that says what is wrong.
    static func changes(_ json: JSON) throws(APIError) -> [Change] {
        var changes: [Change] = []
        guard let members = json.members, !members.isEmpty else {
            throw refusal("give a setting, base, defaults, limits or quiet")
        }
        for member in members {
            switch member.name {
            case QueueDefault.base.name: changes.append(try jobDefault(.base, member.value, "base"))
            case "defaults":
                for field in try Self.members(of: member) {
                    guard let known = QueueDefault(name: field.name), known != .base else {
                        throw refusal("\(field.name) can have no default")
                    }
                    changes.append(try jobDefault(known, field.value, "defaults.\(field.name)"))
                }
            case "limits":
                for host in try Self.members(of: member) { changes.append(try hostLimit(host.name, host.value)) }
            case "quiet":
                for worker in try Self.members(of: member) {
                    guard JobField.isID(worker.name) else {
                        throw refusal("quiet: \(worker.name) is not a valid worker name")
                    }
                    switch worker.value {
                    case .bool(let isQuiet): changes.append(.workerQuiet(worker.name, isQuiet))
                    case .null: changes.append(.workerQuiet(worker.name, false))
                    default: throw refusal("quiet of \(worker.name) must be true, false or null")
                    }
                }
            default: changes.append(try setting(member.name, member.value))
            }
        }
        return changes
    }

    private static func refusal(_ sentence: String) -> APIError {
        APIError(422, .badRequest, "\(sentence). Nothing was set.")
    }

    private static func members(
        of member: JSON.Member
    ) throws(APIError) -> [JSON.Member] {
        guard let members = member.value.members else { throw refusal("\(member.name) must be an object") }
        return members
    }

    private static func setting(_ name: String, _ value: JSON) throws(APIError) -> Change {
        guard let setting = QueueSetting.fixed.first(where: { $0.name == name }) else {
            throw refusal("\(name) is not a setting")
        }
        switch (setting, value) {
        case (_, .null): return .setting(setting, nil)
        case (.paused, .bool(let isPaused)): return .setting(.paused, isPaused ? "1" : nil)
        case (.paused, _): throw refusal("paused must be true, false or null")
        default:
            let text = value.integer.map { String($0) } ?? ([.starts, .rate].contains(setting) ? value.string : nil)
            guard let text, setting.accepts(text) else { throw refusal("\(name) \(setting.rule), or null") }
            if setting == .rate, let fault = RateSchedule(text)?.zoneFault { throw refusal("\(name): \(fault)") }
            return .setting(setting, text)
        }
    }

    private static func jobDefault(_ field: QueueDefault, _ value: JSON, _ location: String) throws(APIError) -> Change
    {
        if value == .null { return .jobDefault(field, nil) }
        guard field.accepts(value.text) else { throw refusal("\(location) \(field.rule)") }
        return .jobDefault(field, value.text)
    }

    private static func hostLimit(_ host: String, _ value: JSON) throws(APIError) -> Change {
        guard HostLimit.isName(host) else {
            throw refusal("limits: \(host) is not \(HostLimit.nameRule)")
        }
        if value == .null { return .hostLimit(host, nil) }
        guard HostLimit.accepts(value.text, of: host) else {
            throw refusal("limits of \(host): \(HostLimit.rule(of: host))")
        }
        if let fault = HostLimit.rate(value.text)?.zoneFault { throw refusal("limits of \(host): \(fault)") }
        return .hostLimit(host, value.text)
    }
}
