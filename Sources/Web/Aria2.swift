import HaulBus
import HaulContract
import HaulHTTPServer
import HaulRedis
import Logging

/// aria2's JSON-RPC for one queue, so that AriaNg, browser extensions and programs for aria2 use a fleet. A download's
/// gid is the id of its job. docs/operate/aria2.md says which method does what.
struct Aria2: Sendable {
    /// An error of a method, with aria2's code: 1 for all.
    struct Failure: Error {
        let message: String
        init(_ message: String) { self.message = message }
    }

    /// Who makes calls: a request of POST, or a WebSocket with many messages.
    struct Session {
        let request: ServerRequest
        /// The caller of the last call that was allowed; nil until one was.
        var caller: Caller?
        /// What the present text has cost, however its calls are nested.
        fileprivate(set) var calls = 0
        fileprivate(set) var bytes = 0
        /// A call may have changed something.
        fileprivate(set) var hasChanged = false
        /// The caller's place among the searches, which the lists of the present text use one after the other.
        fileprivate var search: Quota<UInt64>.Hold?

        /// - Parameter caller: Nil until a call was allowed.
        init(request: ServerRequest, caller: Caller? = nil) { (self.request, self.caller) = (request, caller) }
    }

    let reader: QueueReaderCache
    let admission: Admission
    let audit: AuditLog
    /// WebSockets whose clients have not signed in, by the numbers of their streams.
    let strangers = Quota<UInt64>(maxEach: 8, maxViewers: 32)
    /// The API, whose searches and those of this RPC have one limit together.
    let api: API

    init(_ reader: QueueReaderCache, _ admission: Admission, _ audit: AuditLog, _ api: API) {
        (self.reader, self.admission, self.audit, self.api) = (reader, admission, audit, api)
    }

    var queue: Queue { reader.queue }

    /// Jobs that one call lists.
    private static let maxJobs = 1000
    /// Calls of one text, and what they may answer together before the last one.
    private static let maxCalls = 100
    private static let maxBytes = 4 << 20
    /// Of a call's id, in bytes, and of an error's message, in characters.
    private static let maxText = 1000
    /// The option that names the failed job to retry; the name is not aria2's, whose jobs are retried by adding them again.
    static let retryOption = "haul-retry"

    // MARK: JSON-RPC 2.0

    /// The response to a text, which is one call or a list of calls; nil if all of them are notifications.
    func respond(to text: [UInt8], in session: inout Session) async -> String? {
        (session.calls, session.bytes) = (0, 0)
        defer { session.search = nil }
        guard let json = try? JSON(text) else { return Self.error("null", -32700, "Parse error.") }
        guard let calls = json.array else { return await respond(to: json, in: &session) }
        guard (1...Self.maxCalls).contains(calls.count) else { return Self.error("null", -32600, "Invalid Request.") }
        var responses: [String] = []
        for call in calls { if let response = await respond(to: call, in: &session) { responses.append(response) } }
        return "[\(responses.joined(separator: ","))]"
    }

    private func respond(to call: JSON, in session: inout Session) async -> String? {
        guard let id = Self.id(of: call) else { return Self.error("null", -32600, "Invalid Request.") }
        guard let method = call["method"]?.string else { return Self.error(id, -32600, "Invalid Request.") }
        do {
            let result = try await result(of: method, call["params"]?.array ?? [], in: &session)
            return #"{"jsonrpc":"2.0","id":\#(id),"result":\#(result)}"#
        } catch { return Self.error(id, 1, message(of: error)) }
    }

    /// The id, which the answer repeats; nil for a long one. So no client that has not signed in gets an answer as long as
    /// its request.
    private static func id(of call: JSON) -> String? {
        guard let id = call.members?.first(where: { $0.name == "id" }) else { return "null" }
        return id.raw.utf8.count <= maxText ? id.raw : nil
    }

    private func message(of error: any Error) -> String {
        switch error {
        case let error as Failure: return error.message
        case let error as RedisError:
            audit.redisFailed(error.message)
            return "Redis: \(error.message)"
        default: return "the request was given up"
        }
    }

    private static func error(_ id: String, _ code: Int, _ message: String) -> String {
        let text = JSON.quoted(String(message.prefix(maxText)))
        return #"{"jsonrpc":"2.0","id":\#(id),"error":{"code":\#(code),"message":\#(text)}}"#
    }

    /// Who calls: the user of the token, a bearer token of `--auth`, that comes first among the parameters. Without
    /// `--auth` each program of this machine, but no page of a browser: it could be any site's.
    private func caller(_ params: inout ArraySlice<JSON>, in session: inout Session) async throws -> Caller {
        let request = session.request
        var token: String?
        if let text = params.first?.string, text.hasPrefix("token:") {
            token = String(text.dropFirst(6))
            params = params.dropFirst()
        }
        guard admission.accounts != nil || Self.isOfProgram(request) else {
            throw Failure("Unauthorized: pages of browsers need a token, which haul web --auth has")
        }
        let authorization = token.map { "Bearer \($0)" } ?? (request["origin"] == nil ? request["authorization"] : nil)
        do throws(APIError) {
            let caller = try await admission.caller(authorization, from: request.client, audit)
            session.caller = caller
            return caller
        } catch {
            throw Failure(error.code == .signIn ? "Unauthorized" : "Unauthorized: \(error.message)")
        }
    }

    /// Whether no page of a browser has sent the request.
    static func isOfProgram(_ request: ServerRequest) -> Bool {
        request["origin"] == nil && request["sec-fetch-site"].map { $0 == "none" || $0 == "same-origin" } ?? true
    }

    static let methods = [
        "aria2.addUri", "aria2.remove", "aria2.forceRemove", "aria2.pause", "aria2.forcePause", "aria2.pauseAll",
        "aria2.forcePauseAll", "aria2.unpause", "aria2.unpauseAll", "aria2.tellStatus", "aria2.getUris",
        "aria2.getFiles", "aria2.getPeers", "aria2.getServers", "aria2.tellActive", "aria2.tellWaiting",
        "aria2.tellStopped", "aria2.getOption", "aria2.getGlobalOption", "aria2.changeGlobalOption",
        "aria2.getGlobalStat", "aria2.purgeDownloadResult", "aria2.removeDownloadResult", "aria2.getVersion",
        "aria2.getSessionInfo", "aria2.saveSession", "system.multicall", "system.listMethods",
        "system.listNotifications",
    ]
    static let notifications: [String: String] = [
        "started": "aria2.onDownloadStart", "paused": "aria2.onDownloadPause", "cancelled": "aria2.onDownloadStop",
        "completed": "aria2.onDownloadComplete", "failed": "aria2.onDownloadError",
    ]
    /// Methods that change something, which viewers may not.
    private static let changes: Set<String> = [
        "addUri", "remove", "forceRemove", "pause", "forcePause", "pauseAll", "forcePauseAll", "unpause", "unpauseAll",
        "changeGlobalOption", "purgeDownloadResult", "removeDownloadResult",
    ]

    /// Methods that list jobs, each of which is read.
    private static let searches: Set<String> = ["tellActive", "tellWaiting", "tellStopped"]
    /// For how long a text waits for other searches of its caller.
    private static let patience: Duration = .seconds(5)

    private func result(of method: String, _ params: [JSON], in session: inout Session) async throws -> String {
        // Only its calls count.
        if method == "system.multicall" { return try await multicall(params, in: &session) }
        session.calls += 1
        guard session.calls <= Self.maxCalls else { throw Failure("more than \(Self.maxCalls) calls together") }
        guard session.bytes < Self.maxBytes else {
            throw Failure("the calls before this one have answered \(Self.maxBytes >> 20) MiB: ask again for the rest")
        }
        let result = try await resultOfOne(method, params, in: &session)
        session.bytes += result.utf8.count
        return result
    }

    private func resultOfOne(_ method: String, _ params: [JSON], in session: inout Session) async throws -> String {
        switch method {
        case "system.listMethods": return Self.list(Self.methods)
        case "system.listNotifications": return Self.list(Self.notifications.values.sorted())
        default: break
        }
        guard method.hasPrefix("aria2."), Self.methods.contains(method) else {
            throw Failure("No such method: \(method)")
        }
        var params = params[...]
        let caller = try await caller(&params, in: &session)
        if Self.searches.contains(String(method.dropFirst(6))), session.search == nil {
            session.search = await api.searchHold(for: caller, within: Self.patience)
            guard session.search != nil else {
                throw Failure("too many searches run at once: wait for the answer of an earlier one")
            }
        }
        return try await result(of: method, Array(params), caller, in: &session)
    }

    private func result(
        of method: String, _ params: [JSON], _ caller: Caller, in session: inout Session
    ) async throws -> String {
        let name = String(method.dropFirst(6))
        if Self.changes.contains(name) {
            guard caller.role == .operator else {
                audit.refusedChange(of: ["jsonrpc", method], by: caller)
                throw Failure("Unauthorized: a viewer changes nothing")
            }
            session.hasChanged = true
            return try await change(name, params, caller)
        }
        return try await read(name, params, caller)
    }

    /// Several calls, each of which has its own token. A result is in a list, and an error is an object.
    private func multicall(_ params: [JSON], in session: inout Session) async throws -> String {
        // Some clients put a token before the list.
        guard let calls = params.last?.array, calls.count <= Self.maxCalls else {
            throw Failure("multicall requires a list of calls")
        }
        var results: [String] = []
        for call in calls {
            do {
                guard let method = call["methodName"]?.string, method != "system.multicall" else {
                    throw Failure("methodName is missing")
                }
                let result = try await result(of: method, call["params"]?.array ?? [], in: &session)
                results.append("[\(result)]")
            } catch {
                // Calls before this one may have changed something, so their results are not lost.
                results.append(#"{"code":1,"message":\#(JSON.quoted(message(of: error)))}"#)
            }
        }
        return "[\(results.joined(separator: ","))]"
    }

    // MARK: Reading

    private func read(_ name: String, _ params: [JSON], _ caller: Caller) async throws -> String {
        func keys(_ index: Int) -> Set<String> {
            Set((params.count > index ? params[index].array ?? [] : []).compactMap(\.string))
        }
        switch name {
        case "tellStatus": return try await status(try Self.gid(params), keys(1), caller)
        case "getFiles": return try await member("files", of: try Self.gid(params), caller)
        case "getUris":
            let files = try JSON(try await member("files", of: try Self.gid(params), caller))
            return files.array?.first?.members?.first { $0.name == "uris" }?.raw ?? "[]"
        case "getPeers", "getServers":
            _ = try Self.gid(params)
            return "[]"
        case "getOption": return try await options(of: try Self.gid(params), caller)
        case "getGlobalOption": return try await globalOptions()
        case "tellActive":
            // Not those that the reader keeps: a download that has just begun would be in no list.
            let ids = try await queue.runningIDs().prefix(Self.maxJobs)
            return "[\(try await downloads(ids.map { ListedJob(id: $0) }, .running, keys(0)).joined(separator: ","))]"
        case "tellWaiting": return try await page([.queued, .scheduled, .paused], params, keys(2))
        case "tellStopped":
            return try await page([.completed, .failed, .cancelled], newestFirst: true, params, keys(2))
        case "getGlobalStat":
            let key = "\(queue.name.text) aria2 stat"
            return try await api.reads.text(key, within: .milliseconds(900)) { try await globalStat() }.text
        case "getVersion": return #"{"version":"1.37.0","enabledFeatures":["HTTPS","Message Digest","Async DNS"]}"#
        case "getSessionInfo": return #"{"sessionId":\#(JSON.quoted(queue.name.text))}"#
        case "saveSession": return "\"OK\""
        default: throw Failure("No such method: aria2.\(name)")
        }
    }

    static func gid(_ params: [JSON]) throws(Failure) -> String {
        guard let gid = params.first?.string else { throw Failure("The parameter at 0 has wrong type.") }
        guard JobField.isID(gid) else { throw Failure("GID \(gid) is not found") }
        return gid
    }

    /// A job as `tellStatus` answers it.
    ///
    /// - Throws: `Failure` if the job is not known, or if too many searches of the caller run.
    func status(_ id: String, _ keys: Set<String>, _ caller: Caller) async throws -> String {
        if let download = try await claimed(id, keys) { return download }
        guard let hold = api.calls.hold(api.counter.next(), for: caller) else {
            throw Failure("too many searches run at once: wait for the answer of an earlier one")
        }
        defer { withExtendedLifetime(hold) {} }
        if let job = try await queue.waiting(for: id) { return Self.download(job, .queued, [:], keys: keys) }
        // A worker may have taken the job in the meantime.
        if let download = try await claimed(id, keys) { return download }
        throw Failure("GID \(id) is not found")
    }

    /// A job that has a hash as `tellStatus` answers it; nil if it has none.
    private func claimed(_ id: String, _ keys: Set<String>) async throws -> String? {
        let fields = try await fields(of: [id])[0]
        return fields["state"].flatMap(JobState.init).map {
            Self.download(ListedJob(id: id), $0, fields, keys: keys)
        }
    }

    /// The options of a job that a client shows. AriaNg retries a failed download by adding it with these options and the
    /// URLs of its record, which have lost their query, and without its headers and checksum. So a failed job has the
    /// option ``retryOption``, by which ``apply(_:_:_:)`` recognizes the retry.
    private func options(of id: String, _ caller: Caller) async throws -> String {
        let fields = try await queue.fields(Self.fields, of: [id])[0]
        if fields["state"] == nil { _ = try await status(id, [], caller) }
        var json = JSONObject()
        let path = fields["path"].map { $0.split(separator: "/", omittingEmptySubsequences: false) } ?? []
        if path.count > 1 { json.set("dir", path.dropLast().joined(separator: "/")) }
        if let name = path.last, !name.isEmpty { json.set("out", String(name)) }
        if fields["state"] == JobState.failed.rawValue { json.set(Self.retryOption, id) }
        return json.text
    }

    private func member(_ name: String, of id: String, _ caller: Caller) async throws -> String {
        try JSON(try await status(id, [name], caller)).members?.first?.raw ?? "[]"
    }

    private func downloads(_ jobs: [ListedJob], _ state: JobState, _ keys: Set<String>) async throws -> [String] {
        zip(jobs, try await fields(of: jobs.map(\.id))).map { job, fields in
            Self.download(job, fields["state"].flatMap(JobState.init) ?? state, fields, keys: keys)
        }
    }

    /// Without the speeds that lost workers reported last.
    private func fields(_ names: [String] = Self.fields, of ids: [String]) async throws -> [[String: String]] {
        var all = try await queue.fields(names, of: ids)
        for index in all.indices where all[index]["speed"] != nil {
            if try await reader.isLost(all[index]["worker"]) { all[index]["speed"] = nil }
        }
        return all
    }

    /// `offset` and `num` count through the states one after another. A negative offset begins at the end and goes
    /// backwards: -1 is the last one.
    ///
    /// - Parameter newestFirst: In our lists, the last job of aria2's order comes first.
    private func page(_ states: [JobState], newestFirst: Bool = false, _ params: [JSON], _ keys: Set<String>)
        async throws -> String
    {
        guard params.count >= 2, let offset = params[0].integer, let number = params[1].integer else {
            throw Failure("The parameters offset and num are missing.")
        }
        var counts: [Int] = []
        for state in states { counts.append(try await queue.count(in: state)) }
        let all = counts.reduce(0, +)
        // How many of the jobs before the first one, seen from the end at which the answer begins.
        let skipped = offset >= 0 ? Int(min(offset, Int64(all))) : Int(min(-(offset + 1), Int64(all)))
        let limit = min(Int(min(max(0, number), Int64(Self.maxJobs))), all - skipped)
        let isReversed = (offset < 0) != newestFirst
        var skip = isReversed ? all - skipped - limit : skipped
        var found: [String] = []
        for (state, count) in zip(states, counts) {
            guard found.count < limit else { break }
            if skip < count {
                let jobs = try await queue.listed(in: state, from: skip, limit: limit - found.count)
                found += try await downloads(jobs, state, keys)
            }
            skip = max(0, skip - count)
        }
        return "[\((isReversed ? found.reversed() : found).joined(separator: ","))]"
    }

    private func globalStat() async throws -> String {
        let stats = try await queue.stats()
        func count(_ states: JobState...) -> Int { states.reduce(0) { $0 + (stats.counts[$1] ?? 0) } }
        let speed = try await reader.runningFacts().values.reduce(Int64(0)) { $0 + $1.speed }
        let stopped = count(.completed, .failed, .cancelled)
        var json = JSONObject()
        json.set("downloadSpeed", String(speed))
        json.set("uploadSpeed", "0")
        json.set("numActive", String(count(.running)))
        json.set("numWaiting", String(count(.queued, .scheduled, .paused)))
        json.set("numStopped", String(stopped))
        json.set("numStoppedTotal", String(stopped))
        return json.text
    }

    private func globalOptions() async throws -> String {
        let settings = try await queue.settings()
        var json = JSONObject()
        json.set("dir", "")
        json.set("max-concurrent-downloads", settings["max_running"] ?? "0")
        let rate = settings["rate"].flatMap(RateSchedule.init)?.rate(at: UnixTime.seconds)
        json.set("max-overall-download-limit", String(rate ?? 0))
        return json.text
    }
}
