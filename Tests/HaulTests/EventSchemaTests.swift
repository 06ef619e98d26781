import Foundation
import Glibc
import HaulContract
import HaulTestSupport
import Testing

/// Compares docs/reference/schema/event.json and the samples of docs/ with the events that real workers publish.
@Suite struct EventSchemaTests {
    private static func samples() throws -> [String] {
        try Pages.blocks("json events").flatMap { $0.split(separator: "\n").map(String.init) }
    }

    @Test(
        "every event and reply of a real run matches the schema and has the members of its sample",
        .timeLimit(.minutes(2)))
    func real() async throws {
        let received = try await EventRun().events()
        let validator = SchemaValidator("event.json")
        for (event, verdict) in zip(received, try await validator.verdicts(received, isClosed: true)) {
            #expect(verdict == "accepted", "\(event): \(verdict)")
        }
        let samples = try Self.samples()
        #expect(try await validator.verdicts(samples, isClosed: true).allSatisfy { $0 == "accepted" })
        // The members of each kind of event, with the types of their values.
        var reported: [String: [String: Set<String>]] = [:]
        for event in received {
            let json = try JSON(event)
            for member in json.members ?? [] {
                reported[json["event"]?.string ?? "", default: [:]][member.name, default: []].insert(
                    Self.type(of: member.value))
            }
        }
        #expect(Set(reported.keys) == Set(try samples.map { try JSON($0)["event"]?.string ?? "" }))
        for sample in samples {
            let json = try JSON(sample)
            let kind = json["event"]?.string ?? ""
            for member in json.members ?? [] where member.name != "meta" {
                #expect(
                    reported[kind]?[member.name]?.contains(Self.type(of: member.value)) == true,
                    "\(kind): \(member.name)")
            }
        }
    }

    @Test("an invalid event is refused") func broken() async throws {
        var texts: [String] = []
        for sample in try Self.samples() {
            let members = try JSON(sample).members ?? []
            for member in members
            where !["worker", "meta", "total", "fraction", "eta", "checksum", "etag", "received", "files"]
                .contains(member.name)
            {
                texts.append(Self.object(members.filter { $0.name != member.name }.map { ($0.name, $0.raw) }))
            }
            for member in members where member.name != "meta" {
                texts.append(Self.object(members.map { ($0.name, $0.name == member.name ? "[]" : $0.raw) }))
            }
        }
        for (text, verdict) in zip(texts, try await SchemaValidator("event.json").verdicts(texts)) {
            #expect(verdict.hasPrefix("refused"), "\(text)")
        }
    }

    private static func object(_ members: [(String, String)]) -> String {
        "{" + members.map { "\"\($0)\":\($1)" }.joined(separator: ",") + "}"
    }

    private static func type(of value: JSON) -> String {
        switch value {
        case .null: "null"
        case .bool: "bool"
        case .number: "number"
        case .string: "text"
        case .array: "list"
        case .object: "object"
        }
    }
}

/// Workers and jobs that cause every kind of event.
private struct EventRun {
    let server: RedisServer
    let root = TemporaryDirectory()

    init() async throws { server = try await RedisServer() }

    private func worker(_ name: String, _ arguments: String...) throws -> ChildProcess {
        try ChildProcess(
            "haul",
            [
                "worker", "--root", root.path, "--upload-from", root.path, "--name", name, "--allow-address",
                "127.0.0.0/8", "--lease", "2", "--redis", server.url,
            ] + arguments)
    }

    private func push(_ queue: String, _ element: String) async throws {
        try await server.cli("LPUSH", "haul:{\(queue)}:jobs", element)
    }

    private func wait(_ id: String, for state: String, in queue: String = "default") async throws {
        try await eventually("\(id) to be \(state)", within: .seconds(30), every: .milliseconds(30)) {
            try await server.cli("HGET", "haul:{\(queue)}:job:\(id)", "state") == state
        }
    }

    /// Runs them, and returns all published events and replies.
    func events() async throws -> [String] {
        let bytes = FileBytes(seed: 81, count: 900_000)
        let (gate, changed) = (Latch(), Latch())
        let origin = try OriginServer { request in
            if request.path == "/missing" { return OriginReply(404) }
            if request.path.hasPrefix("/api") {
                return OriginReply(
                    request.method == "POST" ? 422 : 200, headers: [("ETag", "\"a\"")], body: Array("[1]".utf8))
            }
            if request.path == "/busy", request.number == 1 { return OriginReply(503) }
            let isNew = request.path == "/changing" && request.number > 1
            var reply = OriginReply.file(bytes, etag: isNew ? "\"new\"" : "\"old\"", to: request)
            let start = request.range(of: bytes.count)?.lowerBound ?? 0
            if request.path.hasPrefix("/held") || request.path == "/changing" && !isNew {
                reply.hold = (max(0, 400_000 - start), request.path == "/changing" ? changed : gate)
            }
            return reply
        }
        defer {
            gate.open()
            changed.open()
        }
        let listener = try ChildProcess("redis-cli", ["-s", server.socket, "PSUBSCRIBE", "haul:*"])
        try await eventually("the subscription") { listener.standardOutput.contains("psubscribe") }
        func element(_ id: String, _ path: String, _ more: String = "") -> String {
            #"{"id":"\#(id)","url":"\#(origin.url(path))","connections":1,"reply_to":"r","meta":{"n":1}\#(more)}"#
        }
        let workers = [
            try worker("w", "--slots", "6"), try worker("narrow", "--queue", "narrow", "--connections-per-host", "1"),
        ]
        try await push("default", element("held", "/held", #","checksum":"sha256:\#(bytes.sha256)","colour":1"#))
        try await push("default", element("changing", "/changing"))
        try await push("default", element("missing", "/missing"))
        try await push(
            "default",
            #"{"id":"call","kind":"request","url":"\#(origin.url("/api"))","meta":1,"batch":{"name":"b","size":1}}"#)
        try await push("default", #"{"id":"post","kind":"request","url":"\#(origin.url("/api"))","json":[]}"#)
        for name in ["a.bin", "b.bin"] {
            try Data("bytes".utf8).write(to: URL(filePath: root.file(name)))
        }
        for (id, method) in [("sent", "PUT"), ("refused", "POST")] {
            let files = #""files":[{"file":"a.bin"},{"file":"b.bin"}],"each":true,"method":"\#(method)""#
            try await push(
                "default", #"{"id":"\#(id)","kind":"upload","url":"\#(origin.url("/api/"))",\#(files)}"#)
        }
        try await push("default", element("cancelled", "/held/c"))
        // An event has the remaining time only once the speed is known.
        try await push("default", element("slow", "/slow", #","limit_rate":400000"#))
        try await push("default", #"{"url":"ftp://h/"}"#)
        try await push("narrow", element("n1", "/held/1"))
        try await push("narrow", element("n2", "/held/2"))
        for id in ["held", "changing", "cancelled"] {
            try await eventually("\(id) to have a checkpoint", within: .seconds(30), every: .milliseconds(30)) {
                try await server.cli("HLEN", "haul:{default}:offsets:\(id)") != "0"
            }
        }
        try await push("default", element("held", "/held"))
        // A push that is claimed after a request would be newer than the request.
        try await eventually("the push to be claimed", within: .seconds(30)) {
            listener.standardOutput.contains(#""event":"duplicate""#)
        }
        for (id, request) in [("held", "paused"), ("changing", "paused"), ("cancelled", "cancelled")] {
            try await server.cli("HSET", "haul:{default}:want", id, request)
        }
        for id in ["held", "changing"] { try await wait(id, for: "paused") }
        try await wait("cancelled", for: "cancelled")
        try await eventually("a job to wait for its host", within: .seconds(30)) {
            listener.standardOutput.contains(#""why":"host""#)
        }
        try await wait("slow", for: "completed")
        try await wait("call", for: "completed")
        try await wait("post", for: "failed")
        try await wait("sent", for: "completed")
        try await wait("refused", for: "failed")
        gate.open()
        changed.open()
        // A host that refuses keeps only as many connections as it has accepted, so this job is pushed late.
        try await push("default", element("busy", "/busy", #","retries":3"#))
        for id in ["held", "changing"] { try await server.cli("HSET", "haul:{default}:want", id, "running") }
        for id in ["held", "changing", "busy"] { try await wait(id, for: "completed") }
        try await wait("missing", for: "failed")
        for id in ["n1", "n2"] { try await wait(id, for: "completed", in: "narrow") }
        let replies = try await server.cli("LRANGE", "haul:{default}:reply:r", "0", "-1").split(separator: "\n").map(
            String.init)
        #expect(replies.count == 6)
        for worker in workers {
            worker.kill(SIGTERM)
            #expect(try await worker.wait() == 0)
        }
        let published = listener.standardOutput.split(separator: "\n").map(String.init).filter { $0.hasPrefix("{") }
        #expect(Set(replies).isSubset(of: published))
        return published
    }
}
