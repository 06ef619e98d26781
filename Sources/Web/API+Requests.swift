import HaulBus
import HaulContract
import HaulHTTPServer
import HaulRedis
import Logging

// The responses to requests.

extension API {
    /// The methods of `path`, which is the part behind `/api`. A path that does not exist has those of a resource.
    static func methods(of path: [String]) -> [String] {
        guard path.count == 3, path[0] == "queues" else { return ["GET", "HEAD"] }
        switch path[2] {
        case "jobs", "schedules": return ["GET", "HEAD", "POST"]
        case "settings": return ["GET", "HEAD", "PATCH"]
        case "control": return ["POST"]
        default: return ["GET", "HEAD"]
        }
    }

    /// The names of the parameters of a GET of `path`. A path that does not exist has none.
    static func parameters(of path: [String]) -> [String] {
        if path == ["live"] { return ["watch", "events"] }
        guard path.first == "queues", path.count > 2 else { return [] }
        switch (path[2], path.count) {
        case ("jobs", 3): return ["state", "from", "limit", "sort", "reverse"] + JobFilter.names
        case ("jobs", 4): return ["line"]
        case ("jobs", 5): return path[4] == "wait" ? ["timeout", "since"] : []
        case ("batches", 3): return ["from", "limit"]
        case ("facets", 3): return ["state"]
        case ("history", 3): return ["minutes", "step"]
        case ("changes", 3), ("rejected", 3): return ["limit"]
        case ("events", 3): return ["id"]
        default: return []
        }
    }

    /// Decides about a request for `path` from its head. Its method is one of the path's.
    func decide(
        _ request: ServerRequest, _ path: [String], _ caller: Caller
    ) async throws(APIError) -> HTTPServer.Decision {
        let isRead = request.method == "GET" || request.method == "HEAD"
        let query = try Query(request.query, of: isRead ? Self.parameters(of: path) : [])
        guard isRead else { return try change(path, caller) }
        switch path {
        case ["session"]: return .respond(Self.json(200, session(caller)))
        case ["live"]: return .respond(try live(query, caller))
        default: break
        }
        if path.count == 5, path[2] == "jobs", path[4] == "wait" {
            return .respond(try await wait(path, query, caller))
        }
        if path.count == 5, path[2] == "jobs", path[4] == "file" {
            return .respond(try await file(path, request, caller))
        }
        if path.count == 3, path[0] == "queues", path[2] == "events" {
            return .respond(try events(path[1], query, caller, after: request["last-event-id"]))
        }
        if path.count == 5, path[2] == "jobs", path[4] == "pushed" { return .respond(try await pushed(path, caller)) }
        guard let resource = try resource(path, query, caller) else { throw .notFound("this path") }
        return .respond(Self.json(200, try await text(of: resource, for: caller)))
    }

    /// The text of a resource for a request that waits for it.
    ///
    /// - Throws: `too_many` if it is a search, and too many of them run.
    private func text(of resource: Resource, for caller: Caller) async throws(APIError) -> String {
        let hold = resource.isSearch ? calls.hold(counter.next(), for: caller) : nil
        guard !resource.isSearch || hold != nil else {
            throw APIError(429, .tooMany, "too many searches run at once: wait for the answer of an earlier one")
        }
        defer { withExtendedLifetime(hold) {} }
        return try await text(of: resource).text
    }

    /// Decides about a change from its head: who may not make it sends no body.
    private func change(_ path: [String], _ caller: Caller) throws(APIError) -> HTTPServer.Decision {
        guard caller.role == .operator else {
            audit.refusedChange(of: path, by: caller)
            throw APIError(403, .viewer, "a viewer changes nothing: sign in as an operator")
        }
        let reader = try reader(path[1])
        return .readBody { body in
            var change = ChangeRecord(path[2], by: caller.description, via: .page)
            do {
                let response: ServerResponse
                switch path[2] {
                case "jobs": response = try await push(body, to: reader.queue, &change)
                case "control": response = try await control(body, reader, &change)
                case "schedules": response = try await schedule(body, reader.queue, &change)
                default: response = try await set(body, of: reader, &change)
                }
                await audit.changed(change, of: reader.queue, by: caller)
                return response
            } catch {
                let error =
                    error as? APIError ?? (error as? RedisError).map { APIError($0) }
                    ?? APIError(503, .cancelled, "the request was given up")
                // What was refused has changed nothing.
                if error.status >= 500 { audit.failed(change, of: reader.queue, by: caller, error) }
                return error.response
            }
        }
    }

    static func json(_ status: Int, _ text: String) -> ServerResponse {
        ServerResponse(
            status, fields: [("Content-Type", "application/json"), ("Cache-Control", "no-store")],
            body: .bytes(Array(text.utf8)))
    }

    private func session(_ visitor: Caller) -> String {
        var json = JSONObject()
        json.set("name", visitor.name)
        json.set("role", visitor.role.rawValue)
        json.set("version", configuration.version)
        let withFiles = visitor.role == .operator ? configuration.queues.filter { configuration.files[$0] != nil } : []
        json.set("files", json: "[\(withFiles.map { JSON.quoted($0.text) }.joined(separator: ","))]")
        json.set("queues", json: "[\(configuration.queues.map { JSON.quoted($0.text) }.joined(separator: ","))]")
        return json.text
    }

    // MARK: Reading one job

    /// Long polling: answers when the job has ended, or after `timeout` seconds.
    private func wait(_ path: [String], _ query: Query, _ caller: Caller) async throws(APIError) -> ServerResponse {
        let queue = try reader(path[1]).queue
        let since = try query.integer("since", in: 0...JobField.maxInteger, else: 0)
        let seconds = try query.integer("timeout", in: 0...60, else: 30)
        let end = ContinuousClock.now + .seconds(seconds)
        let isOperator = caller.role == .operator
        let id = path[3]
        guard JobField.isID(id) else { throw .notFound("a job of such an id") }
        let job = path.prefix(4).joined(separator: "/")
        // All that wait for the job share these reads, except for the first one, which is as new as the request. A whole
        // record may have a response of a megabyte.
        var age = Duration.zero
        func decisive() -> Resource {
            Resource(key: "\(job) end", age: age) {
                let fields = try await queue.fields(PushEnd.fields, of: [id])[0]
                return PushEnd.fields.reduce(into: JSONObject()) { $0.set($1, fields[$1]) }.text
            }
        }
        while true {
            let known = try await text(of: decisive()).text
            age = .milliseconds(250)
            let fields: [String: String] = ((try? JSON(known))?.members ?? []).reduce(into: [:]) {
                $0[$1.name] = $1.value.string
            }
            switch PushEnd(of: since, fields) {
            case .removed: throw APIError(404, .removed, "the job was removed")
            case .ended:
                // The record is read after this end was seen, so it tells of this end or of what came later.
                let record = Resource(key: "\(job) \(isOperator) \(known)", age: .seconds(1)) {
                    let record = try await queue.job(id)
                    let hasEnded = record.map { PushEnd(of: since, $0.fields) == .ended } ?? false
                    return hasEnded ? record?.json(showsResponse: isOperator) ?? "" : ""
                }
                let json = try await text(of: record).text
                if !json.isEmpty { return Self.json(200, json) }
            case .open: break
            }
            guard .now < end, !Task.isCancelled else {
                // A client that gives `since` knows that the job was pushed. Otherwise the queue's elements are searched
                // once, because no worker may have seen the job yet.
                let isKnown = fields["state"] != nil
                if !isKnown, since == 0,
                    let search = try resource(Array(path.prefix(4)), try Query("line=true", of: ["line"]), caller)
                {
                    return Self.json(202, try await text(of: search, for: caller))
                }
                let present = Resource(key: "\(job) \(isOperator) now \(known)", age: .milliseconds(400)) {
                    let record = isKnown ? try await queue.job(id) : nil
                    return (record ?? JobRecord(unclaimed: id)).json(showsResponse: isOperator)
                }
                return Self.json(202, try await text(of: present).text)
            }
            try? await Task.sleep(for: .milliseconds(300))
        }
    }

    /// The job's element as it was pushed, with its secrets. Only for operators.
    private func pushed(_ path: [String], _ caller: Caller) async throws(APIError) -> ServerResponse {
        guard caller.role == .operator else {
            throw APIError(403, .viewer, "what was pushed may hold secrets: sign in as an operator")
        }
        let queue = try reader(path[1]).queue
        guard JobField.isID(path[3]) else { throw .notFound("a job of such an id") }
        do throws(RedisError) {
            let (spec, renewed) = try await queue.pushed(path[3])
            guard let spec else { throw RedisError(.reply, "") }
            var json = JSONObject()
            json.set("pushed", json: (try? JSON(spec)) != nil ? spec : JSON.quoted(spec))
            if let renewed { json.set("renewed", json: (try? JSON(renewed)) != nil ? renewed : JSON.quoted(renewed)) }
            audit.readSecrets(of: path[3], in: queue.name, by: caller)
            return Self.json(200, json.text)
        } catch {
            if error.message.isEmpty { throw .notFound("what was pushed of the job \(path[3])") }
            throw APIError(error)
        }
    }

    // MARK: Changing

    private func push(
        _ body: [UInt8], to queue: Queue, _ change: inout ChangeRecord
    ) async throws -> ServerResponse {
        let json = try Self.read(body)
        let texts = json.array ?? [json]
        guard (1...1000).contains(texts.count) else {
            throw APIError(422, .badJob, "one request pushes from 1 to 1000 jobs. Nothing was pushed.")
        }
        var elements: [Element] = []
        for (index, text) in texts.enumerated() {
            let prefix = json.array == nil ? "" : "job \(index + 1): "
            do throws(Job.Invalid) {
                if let unknown = try Job(json: text).unknownFields.first {
                    throw Job.Invalid(field: unknown, reason: "no such field")
                }
                let element = try Element(text)
                if let unknown = element.unknownStepFields.first {
                    throw Job.Invalid(field: unknown, reason: "no such field")
                }
                elements.append(element)
            } catch {
                throw APIError(422, .badJob, "\(prefix)\(error). Nothing was pushed.")
            }
        }
        change.action = "push"
        change.select(elements.map(\.id))
        let timestamps = try await queue.push(now: elements)
        let pushed = elements.map { element in
            var json = JSONObject()
            json.set("id", element.id)
            json.set("at", timestamps[element.id])
            return json.text
        }
        return Self.json(202, #"{"pushed":[\#(pushed.joined(separator: ","))]}"#)
    }

    /// Adds a schedule, or requests an action of one.
    private func schedule(
        _ body: [UInt8], _ queue: Queue, _ change: inout ChangeRecord
    ) async throws -> ServerResponse {
        let json = try Self.read(body)
        guard let action = json["action"]?.string, ["add", "pause", "resume", "run", "remove"].contains(action) else {
            throw APIError(422, .badRequest, "action must be add, pause, resume, run or remove")
        }
        let names = ["action", "name"] + (action == "add" ? ["schedule"] : [])
        if let unknown = json.members?.first(where: { !names.contains($0.name) }) {
            throw APIError(422, .badRequest, "there is no \(unknown.name). Nothing was requested.")
        }
        guard let name = json["name"]?.string, Schedule.isName(name) else {
            throw APIError(422, .badRequest, "name \(Schedule.nameRule)")
        }
        (change.action, change.schedule) = (action, name)
        var response = JSONObject()
        response.set("schedule", name)
        if action == "add" {
            let schedule: Schedule
            do {
                schedule = try Schedule(json["schedule"]?.text ?? "")
                _ = try schedule.rules()
            } catch {
                throw APIError(422, .badRequest, "schedule: \(error). Nothing was added.")
            }
            if let unknown = schedule.unknownField {
                throw APIError(422, .badRequest, "schedule: job: \(unknown): no such field. Nothing was added.")
            }
            if let fault = queue.fault(of: schedule, as: name) {
                throw APIError(422, .badRequest, "schedule: \(fault). Nothing was added.")
            }
            // A schedule that replaces one of this name adds none.
            let isNew = try await queue.scheduleDefinition(name) == nil
            let count = isNew ? try await queue.scheduleCount() : 0
            guard count < Schedule.maxCount else {
                throw APIError(
                    422, .badRequest, "the queue has \(Schedule.maxCount) schedules, and more are not allowed")
            }
            let current = try await queue.add(schedule, as: name)
            response.set("next", try current.next(after: try await queue.time()))
        } else {
            guard let definition = try await queue.scheduleDefinition(name) else {
                throw APIError.notFound("the schedule \(name)")
            }
            switch action {
            case "remove": _ = try await queue.removeSchedule(name)
            case "run":
                guard let schedule = try? Schedule(definition) else {
                    throw APIError(422, .badRequest, "the schedule \(name) is not valid: haul check says why")
                }
                response.set("id", schedule.id(ofRun: try await queue.runSchedule(name), of: name))
            default: try await queue.setPaused(action == "pause", schedule: name)
            }
        }
        await reads.expireAll()
        return Self.json(202, response.text)
    }

    /// Refuses to make a worker quiet that is not there, because a name that is misspelled would have no effect.
    private static func checkWorkers(of changes: [SettingsJSON.Change], in queue: Queue) async throws {
        let names = changes.compactMap { change -> String? in
            guard case .workerQuiet(let name, true) = change else { return nil }
            return name
        }
        guard !names.isEmpty else { return }
        let known = Set(try await queue.workers().map(\.name))
        guard let unknown = names.first(where: { !known.contains($0) }) else { return }
        throw APIError(404, .notFound, "the worker \(unknown) is not known here. Nothing was set.")
    }

    private func set(
        _ body: [UInt8], of reader: QueueReaderCache, _ change: inout ChangeRecord
    ) async throws -> ServerResponse {
        let changes = try SettingsJSON.changes(try Self.read(body))
        try await Self.checkWorkers(of: changes, in: reader.queue)
        let names = changes.map(\.description).joined(separator: " ")
        (change.action, change.settings) = ("set", AuditLog.truncated(names, to: 500))
        var made: [String] = []
        do throws(RedisError) {
            for change in changes {
                do throws(RedisError) { try await change.make(in: reader.queue) } catch {
                    if error.isPartial { made.append(change.description) }
                    throw error
                }
                made.append(change.description)
            }
        } catch {
            await reader.forgetLimits()
            await reads.expireAll()
            guard !made.isEmpty else { throw error }
            change.settings = AuditLog.truncated(made.joined(separator: " "), to: 500)
            await reader.queue.record(change)
            let names = made.map { $0.prefix { $0 != "=" } }.joined(separator: ", ")
            let rest = changes.dropFirst(made.count).isEmpty ? "" : "; the others were not set"
            throw RedisError(error.code, "\(error.message). Set so far: \(names)\(rest)")
        }
        await reader.forgetLimits()
        await reads.expireAll()
        return Self.json(200, try await SettingsJSON.text(of: reader.queue, isOperator: true))
    }

    static func read(_ body: [UInt8]) throws(APIError) -> JSON {
        do { return try JSON(body) } catch { throw APIError(400, .badJSON, "the body is not JSON: \(error)") }
    }
}
