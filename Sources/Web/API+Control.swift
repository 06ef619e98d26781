import HaulBus
import HaulContract
import HaulHTTPServer
import HaulRedis

// Control operations: which jobs a request selects, and what is requested of them.

extension API {
    private static let controlNames: Set<String> = ["action", "ids", "state", "where", "limit", "batch"]
    private static let actions: [String: ControlOperation] = [
        "pause": .paused, "resume": .running, "retry": .running, "cancel": .cancelled, "remove": .removed,
        "delete": .deleted,
    ]

    /// Requests an action of a batch, of jobs by their ids, or of all jobs in a state that match a filter.
    func control(
        _ body: [UInt8], _ reader: QueueReaderCache, _ change: inout ChangeRecord
    ) async throws -> ServerResponse {
        let json = try Self.read(body)
        guard let action = json["action"]?.string, let request = Self.actions[action] else {
            throw APIError(422, .badRequest, "action must be pause, resume, retry, cancel, remove or delete")
        }
        if let unknown = json.members?.first(where: { !Self.controlNames.contains($0.name) }) {
            throw APIError(422, .badRequest, "there is no \(unknown.name). Nothing was requested.")
        }
        // To ignore one of them would select other jobs than were meant.
        let selections = ["ids", "where", "batch"].filter { json[$0] != nil }
        guard selections.count == 1, json["limit"] == nil || selections == ["where"],
            json["state"] == nil || selections == ["ids"]
        else {
            throw APIError(
                422, .badRequest,
                "give one of ids, where with a state, and batch; limit requires where, and state requires ids")
        }
        if let batch = json["batch"] { return try await control(batch, action, reader.queue, &change) }
        change.action = action
        var ids: [String]
        // Some of these may be left out.
        var named: [String]?
        var isWhole = true
        var timestamps: [Int: Int64]?
        if let selected = json["ids"] {
            let given = selected.array ?? []
            ids = given.compactMap(\.string)
            guard ids.count == given.count, ids.allSatisfy(JobField.isID), (1...10_000).contains(ids.count) else {
                throw APIError(422, .badRequest, "ids must be a list of 1 to 10000 job ids")
            }
            // A job that is named twice counts once.
            var seen: Set<String> = []
            ids = ids.filter { seen.insert($0).inserted }
            if let text = json["state"] {
                let names = text.array ?? [text]
                let states = names.compactMap { $0.string.flatMap(JobState.init) }
                guard states.count == names.count, !states.isEmpty else {
                    let known = JobState.allCases.map(\.rawValue).joined(separator: ", ")
                    throw APIError(
                        422, .badRequest, "state must be one of \(known), or a list of them. Nothing was requested.")
                }
                timestamps = try await reader.queue.timestamps(of: request, choosing: states)
                named = ids
                ids = try await reader.ids(ids, in: Set(states))
            }
        } else {
            let state = json["where"]?["state"]?.string.flatMap(JobState.init)
            guard let selection = json["where"],
                state != nil || selection["state"] == nil && selection["url"]?.string?.isEmpty == false
            else {
                let states = JobState.allCases.map(\.rawValue).joined(separator: ", ")
                throw APIError(422, .badRequest, "where must have a url, or a state: \(states)")
            }
            // To ignore an unknown filter, or one that is not text, would select more jobs than were meant.
            for member in selection.members ?? [] where member.name != "state" {
                guard JobFilter.names.contains(member.name) else {
                    throw APIError(422, .badRequest, "where has no \(member.name). Nothing was requested.")
                }
                guard member.name == "older" ? member.value.integer != nil : member.value.string != nil else {
                    let rule = member.name == "older" ? "a number of seconds" : "a string"
                    throw APIError(422, .badRequest, "where.\(member.name) must be \(rule). Nothing was requested.")
                }
                guard member.value.string?.isEmpty != true else {
                    throw APIError(422, .badRequest, "where.\(member.name) is empty. Nothing was requested.")
                }
            }
            let limit = json["limit"].map { $0.integer ?? 0 } ?? 10_000
            guard (1...100_000).contains(limit) else {
                throw APIError(422, .badRequest, "limit must be a whole number from 1 to 100000")
            }
            let filter = JobFilter(selection)
            if let problem = filter.problem { throw APIError(422, .badRequest, "\(problem). Nothing was requested.") }
            change.filter = AuditLog.truncated("\(state.map { "state=\($0.rawValue) " } ?? "")\(filter)", to: 300)
            timestamps = try await reader.queue.timestamps(of: request, choosing: state.map { [$0] } ?? [])
            (ids, isWhole) = try await reader.ids(in: state, filter, limit: Int(limit), for: request)
        }
        change.select(ids)
        let requested = try await reader.queue.request(request, of: ids, at: timestamps)
        change.select(requested.ids)
        change.at = requested.timestamp
        var response = JSONObject()
        response.set("requested", requested.ids.count)
        response.set("more", !isWhole)
        if let named {
            let kept = Set(requested.ids)
            let leftOut = named.filter { !kept.contains($0) }
            response.set("left_out", json: "[\(leftOut.map(JSON.quoted).joined(separator: ","))]")
        }
        return Self.json(202, response.text)
    }

    private static let batchActions: [String: BatchOperation] = [
        "pause": .paused, "resume": .running, "retry": .retried, "cancel": .cancelled,
    ]

    /// Requests an action of a whole batch, and of members that are pushed later.
    private func control(
        _ batch: JSON, _ action: String, _ queue: Queue, _ change: inout ChangeRecord
    ) async throws -> ServerResponse {
        guard let name = batch.string, JobField.isID(name) else {
            throw APIError(422, .badRequest, "batch must be a batch's name")
        }
        guard let request = Self.batchActions[action] else {
            throw APIError(422, .badRequest, "of a batch, action must be pause, resume, retry or cancel")
        }
        (change.action, change.batch) = (action, name)
        let counts = try await queue.batch(name)?.counts ?? [:]
        change.at = try await queue.request(request, ofBatch: name)
        await reads.expireAll()
        return Self.json(
            202, #"{"requested":\#(counts[request == .retried ? .failed : .pending] ?? 0),"more":false}"#)
    }
}
