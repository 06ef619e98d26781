import Foundation
import HaulBus
import HaulContract
import HaulHTTPServer
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulWeb

/// The one shape of a job: JobRecord.members.
@Suite struct JobShapeTests {
    @Test(
        "a job is the same in its hash, its event, its reply, haul show --json and the API",
        arguments: ["download", "request", "failed"])
    func rendered(kind: String) async throws {
        let bench = try await CommandBench()
        let bytes = FileBytes(seed: 32, count: 40_000)
        let origin = try OriginServer { request in
            switch request.path {
            case "/file": return OriginReply.file(bytes, to: request)
            case "/missing": return OriginReply(404)
            default:
                return OriginReply(
                    201, headers: [("Content-Type", "text/plain"), ("ETag", "\"r1\"")], body: Array("made".utf8))
            }
        }
        let queue = Queue(.default, redis: Redis(try RedisURL(bench.server.url), name: "test"))
        let subscription = try bench.start(["watch", "--json", "shape", "--wait-for"])
        try await eventually("haul watch to subscribe") {
            try await bench.server.cli("PUBSUB", "NUMSUB", "haul:{default}:events:shape").hasSuffix("1")
        }
        let paths = ["download": "/file", "request": "/orders?secret=1", "failed": "/missing"]
        let more = [
            "download": #","path":"films/film.bin","checksum":"sha256:\#(bytes.sha256)""#,
            "request": #","kind":"request","method":"PUT","json":{"n":1}"#, "failed": #","retries":0"#,
        ]
        let element =
            #"{"url":"\#(origin.url(paths[kind]!))","id":"shape","reply_to":"me","batch":"night","meta":{"customer":7},"deadline":600\#(more[kind]!)}"#
        try await bench.server.cli("LPUSH", "haul:{default}:jobs", element)
        let worker = try bench.worker("w")
        let reply = try JSON(
            #require(
                try await bench.server.cli("BRPOP", "haul:{default}:reply:me", "30").split(separator: "\n").last
                    .map(String.init)))
        _ = try await subscription.wait()
        let event = try JSON(#require(subscription.standardOutput.split(separator: "\n").last.map(String.init)))
        let hash = try #require(try await queue.job("shape")).fields
        let shown = try JSON(try await bench.haul("show", "shape", "--json").out)
        let listed = try JSON(try await bench.haul("list", "--json").out)
        let api = try await Self.get("/api/queues/default/jobs/shape", bench)

        // Both write the same text, so members, types and values are the same. A list has no response.
        #expect(shown == api)
        #expect(reply == event)
        for member in listed.members ?? [] where member.name != "timestamp" {
            #expect(shown[member.name] == member.value, "\(member.name)")
        }
        #expect(Set(shown.names).subtracting(listed.names) == (kind == "request" ? ["headers", "body"] : []))
        // Each member has the type that is declared, and the value of the hash.
        let declared = Dictionary(uniqueKeysWithValues: JobRecord.members.map { ($0.name, $0.kind) })
        for member in shown.members ?? [] {
            let kind = try #require(declared[member.name], "\(member.name) is not declared")
            #expect(member.value.has(kind), "\(member.name): \(member.raw)")
            guard let text = hash[member.name], kind != .id else { continue }
            #expect(member.value.hashText == text || member.raw == text, "\(member.name): \(member.raw), \(text)")
        }
        // An event has other members as well: its own, and those that only the end of a run has.
        let ofEvents: Set = ["v", "event", "queue", "at"]
        for member in event.members ?? [] where !ofEvents.contains(member.name) {
            #expect(shown[member.name] == member.value, "\(member.name): \(member.raw)")
        }
        #expect(shown["url"]?.string == origin.url(paths[kind]!).replacing("?secret=1", with: "?[masked]"))
        #expect(shown["host"]?.string == "127.0.0.1" && shown["meta"]?.text == #"{"customer":7}"#)
        switch kind {
        case "download": #expect(shown["bytes"]?.integer == 40_000 && shown["checksum"] != nil)
        case "request": #expect(shown["status"]?.integer == 201 && shown["body"]?.string == "made")
        default:
            #expect(shown["retryable"]?.bool == false && shown["error"]?.string == "http_404")
            let failures = shown["failures"]?.array ?? []
            #expect(failures.map { $0["error"]?.string } == ["http_404"])
            #expect(failures.map { $0["worker"]?.string } == ["w"])
        }
        worker.kill(SIGTERM)
        #expect(try await worker.wait() == 0)
    }

    @Test("workers, batches and the queue have the members that are declared") func others() async throws {
        let bench = try await CommandBench()
        let worker = try bench.worker("w")
        try await bench.server.cli(
            "LPUSH", "haul:{default}:jobs",
            #"{"url":"http://127.0.0.1:1/","id":"a","retries":0,"batch":{"name":"b","size":1,"reply_to":"r"}}"#)
        #expect(try await bench.haul("watch", "a").status == 1)
        let queue = try await Self.get("/api/queues/default", bench)
        let workers = try await Self.get("/api/queues/default/workers", bench)
        let batch = try await Self.get("/api/queues/default/batches/b", bench)
        for (json, members) in [
            (queue, Shapes.queue), (try #require(workers["workers"]?.array?.first), Shapes.worker),
            (batch, Shapes.batch),
        ] {
            let declared = Dictionary(uniqueKeysWithValues: members.map { ($0.name, $0) })
            for member in json.members ?? [] {
                let kind = try #require(declared[member.name], "\(member.name) is not declared").kind
                #expect(member.value.has(kind), "\(member.name): \(member.raw)")
            }
            #expect(Set(json.names).isSuperset(of: members.filter(\.isAlways).map(\.name)))
        }
        worker.kill(SIGTERM)
        #expect(try await worker.wait() == 0)
    }

    /// What `haul web` answers to a program on this machine.
    private static func get(_ target: String, _ bench: CommandBench) async throws -> JSON {
        let configuration = WebConfiguration(
            redis: try RedisURL(bench.server.url), queues: [.default], addresses: [ListenAddress("127.0.0.1:0")!])
        let request = ServerRequest(
            method: "GET", path: target, query: "", fields: [("host", "localhost:8484")],
            client: ClientAddress("127.0.0.1")!)
        guard case .respond(let response) = await WebServer(configuration).decide(request),
            case .bytes(let bytes) = response.body
        else { throw CancellationError() }
        return try JSON(bytes)
    }
}

extension JSON {
    fileprivate var names: [String] { (members ?? []).map(\.name) }

    /// The text that a hash has for a value.
    fileprivate var hashText: String? { string ?? bool.map { $0 ? "1" : "0" } }

    fileprivate func has(_ kind: JSONMember.Kind) -> Bool {
        switch kind {
        case .text: string != nil
        case .id: string.map(JobField.isID) ?? false
        case .choice(let choices): string.map(choices.contains) ?? false
        case .integer: integer != nil
        case .integerOr(let word): integer != nil || string == word
        case .decimal: double != nil
        case .flag: bool != nil
        case .any: true
        case .headers: members?.allSatisfy { $0.value.string != nil } ?? false
        case .attempts: array?.allSatisfy { $0["ended"]?.integer != nil && $0["worker"]?.string != nil } ?? false
        case .files: array?.allSatisfy { $0["file"]?.string != nil } ?? false
        case .names: array?.allSatisfy { $0.string != nil } ?? false
        case .intervals:
            array?.allSatisfy { $0.array?.count == 2 && $0.array!.allSatisfy { $0.integer != nil } } ?? false
        case .counts(let names): Set(self.names) == Set(names) && (members ?? []).allSatisfy { $0.value.integer != nil }
        case .ranking: array?.allSatisfy { $0.array?.count == 2 } ?? false
        case .failures: names == ["of", "by_error", "by_host", "groups"]
        case .integers: array?.allSatisfy { $0.integer != nil } ?? false
        case .object: members != nil
        case .objects: array?.allSatisfy { $0.members != nil } ?? false
        }
    }
}
