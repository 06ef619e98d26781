import Glibc
import HaulClient
import HaulContract
import HaulExecutors
import Synchronization

// What a worker would do with a job, and the events that it would publish.
extension FakeStore.State {
    func hash(_ id: String) -> [String: String] { hashes[prefix + "job:" + id] ?? [:] }

    mutating func write(_ id: String, _ fields: [String: String?]) {
        for (name, value) in fields { hashes[prefix + "job:" + id, default: [:]][name] = value }
        hashes[prefix + "job:" + id, default: [:]]["updated"] = "\(FakeStore.now)"
    }

    mutating func claim(_ text: [UInt8]) {
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

    mutating func start(_ id: String, _ job: Job) {
        emit(id, "started", JSONObject().with("attempt", 1).with("resumable", true))
        taken.append((id, job))
    }

    mutating func reject(_ text: [UInt8], _ reason: String) {
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
        // A push in the millisecond of an end is done, unless the job is cancelled in it.
        let until = state == "cancelled" ? FakeStore.now : FakeStore.now - 1
        let settled = max(until, hash(id)["pushed"].flatMap { Int64($0) } ?? 0)
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

    mutating func control(_ id: String, _ text: String) {
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

    mutating func emit(
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
