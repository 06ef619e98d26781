import HaulBus
import HaulContract
import HaulRedis

// The methods that change something.

extension Aria2 {
    func change(_ name: String, _ params: [JSON], _ caller: Caller) async throws -> String {
        var change = ChangeRecord(name, by: caller.description, via: .aria2)
        do {
            let result = try await apply(name, params, caller, &change)
            await audit.changed(change, of: queue, by: caller)
            // The client that made the change must not get older figures. Pushes are many, and their clients do not look.
            if name != "addUri" { await api.reads.expireAll() }
            return result
        } catch let error as RedisError {
            audit.failed(change, of: queue, by: caller, APIError(error))
            throw error
        }
    }

    private func apply(
        _ name: String, _ params: [JSON], _ caller: Caller, _ change: inout ChangeRecord
    ) async throws -> String {
        switch name {
        case "addUri":
            if params.count > 1, let id = params[1][Self.retryOption]?.string { return try await retry(id, &change) }
            let uris = (params.first?.array ?? []).compactMap(\.string)
            guard !uris.isEmpty else { throw Failure("URI is not provided.") }
            let element = try Self.element(uris, params.count > 1 ? params[1] : nil)
            change.ids = [element.id]
            let place = queue.placement(ofID: element.id, inBatch: nil)
            let timestamp = try await queue.timestamps(of: [place: [element.id]])[place] ?? 0
            // The pause is there before the push: it stops pushes that are not newer than it.
            if params.count > 1, params[1]["pause"]?.string == "true" {
                var pause = ChangeRecord("pause", by: caller.description, via: .aria2)
                (pause.ids, pause.at) = ([element.id], timestamp)
                try await queue.request(.paused, of: [element.id], at: timestamp)
                await audit.changed(pause, of: queue, by: caller)
            }
            // Position 0 is the front of the queue. A queue has no other positions.
            try await queue.push([element.made(at: timestamp)], toFront: params.count > 2 && params[2].integer == 0)
            return JSON.quoted(element.id)
        case "remove", "forceRemove", "pause", "forcePause", "unpause", "removeDownloadResult":
            let id = try Self.gid(params)
            let isStopped = try await isStopped(id, caller)
            guard isStopped == (name == "removeDownloadResult") else {
                throw Failure(isStopped ? "GID \(id) has stopped" : "GID \(id) has not stopped yet")
            }
            change.ids = [id]
            let operation: ControlOperation =
                switch name {
                case "remove", "forceRemove": .cancelled
                case "unpause": .running
                case "removeDownloadResult": .removed
                default: .paused
                }
            change.at = try await queue.request(operation, of: [id])
            return name == "removeDownloadResult" ? "\"OK\"" : JSON.quoted(id)
        case "pauseAll", "forcePauseAll":
            try await request(.paused, in: [.running, .queued, .scheduled], &change)
        case "unpauseAll": try await request(.running, in: [.paused], &change)
        case "purgeDownloadResult": try await request(.removed, in: [.completed, .failed, .cancelled], &change)
        default: try await changeOptions(params.first, &change)
        }
        return "\"OK\""
    }

    /// Retries the failed job `id` as `haul retry` does, with everything that its push has said. Its gid stays the same.
    private func retry(_ id: String, _ change: inout ChangeRecord) async throws -> String {
        let id = try Self.gid([JSON(JSON.quoted(id))])
        guard try await queue.fields(["state"], of: [id])[0]["state"] == JobState.failed.rawValue else {
            throw Failure("GID \(id) has not failed, so it is not retried")
        }
        (change.action, change.ids) = ("retry", [id])
        change.at = try await queue.request(.running, of: [id])
        return JSON.quoted(id)
    }

    /// Whether the job has ended, and is not about to be retried. AriaNg can be set to remove a result right after its retry.
    private func isStopped(_ id: String, _ caller: Caller) async throws -> Bool {
        guard let state = try await queue.fields(["state"], of: [id])[0]["state"].flatMap(JobState.init) else {
            _ = try await status(id, [], caller)
            return false
        }
        guard state.isFinal else { return false }
        return try await queue.pendingOperation(of: id) != .running
    }

    /// Jobs of one state that one call changes.
    private static let maxChanged = 100_000

    private func request(
        _ operation: ControlOperation, in states: [JobState], _ change: inout ChangeRecord
    ) async throws {
        let timestamps = try await queue.timestamps(of: operation, choosing: states)
        var ids: [String] = []
        for state in states {
            ids += try await reader.ids(in: state, JobFilter(), limit: Self.maxChanged, for: operation).ids
        }
        change.select(ids)
        let requested = try await queue.request(operation, of: ids, at: timestamps)
        change.select(requested.ids)
        change.at = requested.timestamp
    }

    private func changeOptions(_ options: JSON?, _ change: inout ChangeRecord) async throws {
        var settings: [(setting: QueueSetting, value: String?)] = []
        var names: [String] = []
        for member in options?.members ?? [] {
            let number = member.value.string.flatMap(Self.bytes)
            let setting: QueueSetting
            switch member.name {
            case "max-concurrent-downloads": setting = .maxRunning
            case "max-overall-download-limit": setting = .rate
            default: throw Failure("\(member.name) cannot be changed: haul queue set has what a queue has")
            }
            guard let number, number >= 0 else { throw Failure("\(member.name) must be a number, 0 or more") }
            // aria2 has 0 for "no limit" of a speed. 0 running jobs at once would be a pause.
            settings.append((setting, number == 0 ? nil : String(number)))
            names.append(member.name)
        }
        // All are checked before the first is set.
        if !names.isEmpty { change.settings = names.joined(separator: " ") }
        for (setting, value) in settings { try await queue.set(setting, to: value) }
    }
}
