import Foundation
import HaulBus
import HaulContract
import HaulHTTP
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulWorker

@Suite("Webhooks of real workers", .timeLimit(.minutes(2)))
struct WebhookTests {
    private static let key = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

    /// Whether the signature is that of the request, for these keys.
    private static func isSigned(_ request: OriginRequest) throws -> Bool {
        let id = try #require(request.headers["webhook-id"])
        let timestamp = try #require(request.headers["webhook-timestamp"].flatMap { Int64($0) })
        let keys = try WebhookKeys(text: key)
        return keys.fields(id: id, timestamp: timestamp, body: request.body.bytes).last?.value
            == request.headers["webhook-signature"]
    }

    @Test("a webhook is sent until it is accepted, with one id and a timestamp and signature of each attempt")
    func accepted() async throws {
        let attempts = Shared(0)
        let origin = try OriginServer { request in
            guard request.path == "/hook" else { return .file(FileBytes(seed: 4, count: 100), to: request) }
            attempts.change { $0 += 1 }
            return OriginReply(attempts.value == 1 ? 404 : 204)
        }
        let secret = TemporaryDirectory()
        try Data((Self.key + "\n").utf8).write(to: URL(filePath: secret.file("billing")))
        let fleet = try await Fleet()
        let worker = try fleet.worker("w") {
            $0.slots = 3
            $0.webhookSecrets = ["billing": secret.file("billing")]
        }
        let running = Task { try await worker.run() }
        try await fleet.push(
            #"{"id":"film","url":"\#(origin.url("/film"))","notify":{"url":"\#(origin.url("/hook"))","secret":"billing","events":["completed"]}}"#
        )
        try await eventually("the webhook to be accepted", within: .seconds(30)) { attempts.value == 2 }
        let counts = [("completed", 1), ("retried", 1), ("failed", 0)].map {
            "haul_webhooks_total{queue=\"default\",result=\"\($0)\"} \($1)\n"
        }
        try await eventually("the counts of the attempts") {
            let page = try #require(await worker.page.respond(to: "/metrics")).text
            return counts.allSatisfy(page.contains)
        }
        running.cancel()
        try await running.value
        let hooks = origin.requests.filter { $0.path == "/hook" }
        #expect(try hooks.allSatisfy(Self.isSigned))
        #expect(Set(hooks.map { $0.headers["webhook-id"] }).count == 1 && hooks[0].body.bytes == hooks[1].body.bytes)
        #expect(hooks[0].headers["content-type"] == "application/json")
        let event = try JSON(hooks[0].body.bytes)
        #expect(
            event["event"]?.string == "completed" && event["id"]?.string == "film" && event["file"]?.string == "film")
    }

    @Test("a webhook is accepted by the status alone, whatever becomes of the rest of the response") func status()
        async throws
    {
        let origin = try OriginServer { request in
            switch request.path {
            case "/long": return OriginReply(200, body: [UInt8](repeating: 65, count: 200_000))
            case "/slow":
                var reply = OriginReply(200, body: [65])
                // The rest never comes.
                reply.declaredLength = 9
                return reply
            default: return OriginReply(500)
            }
        }
        let secret = TemporaryDirectory()
        try Data((Self.key + "\n").utf8).write(to: URL(filePath: secret.file("billing")))
        let fleet = try await Fleet()
        let worker = try fleet.worker("w") { $0.webhookSecrets = ["billing": secret.file("billing")] }
        let running = Task { try await worker.run() }
        for path in ["long", "slow", "late"] {
            let more = path == "late" ? #","deadline":3"# : ""
            try await fleet.push(
                #"{"kind":"request","id":"\#(path)","url":"\#(origin.url("/\(path)"))","json":1,"webhook":"billing"\#(more)}"#
            )
        }
        try await fleet.wait("long", for: .completed)
        try await fleet.wait("slow", for: .completed)
        try await fleet.wait("late", for: .failed)
        // Its deadline passes before an attempt that a worker would make.
        try await eventually("the count of the last attempt") {
            try #require(await worker.page.respond(to: "/metrics")).text
                .contains("haul_webhooks_total{queue=\"default\",result=\"failed\"} 1\n")
        }
        running.cancel()
        try await running.value
        #expect(origin.requests.filter { $0.path != "/late" }.count == 2)
    }

    @Test(
        "a webhook follows no redirect, whose target could take it without its body and answer 200",
        arguments: [301, 302, 303, 307, 308])
    func redirect(_ status: Int) async throws {
        let origin = try OriginServer { request in
            request.path == "/hook"
                ? OriginReply(status, headers: [("Location", "//user:secret@h.example/sign-in")])
                : OriginReply(200)
        }
        let secret = TemporaryDirectory()
        try Data((Self.key + "\n").utf8).write(to: URL(filePath: secret.file("billing")))
        let fleet = try await Fleet()
        let worker = try fleet.worker("w") { $0.webhookSecrets = ["billing": secret.file("billing")] }
        let running = Task { try await worker.run() }
        try await fleet.push(
            #"{"kind":"request","id":"a","url":"\#(origin.url("/hook"))","method":"POST","json":1,"webhook":"billing","retries":0}"#
        )
        try await fleet.wait("a", for: .failed)
        running.cancel()
        try await running.value
        #expect(origin.requests.map(\.path) == ["/hook"])
        let job = try #require(try await fleet.queue.job("a"))
        #expect(job["error"] == "http_\(status)")
        #expect(
            job["message"]?.contains("h.example/sign-in; a webhook follows no redirect") == true,
            "\(job["message"] ?? "")")
        #expect(job["message"]?.contains("secret") == false)
    }

    @Test("a secret that is replaced in its file is named by the reload") func reloaded() async throws {
        let secret = TemporaryDirectory()
        let file = URL(filePath: secret.file("billing"))
        try Data((Self.key + "\n").utf8).write(to: file)
        let fleet = try await Fleet()
        var configuration: WorkerConfiguration?
        let worker = try fleet.worker("w") {
            $0.webhookSecrets = ["billing": secret.file("billing")]
            configuration = $0
        }
        let running = Task { try await worker.run() }
        let same = try #require(configuration)
        #expect(try await worker.apply(same).applied.isEmpty)
        try Data("whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD\n\(Self.key)\n".utf8).write(to: file)
        #expect(try await worker.apply(same).applied == ["webhook-secret"])
        #expect(try await worker.apply(same).applied.isEmpty)
        running.cancel()
        try await running.value
    }

    @Test("a worker without the secret sends nothing, and tries again later") func missing() async throws {
        let origin = try OriginServer { _ in OriginReply(204) }
        let fleet = try await Fleet()
        try await fleet.withWorker("w") {
            try await fleet.push(
                #"{"kind":"request","id":"a","url":"\#(origin.url("/hook"))","json":1,"webhook":"billing"}"#)
            try await fleet.wait("a", for: .scheduled)
        }
        #expect(origin.requests.isEmpty)
        #expect(try await fleet.queue.job("a")?["message"]?.contains("--webhook-secret billing=FILE") == true)
    }

    @Test("a worker does not start with a secret that it cannot use") func unusable() async throws {
        let fleet = try await Fleet()
        #expect(throws: Failure.self) { try fleet.worker("w") { $0.webhookSecrets = ["a": "/nowhere"] } }
    }
}
