import HaulBus
import HaulRedis

/// What is set of a queue: docs/bus.md, "Settings of a queue". nil stands for what is not set, or has no effect.
public struct QueueSettings: Sendable, Equatable {
    /// No job begins.
    public var isPaused = false
    /// The most jobs that run at once over all workers.
    public var maxRunning: Int?
    /// Bytes of bodies per second, over all workers.
    public var rate: Int?
    /// How many jobs begin in a second, minute or hour over all workers, like `10/s`, `30/min` or `5/h`.
    public var starts: String?
    /// The most jobs that are at work on one host, over all workers.
    public var hostConnections: Int?
    /// The most bytes of responses that are kept; 256 MiB where it is not set.
    public var maxResponsesBytes: Int?
    /// For how long completed jobs are known; a day where it is not set.
    public var keepCompleted: Duration?
    /// For how long failed jobs are known; a week where it is not set.
    public var keepFailed: Duration?
    /// For how long cancelled jobs are known; a day where it is not set.
    public var keepCancelled: Duration?
    /// The workers that take no more jobs of the queue.
    public var quietWorkers: Set<String> = []

    /// Nothing is set.
    public init() {}

    init(_ fields: [String: String]) {
        func number(_ setting: QueueSetting) -> Int? {
            fields[setting.name].flatMap { setting.accepts($0) ? Int($0) : nil }
        }
        func isOn(_ setting: QueueSetting) -> Bool { ["1", "true"].contains(fields[setting.name]) }
        isPaused = isOn(.paused)
        maxRunning = number(.maxRunning)
        rate = number(.rate)
        starts = fields[QueueSetting.starts.name].flatMap { QueueSetting.starts.accepts($0) ? $0 : nil }
        hostConnections = number(.hostConnections)
        maxResponsesBytes = number(.maxResponsesBytes)
        keepCompleted = number(.keepCompleted).map { .seconds($0) }
        keepFailed = number(.keepFailed).map { .seconds($0) }
        keepCancelled = number(.keepCancelled).map { .seconds($0) }
        for name in fields.keys {
            if case .quiet(let worker)? = QueueSetting(name: name), isOn(.quiet(worker: worker)) {
                quietWorkers.insert(worker)
            }
        }
    }

    /// The settings and their values; nil for those that are not set.
    fileprivate var values: [QueueSetting: String?] {
        func seconds(_ time: Duration?) -> String? {
            // A fraction of a second is none that can be set.
            time.map { $0.components.attoseconds == 0 ? "\($0.components.seconds)" : "\($0)" }
        }
        var values: [QueueSetting: String?] = [
            .paused: isPaused ? "1" : nil, .maxRunning: maxRunning.map(String.init), .rate: rate.map(String.init),
            .starts: starts, .hostConnections: hostConnections.map(String.init),
            .maxResponsesBytes: maxResponsesBytes.map(String.init), .keepCompleted: seconds(keepCompleted),
            .keepFailed: seconds(keepFailed), .keepCancelled: seconds(keepCancelled),
        ]
        for worker in quietWorkers { values[.quiet(worker: worker)] = "1" }
        return values
    }

    /// What is to be written so that a queue with these settings has `others`.
    fileprivate func changes(to others: QueueSettings) -> [(setting: QueueSetting, value: String?)] {
        let (old, new) = (values, others.values)
        return Set(old.keys).union(new.keys).compactMap { setting in
            let (before, after) = (old[setting] ?? nil, new[setting] ?? nil)
            return before == after ? nil : (setting: setting, value: after)
        }
    }
}

/// What the whole fleet keeps to with one host: docs/bus.md, "Limits of hosts".
public struct HostLimits: Sendable, Equatable {
    /// The most jobs that are at work on the host.
    public var connections: Int?
    /// How many jobs begin there in a second, minute or hour, like `10/s`, `30/min` or `5/h`.
    public var starts: String?
    /// Bytes of bodies per second.
    public var rate: Int?

    /// No limit but those that are given.
    public init(connections: Int? = nil, starts: String? = nil, rate: Int? = nil) {
        (self.connections, self.starts, self.rate) = (connections, starts, rate)
    }

    init(_ value: JSON?) {
        connections = value?["connections"]?.integer.map { Int($0) }
        // A number is one of jobs per second.
        starts = value?["starts"].flatMap { $0.string ?? $0.integer.map { String($0) } }
        rate = value?["rate"]?.integer.map { Int($0) }
    }

    var json: String {
        var object = JSONObject()
        object.set("connections", connections.map { Int64($0) })
        object.set("starts", starts)
        object.set("rate", rate.map { Int64($0) })
        return object.text
    }
}

// What an operator sets. Redis' role for services has no right to most of it: `HaulError.Code.refused`.
extension HaulQueue {
    /// The settings of the queue.
    public func settings() async throws(HaulError) -> QueueSettings {
        QueueSettings(try await reaching { () throws(RedisError) in try await queue.settings() })
    }

    /// Changes settings; workers follow within a second. Of all settings only those are written that `change` makes others.
    ///
    ///     try await queue.changeSettings { $0.maxRunning = 20 }
    ///
    /// - Returns: The settings as they are now.
    /// - Throws: ``HaulError/Code-swift.struct/invalidSetting``, with ``HaulError/field``, before anything is written.
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
        }
        for (setting, value) in changes {
            try await reaching { () throws(RedisError) in try await queue.set(setting, to: value) }
        }
        return after
    }

    /// What the queue's jobs have where they do not say it themselves, by the field's name: docs/bus.md, "Defaults of a queue". What has no
    /// effect is left out. Header fields may be secret.
    public func defaults() async throws(HaulError) -> [String: JSON] {
        let found = try await reaching { () throws(RedisError) in try await queue.configuration() }.defaults
        var result: [String: JSON] = [:]
        for (name, text) in found where name != QueueDefault.base.name {
            if QueueDefault(name: name)?.accepts(text) == true { result[name] = try? JSON(text) }
        }
        return result
    }

    /// Gives a field of a job a default. Jobs that are taken from now on have it.
    ///
    ///     try await queue.setDefault("retries", to: 2)
    ///     try await queue.setDefault("headers", to: ["User-Agent": "films/2"])
    ///
    /// - Throws: ``HaulError/Code-swift.struct/invalidSetting`` if the field can have no default, or not this one.
    public func setDefault(_ field: String, to value: some Encodable) async throws(HaulError) {
        try await set(try Self.fieldWithDefault(field), to: try JSON.text(of: value))
    }

    /// Takes a default back.
    public func removeDefault(_ field: String) async throws(HaulError) {
        try await set(try Self.fieldWithDefault(field), to: nil)
    }

    /// The absolute URL against which a job's relative `url` is resolved, if there is one.
    public func base() async throws(HaulError) -> String? {
        let found = try await reaching { () throws(RedisError) in try await queue.configuration() }.defaults
        return found[QueueDefault.base.name].flatMap {
            QueueDefault.base.accepts($0) ? (try? JSON($0))?.string : nil
        }
    }

    /// Sets that URL, or, with nil, takes it back. It is for elements that are pushed with a plain LPUSH: the jobs that this library pushes
    /// have absolute URLs.
    ///
    /// - Throws: ``HaulError/Code-swift.struct/invalidSetting`` if it is no absolute http or https URL.
    public func setBase(_ url: String?) async throws(HaulError) { try await set(.base, to: url.map(JSON.quoted)) }

    /// The limits of hosts that have some of their own, by host, or by host and port. What has no effect is left out.
    public func hostLimits() async throws(HaulError) -> [String: HostLimits] {
        let found = try await reaching { () throws(RedisError) in try await queue.configuration() }.limits
        var result: [String: HostLimits] = [:]
        for (host, text) in found where HostLimit.isHost(host) && HostLimit.accepts(text) {
            result[host] = HostLimits(try? JSON(text))
        }
        return result
    }

    /// Sets what the fleet keeps to with a host, or, with nil, takes it back.
    ///
    /// - Parameters:
    ///   - limits: They take the place of those that the host had.
    ///   - host: In lower case; `host:port` is for that port alone.
    /// - Throws: ``HaulError/Code-swift.struct/invalidSetting``.
    public func setLimits(_ limits: HostLimits?, of host: String) async throws(HaulError) {
        guard HostLimit.isHost(host) else {
            throw HaulError(setting: "limits", "\(host) is no host in lower case, perhaps with a port")
        }
        let text = limits?.json
        if let text, !HostLimit.accepts(text) {
            throw HaulError(setting: "limits", "the limits of \(host): \(HostLimit.rule)")
        }
        try await reaching { () throws(RedisError) in try await queue.setLimit(of: host, to: text) }
    }

    private func set(_ field: QueueDefault, to value: String?) async throws(HaulError) {
        if let value, !field.accepts(value) {
            throw HaulError(setting: field.name, "\(field.name) \(field.rule), not \(value.prefix(200))")
        }
        try await reaching { () throws(RedisError) in try await queue.set(field, to: value) }
    }

    private static func fieldWithDefault(_ name: String) throws(HaulError) -> QueueDefault {
        guard let field = QueueDefault(name: name), field != .base else {
            throw HaulError(setting: name, "\(name) can have no default")
        }
        return field
    }
}
