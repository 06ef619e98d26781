import HaulBus
import HaulRedis

/// The settings of a queue: docs/operate/queues.md. nil means that a setting is not set, or
/// that its value in Redis is not valid and so has no effect.
public struct QueueSettings: Sendable, Equatable {
    /// Whether the queue, or one of its partitions, is paused: no job starts there.
    public var isPaused = false
    /// The maximum number of jobs that run at once, over all workers.
    public var maxRunning: Int?
    /// The limit of received and sent body bytes per second, over all workers.
    public var rate: RateLimit?
    /// How many jobs may start per second, minute or hour, over all workers: `10/s`, `30/min` or `5/h`.
    public var starts: String?
    /// The maximum number of jobs that run on one host at once, over all workers.
    public var hostConnections: Int?
    /// The maximum duration of a run, in whole seconds. A job cannot lift this limit.
    public var maxSeconds: Duration?
    /// The minimum speed of a download, in bytes per second over 30 s. A job can only ask for more.
    public var minSpeed: Int?
    /// The maximum size of a file, in bytes. A job can only ask for less.
    public var maxBytes: Int?
    /// The maximum number of bytes of responses that Redis keeps. The default is 256 MiB.
    public var maxResponsesBytes: Int?
    /// The maximum number of bytes of replies with responses in reply lists. The default is 256 MiB.
    public var maxRepliesBytes: Int?
    /// About how many events the queue's stream keeps: docs/guides/durable-events.md.
    public var eventStream: Int?
    /// For how long Redis keeps completed jobs, in whole seconds. The default is a day.
    public var keepCompleted: Duration?
    /// For how long Redis keeps failed jobs, in whole seconds. The default is a week.
    public var keepFailed: Duration?
    /// For how long Redis keeps cancelled jobs, in whole seconds. The default is a day.
    public var keepCancelled: Duration?
    /// The names of the workers that take no more jobs of the queue.
    public var quietWorkers: Set<String> = []

    /// No setting is set.
    public init() {}

    init(_ fields: [String: String]) {
        func number(_ setting: QueueSetting) -> Int? {
            fields[setting.name].flatMap { setting.accepts($0) ? Int($0) : nil }
        }
        func isOn(_ setting: QueueSetting) -> Bool { ["1", "true"].contains(fields[setting.name]) }
        isPaused = isOn(.paused)
        maxRunning = number(.maxRunning)
        rate = fields[QueueSetting.rate.name].flatMap { QueueSetting.rate.accepts($0) ? RateLimit($0) : nil }
        starts = fields[QueueSetting.starts.name].flatMap { QueueSetting.starts.accepts($0) ? $0 : nil }
        hostConnections = number(.hostConnections)
        maxSeconds = number(.maxSeconds).map { .seconds($0) }
        minSpeed = number(.minSpeed)
        maxBytes = number(.maxBytes)
        maxResponsesBytes = number(.maxResponsesBytes)
        maxRepliesBytes = number(.maxRepliesBytes)
        eventStream = number(.eventStream)
        keepCompleted = number(.keepCompleted).map { .seconds($0) }
        keepFailed = number(.keepFailed).map { .seconds($0) }
        keepCancelled = number(.keepCancelled).map { .seconds($0) }
        for name in fields.keys {
            if case .quiet(let worker)? = QueueSetting(name: name), isOn(.quiet(worker: worker)) {
                quietWorkers.insert(worker)
            }
        }
    }

    /// The settings and their values in Redis. nil for settings that are not set.
    fileprivate var values: [QueueSetting: String?] {
        func seconds(_ time: Duration?) -> String? {
            // A time with a fraction of a second becomes a text that the check refuses.
            time.map { $0.components.attoseconds == 0 ? "\($0.components.seconds)" : "\($0)" }
        }
        var values: [QueueSetting: String?] = [
            .paused: isPaused ? "1" : nil, .maxRunning: maxRunning.map(String.init), .rate: rate?.text,
            .starts: starts, .hostConnections: hostConnections.map(String.init),
            .maxSeconds: seconds(maxSeconds), .minSpeed: minSpeed.map(String.init),
            .maxBytes: maxBytes.map(String.init), .maxResponsesBytes: maxResponsesBytes.map(String.init),
            .maxRepliesBytes: maxRepliesBytes.map(String.init), .eventStream: eventStream.map(String.init),
            .keepCompleted: seconds(keepCompleted),
            .keepFailed: seconds(keepFailed), .keepCancelled: seconds(keepCancelled),
        ]
        for worker in quietWorkers { values[.quiet(worker: worker)] = "1" }
        return values
    }

    /// The settings to write so that a queue with these settings gets `others`. A value of nil removes the setting.
    fileprivate func changes(to others: QueueSettings) -> [(setting: QueueSetting, value: String?)] {
        let (old, new) = (values, others.values)
        return Set(old.keys).union(new.keys).compactMap { setting in
            let (before, after) = (old[setting] ?? nil, new[setting] ?? nil)
            return before == after ? nil : (setting: setting, value: after)
        }
    }
}

/// A limit of bytes per second. It may depend on the time of day.
///
///     settings.rate = 5_000_000
///     settings.rate = "full 22:00-06:00 Europe/Berlin, 2M"
///
/// Times are UTC unless a zone follows them: docs/operate/queues.md. The text is checked when it is set.
public struct RateLimit: Sendable, Hashable, ExpressibleByIntegerLiteral, ExpressibleByStringLiteral {
    /// The limit as Redis keeps it.
    public let text: String

    /// A limit by its text.
    public init(_ text: String) { self.text = text }

    /// The same limit all day.
    public init(bytesPerSecond: Int) { text = String(bytesPerSecond) }

    public init(integerLiteral value: Int) { self.init(bytesPerSecond: value) }
    public init(stringLiteral value: String) { self.init(value) }
}

/// The limits of the whole fleet for one host or one group: docs/operate/queues.md. nil means that there is no limit.
public struct HostLimits: Sendable, Equatable {
    /// The maximum number of jobs that run on the host at once. A group has ``running`` instead.
    public var connections: Int?
    /// The maximum number of a group's jobs that run at once. A host has ``connections`` instead.
    public var running: Int?
    /// How many jobs may start on the host per second, minute or hour: `10/s`, `30/min` or `5/h`.
    public var starts: String?
    /// The limit of received and sent body bytes per second.
    public var rate: RateLimit?
    /// The maximum duration of a run, in seconds.
    public var maxSeconds: Int?
    /// The minimum speed of a download, in bytes per second over 30 s.
    public var minSpeed: Int?
    /// The maximum size of a file, in bytes.
    public var maxBytes: Int?

    /// The given limits, and no others.
    public init(connections: Int? = nil, starts: String? = nil, rate: RateLimit? = nil) {
        (self.connections, self.starts, self.rate) = (connections, starts, rate)
    }

    init(_ value: JSON?) {
        running = value?["running"]?.integer.map { Int($0) }
        connections = value?["connections"]?.integer.map { Int($0) }
        // A plain number means jobs per second.
        starts = value?["starts"].flatMap { $0.string ?? $0.integer.map { String($0) } }
        rate = value?["rate"].flatMap { $0.string ?? $0.integer.map { String($0) } }.map { RateLimit($0) }
        maxSeconds = value?["max_seconds"]?.integer.map { Int($0) }
        minSpeed = value?["min_speed"]?.integer.map { Int($0) }
        maxBytes = value?["max_bytes"]?.integer.map { Int($0) }
    }

    var json: String {
        var object = JSONObject()
        object.set("connections", connections.map { Int64($0) })
        object.set("running", running.map { Int64($0) })
        object.set("starts", starts)
        if let rate = rate?.text {
            if let number = Int64(rate) { object.set("rate", number) } else { object.set("rate", rate) }
        }
        object.set("max_seconds", maxSeconds.map { Int64($0) })
        object.set("min_speed", minSpeed.map { Int64($0) })
        object.set("max_bytes", maxBytes.map { Int64($0) })
        return object.text
    }
}

// Calls for operators. Redis' role for services has no right to most of them: they throw `HaulError.Code.refused`.
extension HaulQueue {
    /// The settings of the queue.
    public func settings() async throws(HaulError) -> QueueSettings {
        QueueSettings(try await mappingErrors { () throws(RedisError) in try await queue.settings() })
    }

    /// Changes settings. Workers follow within a second. Writes only the settings that `change` modifies.
    ///
    ///     try await queue.changeSettings { $0.maxRunning = 20 }
    ///
    /// - Returns: The settings after the change.
    /// - Throws: ``HaulError/Code-swift.struct/invalidSetting`` with ``HaulError/field`` if a new value is not valid.
    ///   Then no setting was written.
    @discardableResult
    public func changeSettings(
        _ change: (inout QueueSettings) -> Void
    ) async throws(HaulError) -> QueueSettings {
        let before = try await settings()
        var after = before
        change(&after)
        let changes = before.changes(to: after)
        for (setting, value) in changes {
            if let value, !setting.accepts(value) {
                throw HaulError(setting: setting.name, "\(setting.name) \(setting.rule), not \(value)")
            }
            if setting == .rate, let fault = value.flatMap(RateSchedule.init)?.zoneFault {
                throw HaulError(setting: setting.name, "\(setting.name): \(fault)")
            }
        }
        for (setting, value) in changes {
            try await mappingErrors { () throws(RedisError) in try await queue.set(setting, to: value) }
        }
        return after
    }

    /// The defaults of the queue's jobs by the field's name: docs/operate/queues.md. Leaves out
    /// defaults without an effect. The values of header fields may be secret.
    public func defaults() async throws(HaulError) -> [String: JSON] {
        let found = try await mappingErrors { () throws(RedisError) in try await queue.configuration() }.defaults
        var result: [String: JSON] = [:]
        for (name, text) in found where name != QueueDefault.base.name {
            if QueueDefault(name: name)?.accepts(text) == true { result[name] = try? JSON(text) }
        }
        return result
    }

    /// Sets the default of a field. It applies to jobs that workers take from now on.
    ///
    ///     try await queue.setDefault("retries", to: 2)
    ///     try await queue.setDefault("headers", to: ["User-Agent": "films/2"])
    ///
    /// - Throws: ``HaulError/Code-swift.struct/invalidSetting`` if the field can have no default, or not this value.
    public func setDefault(_ field: String, to value: some Encodable) async throws(HaulError) {
        let setting = try Self.fieldWithDefault(field)
        let text: String
        do throws(HaulError) { text = try JSON.text(of: value) } catch {
            throw HaulError(setting: field, "the default of \(field) cannot be written as JSON")
        }
        try await set(setting, to: text)
    }

    /// Removes the default of a field.
    ///
    /// - Throws: ``HaulError/Code-swift.struct/invalidSetting`` if the field can have no default.
    public func removeDefault(_ field: String) async throws(HaulError) {
        try await set(try Self.fieldWithDefault(field), to: nil)
    }

    /// The absolute URL against which the relative `url` of a job is resolved. nil if none is set.
    public func base() async throws(HaulError) -> String? {
        let found = try await mappingErrors { () throws(RedisError) in try await queue.configuration() }.defaults
        return found[QueueDefault.base.name].flatMap {
            QueueDefault.base.accepts($0) ? (try? JSON($0))?.string : nil
        }
    }

    /// Sets the URL that ``base()`` returns. nil removes it. It is for elements that are pushed with a plain LPUSH:
    /// jobs that this library pushes have absolute URLs.
    ///
    /// - Throws: ``HaulError/Code-swift.struct/invalidSetting`` if `url` is not an absolute http or https URL.
    public func setBase(_ url: String?) async throws(HaulError) { try await set(.base, to: url.map(JSON.quoted)) }

    /// The limits of single hosts, by `host` or `host:port`, and of groups, by `group:name`. Leaves out limits without an effect.
    public func hostLimits() async throws(HaulError) -> [String: HostLimits] {
        let found = try await mappingErrors { () throws(RedisError) in try await queue.configuration() }.limits
        var result: [String: HostLimits] = [:]
        for (host, text) in found where HostLimit.accepts(text, of: host) {
            result[host] = HostLimits(try? JSON(text))
        }
        return result
    }

    /// Sets the limits of the fleet for a host or a group.
    ///
    /// - Parameters:
    ///   - limits: They replace all limits of the host or the group. nil removes the limits.
    ///   - host: The host in lower case. `host:port` is for this port only. `group:acme` is the group `acme`.
    /// - Throws: ``HaulError/Code-swift.struct/invalidSetting`` if the host or the limits are not valid.
    public func setLimits(_ limits: HostLimits?, of host: String) async throws(HaulError) {
        guard HostLimit.isName(host) else {
            throw HaulError(setting: "limits", "\(host) is not \(HostLimit.nameRule)")
        }
        let text = limits?.json
        if let text, !HostLimit.accepts(text, of: host) {
            throw HaulError(setting: "limits", "the limits of \(host): \(HostLimit.rule(of: host))")
        }
        if let fault = text.flatMap(HostLimit.rate)?.zoneFault {
            throw HaulError(setting: "limits", "the limits of \(host): \(fault)")
        }
        try await mappingErrors { () throws(RedisError) in try await queue.setLimit(of: host, to: text) }
    }

    private func set(_ field: QueueDefault, to value: String?) async throws(HaulError) {
        if let value, !field.accepts(value) {
            throw HaulError(setting: field.name, "\(field.name) \(field.rule), not \(value.prefix(200))")
        }
        try await mappingErrors { () throws(RedisError) in try await queue.set(field, to: value) }
    }

    private static func fieldWithDefault(_ name: String) throws(HaulError) -> QueueDefault {
        guard let field = QueueDefault(name: name), field != .base else {
            throw HaulError(setting: name, "\(name) can have no default")
        }
        return field
    }
}
