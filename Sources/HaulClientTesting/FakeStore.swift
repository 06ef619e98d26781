import Glibc
import HaulClient
import HaulContract
import HaulExecutors
import Synchronization

/// What Redis holds, and what workers would do with it.
final class FakeStore: Sendable {
    typealias Outcome = FakeHaulQueue.Outcome

    struct Event {
        let channel: String
        let text: [UInt8]
    }

    struct State {
        let prefix: String
        let name: String
        var lists: [String: [[UInt8]]] = [:]
        var hashes: [String: [String: String]] = [:]
        var pushed: [Job] = []
        var workers = 1
        /// Jobs that were taken, in the order of their pushes.
        var jobs: [(id: String, job: Job)] = []
        /// The members of each job's final event.
        var ends: [String: JSONObject] = [:]
        /// Pushes whose outcome the script has to say.
        var taken: [(id: String, job: Job)] = []
        var events: [Event] = []
        var last: Int64 = 0
        let epoch = FakeStore.now

        init(_ name: String) { (self.name, prefix) = (name, "haul:{\(name)}:") }
    }

    let state: Mutex<State>
    private let script: @Sendable (Job) -> Outcome
    private let publisher = Mutex<(@Sendable ([UInt8], String) -> Void)?>(nil)

    init(_ name: String, script: @escaping @Sendable (Job) -> Outcome) {
        state = Mutex(State(name))
        self.script = script
    }

    /// How events reach subscribers.
    var publish: (@Sendable ([UInt8], String) -> Void)? {
        get { publisher.withLock { $0 } }
        set { publisher.withLock { $0 = newValue } }
    }

    static var now: Int64 {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
    }

    /// Changes the state, asks the script about new jobs, and publishes what has happened.
    @discardableResult
    func change<Result: Sendable>(_ body: (inout State) -> Result) -> Result {
        let result = state.withLock { body(&$0) }
        // Outside of the lock, because the script belongs to the test.
        while let (id, job) = state.withLock({ $0.taken.isEmpty ? nil : $0.taken.removeFirst() }) {
            let outcome = script(job)
            state.withLock { _ = $0.end(id, outcome) }
        }
        let events = state.withLock { state in
            defer { state.events = [] }
            return state.events
        }
        for event in events { publish?(event.text, event.channel) }
        return result
    }

    // MARK: Commands

    func respond(_ command: [[UInt8]], _ client: FakeRedis.Client) -> FakeRedis.Reply? {
        let words = command.map { String(decoding: $0, as: UTF8.self) }
        let verb = words.first?.uppercased() ?? ""
        switch verb {
        case "SUBSCRIBE", "PSUBSCRIBE", "UNSUBSCRIBE", "PUNSUBSCRIBE":
            client.subscribe(verb.lowercased(), to: Array(words.dropFirst()))
            return nil
        case "BLMOVE": return wait(Array(words.dropFirst()), client)
        default: return change { $0.respond(verb, Array(words.dropFirst()), command) }
        }
    }

    private func wait(_ arguments: [String], _ client: FakeRedis.Client) -> FakeRedis.Reply {
        let deadline = ContinuousClock.now + .seconds(Double(arguments.last ?? "") ?? 0)
        repeat {
            // A client that has gone must take nothing.
            let moved =
                client.isGone
                ? nil
                : state.withLock { state -> [UInt8]? in
                    guard let text = state.lists[arguments[0]]?.popLast() else { return nil }
                    state.lists[arguments[1], default: []].insert(text, at: 0)
                    return text
                }
            if let moved { return .bulk(moved) }
            usleep(2000)
        } while ContinuousClock.now < deadline && !client.isGone
        return .null
    }
}

extension FakeStore.State {
    typealias Reply = FakeRedis.Reply

    fileprivate mutating func respond(_ verb: String, _ words: [String], _ command: [[UInt8]]) -> Reply {
        let key = words.first ?? ""
        func slice<Element>(_ elements: [Element], _ first: String, _ last: String) -> [Element] {
            func index(_ text: String) -> Int {
                let number = Int(text) ?? 0
                return number < 0 ? max(0, elements.count + number) : number
            }
            let (start, end) = (index(first), min(index(last), elements.count - 1))
            return start > end ? [] : Array(elements[start...end])
        }
        switch verb {
        case "PING": return .status("PONG")
        case "CLIENT", "SELECT", "AUTH": return .status("OK")
        case "TIME":
            var time = timespec()
            clock_gettime(CLOCK_REALTIME, &time)
            return .texts(["\(time.tv_sec)", "\(time.tv_nsec / 1000)"])
        case "LPUSH", "RPUSH":
            if key == prefix + "jobs" {
                for text in command.dropFirst(2) { claim(text) }
                return .integer(command.count - 2)
            }
            return .error("ERR the fake has no list \(key)")
        case "LLEN": return .integer(lists[key]?.count ?? 0)
        case "LRANGE": return .array(slice(lists[key] ?? [], words[1], words[2]).map(Reply.bulk))
        case "LREM":
            guard let index = lists[key]?.firstIndex(of: command[3]) else { return .integer(0) }
            lists[key]?.remove(at: index)
            return .integer(1)
        case "HGET" where key == prefix + "urls": return ids(ofDigest: words[1]).first.map(Reply.text) ?? .null
        case "HSCAN" where key.hasPrefix(prefix + "url:"):
            let ids = ids(ofDigest: String(key.dropFirst(prefix.count + 4)))
            return .array([.text("0"), .texts(ids.flatMap { [$0, ""] })])
        case "HGETALL": return .texts((hashes[key] ?? [:]).flatMap { [$0.key, $0.value] })
        case "HGET": return hashes[key]?[words[1]].map(Reply.text) ?? .null
        case "HMGET": return .array(words.dropFirst().map { hashes[key]?[$0].map(Reply.text) ?? .null })
        case "HLEN": return .integer(hashes[key]?.count ?? 0)
        case "HSET" where key == prefix + "want":
            for index in stride(from: 1, to: words.count - 1, by: 2) { control(words[index], words[index + 1]) }
            return .integer((words.count - 1) / 2)
        case "ZCARD": return .integer(index(key).count)
        case "ZCOUNT": return .integer(key == prefix + "workers" ? workers : index(key).count)
        case "ZRANGE": return range(words)
        case "PUBLISH", "PEXPIRE", "WAIT", "EXISTS": return .integer(0)
        case "GET": return .null
        default: return .error("ERR the fake has no command \(verb)")
        }
    }

    /// The jobs that have a URL with this digest.
    private func ids(ofDigest digest: String) -> [String] {
        jobs.map(\.id).filter { (hash($0)["url_digests"] ?? "").split(separator: " ").contains(digest[...]) }
    }

    /// The jobs of an index, with their scores, in order.
    private func index(_ key: String) -> [(id: String, score: Int64)] {
        let name = String(key.dropFirst(prefix.utf8.count))
        let state = name == "leases" ? "running" : name
        return jobs.compactMap { id, _ in
            let hash = hashes[prefix + "job:" + id] ?? [:]
            return hash["state"] == state ? (id, hash["updated"].flatMap { Int64($0) } ?? 0) : nil
        }.sorted { ($0.score, $0.id) < ($1.score, $1.id) }
    }

    private func range(_ words: [String]) -> Reply {
        var entries = index(words[0])
        let options = words.dropFirst(3).map { $0.uppercased() }
        if options.contains("BYSCORE") {
            let (low, high) = (Int64(words[1]) ?? .min, Int64(words[2]) ?? .max)
            entries = entries.filter { low <= $0.score && $0.score <= high }
            if let limit = options.firstIndex(of: "LIMIT") {
                let (skip, count) = (Int(options[limit + 1]) ?? 0, Int(options[limit + 2]) ?? 0)
                entries = Array(entries.dropFirst(skip).prefix(count))
            }
        } else {
            if options.contains("REV") { entries.reverse() }
            let (first, last) = (max(0, Int(words[1]) ?? 0), Int(words[2]) ?? -1)
            entries = Array((last < 0 ? entries[...] : entries.prefix(last + 1)).dropFirst(first))
        }
        return .texts(entries.flatMap { options.contains("WITHSCORES") ? [$0.id, "\($0.score)"] : [$0.id] })
    }

    // MARK: Jobs

    private func hash(_ id: String) -> [String: String] { hashes[prefix + "job:" + id] ?? [:] }

    private mutating func write(_ id: String, _ fields: [String: String?]) {
        for (name, value) in fields { hashes[prefix + "job:" + id, default: [:]][name] = value }
        hashes[prefix + "job:" + id, default: [:]]["updated"] = "\(FakeStore.now)"
    }

    private mutating func claim(_ text: [UInt8]) {
        let job: Job
        let id: String
        do {
            job = try Job(element: text)
            id = try job.resolvedID
        } catch {
            // The client refuses such a job itself, so only a plain LPUSH by the test comes here.
            return reject(text, "\(error)")
        }
        pushed.append(job)
        let old = hash(id)
        let state = old["state"]
        let names = (old["reply_to"] ?? "").split(separator: " ").map(String.init)
        if let at = job.at, (old["settled_until"].flatMap { Int64($0) } ?? 0) >= at {
            emit(id, "duplicate", JSONObject().with("state", state ?? "removed").with("reason", "settled"))
            if let name = job.replyTo, !names.contains(name) {
                write(id, ["reply_to": (names + [name]).joined(separator: " ")])
                if let state, let end = ends[id] { emit(id, state, end, to: [name], isPublic: false) }
                guard state == nil else { return }
                emit(id, "duplicate", JSONObject().with("state", "removed"), to: [name], isPublic: false)
            }
            return
        }
        let isActive = state == "running" || state == "paused"
        let all = (isActive ? names : []) + (job.replyTo.map { isActive && names.contains($0) ? [] : [$0] } ?? [])
        write(
            id,
            [
                "reply_to": all.isEmpty ? nil : all.joined(separator: " "), "state": "running", "worker": "fake",
                "pushed": "\(max(job.at ?? 0, FakeStore.now))",
            ])
        if state == "running" {
            return emit(id, "duplicate", JSONObject().with("state", "running").with("reason", "active"))
        }
        jobs.removeAll { $0.id == id }
        jobs.append((id, job))
        write(
            id,
            [
                "url": MaskedURL.text(job.urls[0]),
                "url_digests": job.urls.map(HaulQueue.digest(ofURL:)).joined(separator: " "), "path": job.path,
                "meta": job.meta, "created": "\(FakeStore.now)",
                "kind": job.kind == .download ? nil : job.kind.rawValue, "finished": nil, "error": nil, "message": nil,
            ])
        start(id, job)
    }

    private mutating func start(_ id: String, _ job: Job) {
        emit(id, "started", JSONObject().with("attempt", 1).with("resumable", true))
        taken.append((id, job))
    }

    private mutating func reject(_ text: [UInt8], _ reason: String) {
        let json = try? JSON(text)
        let id = json?["id"]?.string ?? "unknown"
        var event = JSONObject()
        event.set("v", 1)
        event.set("event", "rejected")
        event.set("id", id)
        event.set("queue", name)
        event.set("at", FakeStore.now)
        event.set("reason", reason)
        let line = Array(event.text.utf8)
        events.append(FakeStore.Event(channel: prefix + "events:" + id, text: line))
        if let list = json?["reply_to"]?.string { lists[prefix + "reply:" + list, default: []].insert(line, at: 0) }
    }

    mutating func progress(_ id: String, _ received: Int64, _ total: Int64?) {
        guard hash(id)["state"] == "running" else { return }
        write(id, ["received": "\(received)", "total": total.map { "\($0)" }])
        var members = JSONObject()
        members.set("received", received)
        members.set("total", total)
        members.set("fraction", total.map { Double(received) / Double(max(1, $0)) })
        emit(id, "progress", members)
    }

    mutating func end(_ id: String, _ outcome: FakeHaulQueue.Outcome) -> Bool {
        let isOpen = ["running", "paused"].contains(hash(id)["state"] ?? "")
        guard isOpen, let job = jobs.first(where: { $0.id == id })?.job else { return false }
        var (members, fields) = (JSONObject(), [String: String?]())
        var state = "completed"
        func fail(_ error: ErrorCode, _ message: String, _ isRetryable: Bool) {
            state = "failed"
            members.set("error", error.rawValue)
            members.set("message", message)
            members.set("retryable", isRetryable)
            fields.merge(["error": error.rawValue, "message": message, "retryable": isRetryable ? "1" : "0"]) { $1 }
        }
        switch outcome {
        case .running: return true
        case .cancelled: state = "cancelled"
        case .failed(let error, let message, let isRetryable):
            fail(error, message.isEmpty ? error.rawValue : message, isRetryable)
        case .completed(let file, let bytes):
            let name = file ?? Self.fileName(of: job)
            members.set("file", name)
            members.set("bytes", bytes)
            members.set("seconds", 0.1)
            fields = ["file": name, "received": "\(bytes)", "seconds": "0.1"]
        case .response(let status, let headers, let body):
            let expected = job.request.expect.isEmpty ? [200...299] : job.request.expect
            let isExpected = expected.contains { $0 ~= status }
            if !isExpected {
                let isRetryable = [408, 423, 425, 429, 500, 502, 503, 504].contains(status)
                fail(.http(status), "the server answered \(status)", isRetryable)
            }
            var fieldsText = JSONObject()
            for field in headers { fieldsText.set(field.name.lowercased(), field.value) }
            members.set("status", status)
            members.set("headers", json: fieldsText.text)
            if isExpected {
                members.set("bytes", body.count)
                members.set("seconds", 0.1)
            }
            let response = ["status": "\(status)", "headers": fieldsText.text, "received": "\(body.count)"]
            fields.merge(response) { $1 }
            fields.merge(["seconds": "0.1", "request_digest": "fake", "method": job.method]) { $1 }
            if let text = String(validating: body, as: UTF8.self), !body.contains(0) {
                members.set("body", text)
                fields["body"] = text
            } else {
                members.set("body_base64", Base64.encode(body))
                fields["body_base64"] = Base64.encode(body)
            }
        }
        let settled = max(FakeStore.now, hash(id)["pushed"].flatMap { Int64($0) } ?? 0)
        fields.merge(["state": state, "settled_until": "\(settled)", "finished": "\(FakeStore.now)"]) { $1 }
        write(id, fields)
        ends[id] = members
        emit(id, state, members, to: (hash(id)["reply_to"] ?? "").split(separator: " ").map(String.init))
        return true
    }

    private static func fileName(of job: Job) -> String {
        let path = job.path ?? ""
        guard path.isEmpty || path.hasSuffix("/") else { return path }
        let last = job.urls[0].prefix { $0 != "?" && $0 != "#" }.split(separator: "/").last.map(String.init)
        return path + (last ?? "index.html")
    }

    private mutating func control(_ id: String, _ text: String) {
        let operation = text.split(separator: " ").first.map(String.init) ?? ""
        let state = hash(id)["state"] ?? ""
        switch (operation, state) {
        case ("paused", "running"):
            write(id, ["state": "paused"])
            emit(id, "paused", JSONObject())
        case ("running", "paused"), ("running", "failed"):
            write(id, ["state": "running", "error": nil, "message": nil])
            emit(id, "requeued", JSONObject().with("why", "resumed"))
            if let job = jobs.first(where: { $0.id == id })?.job { start(id, job) }
        case ("cancelled", _): _ = end(id, .cancelled)
        case ("removed", _), ("deleted", _):
            _ = end(id, .cancelled)
            let old = hash(id)
            let kept = ["settled_until", "seq", "epoch"]
            hashes[prefix + "job:" + id] = old.filter { kept.contains($0.key) }
            jobs.removeAll { $0.id == id }
        default: break
        }
    }

    private mutating func emit(
        _ id: String, _ name: String, _ members: JSONObject, to lists: [String] = [], isPublic: Bool = true
    ) {
        last = max(last + 1, FakeStore.now)
        let next = hash(id)["seq"].flatMap { Int64($0) }.map { $0 + 1 } ?? last
        hashes[prefix + "job:" + id, default: [:]].merge(["seq": "\(next)", "epoch": "\(epoch)"]) { $1 }
        var event = JSONObject()
        event.set("v", 1)
        event.set("event", name)
        event.set("id", id)
        event.set("queue", self.name)
        event.set("epoch", epoch)
        event.set("seq", next)
        event.set("at", FakeStore.now)
        event.set("worker", "fake")
        if name != "progress" { event.set("meta", json: hash(id)["meta"]) }
        let rest = members.members.isEmpty ? "" : "," + members.members
        let text = Array("{\(event.members)\(rest)}".utf8)
        if isPublic { events.append(FakeStore.Event(channel: prefix + "events:" + id, text: text)) }
        for list in lists { self.lists[prefix + "reply:" + list, default: []].insert(text, at: 0) }
    }
}

extension JSONObject {
    fileprivate func with(_ name: String, _ text: String) -> JSONObject {
        var object = self
        object.set(name, text)
        return object
    }

    fileprivate func with(_ name: String, _ number: Int) -> JSONObject {
        var object = self
        object.set(name, number)
        return object
    }

    fileprivate func with(_ name: String, _ value: Bool) -> JSONObject {
        var object = self
        object.set(name, value)
        return object
    }
}
