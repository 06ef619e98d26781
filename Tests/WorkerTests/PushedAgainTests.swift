import Glibc
import HaulBus
import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulWorker

/// Pushes of jobs that are known, and whose files were finished before.
@Suite struct PushedAgainTests {
    private static let bytes = FileBytes(seed: 91, count: 3000)

    @Test(
        "a job that is deleted and pushed again at once gets a new file, and the old one is removed",
        arguments: ["a", "b"])
    func removed(_ path: String) async throws {
        let fleet = try await Fleet()
        let origin = try OriginServer { .file(Self.bytes, to: $0) }
        try await fleet.withWorker("w") {
            for n in 1...8 {
                let id = "j\(n)"
                try await fleet.push(#"{"url":"\#(origin.url("/x"))","id":"\#(id)","path":"\#(n)/a"}"#)
                try await fleet.wait(id, for: .completed)
                let timestamp = try await fleet.queue.time()
                try await fleet.queue.request(.deleted, of: [id], at: timestamp)
                try await fleet.push(
                    #"{"url":"\#(origin.url("/x"))","id":"\#(id)","path":"\#(n)/\#(path)","at":\#(timestamp + 1)}"#)
                try await eventually("the second push to end") {
                    try await fleet.queue.job(id)?.hasEnded(since: timestamp + 1) == true
                }
                let job = try await fleet.queue.job(id)
                #expect(job?.state == .completed && job?["file"] == "\(n)/\(path)", "\(job?.fields ?? [:])")
                try await eventually("the old file to be gone") { fleet.root.contents("\(n)/a") == nil || path == "a" }
                #expect(fleet.root.contents("\(n)/\(path)")?.count == 3000)
            }
        }
        #expect(origin.requests.count == 16)
    }

    @Test("a file that was changed since its download is not deleted with its job") func edited() async throws {
        let fleet = try await Fleet()
        let origin = try OriginServer { .file(Self.bytes, to: $0) }
        try await fleet.withWorker("w") {
            for id in ["edited", "replaced", "same"] {
                try await fleet.push(#"{"url":"\#(origin.url("/x"))","id":"\#(id)","path":"\#(id)"}"#)
                try await fleet.wait(id, for: .completed)
            }
            let edited = open(fleet.root.file("edited"), O_WRONLY)
            #expect(write(edited, "EDITED", 6) == 6 && close(edited) == 0)
            unlink(fleet.root.file("replaced"))
            let other = open(fleet.root.file("replaced"), O_WRONLY | O_CREAT, 0o600)
            #expect(write(other, "mine", 4) == 4 && close(other) == 0)
            try await fleet.queue.request(.deleted, of: ["edited", "replaced", "same"])
            try await eventually { fleet.root.contents("same") == nil }
        }
        #expect(fleet.root.names == ["edited", "replaced"])
    }

    @Test("a changed file that is fetched in two runs replaces the earlier one") func paused() async throws {
        let fleet = try await Fleet()
        let (latch, version) = (Latch(), Shared(1))
        defer { latch.open() }
        let origin = try OriginServer { request in
            let version = version.value
            var reply = OriginReply.file(
                FileBytes(seed: UInt64(version), count: 1_000_000), etag: "\"v\(version)\"", to: request)
            if version == 2 { reply.hold = (300_000, latch) }
            return reply
        }
        let element = #"{"url":"\#(origin.url("/x"))","id":"j","path":"a","connections":1}"#
        try await fleet.withWorker("w") {
            try await fleet.push(element)
            try await fleet.wait("j", for: .completed)
            version.value = 2
            try await fleet.push(element)
            try await eventually("a checkpoint", within: .seconds(30)) {
                try await fleet.queue.job("j")?.offsets.isEmpty == false
            }
            try await eventually("progress") { try await fleet.queue.job("j")?.integer("received") != 1_000_000 }
            try await fleet.queue.request(.paused, of: ["j"])
            try await fleet.wait("j", for: .paused)
            latch.open()
            try await fleet.push(#"{"id":"j"}"#)
            try await eventually("the end", within: .seconds(30)) { try await fleet.queue.job("j")?.hasEnded == true }
            let job = try await fleet.queue.job("j")
            #expect(job?.state == .completed, "\(job?.fields ?? [:])")
        }
        #expect(fleet.root.holds("a", FileBytes(seed: 2, count: 1_000_000)))
        #expect(fleet.root.names == ["a"])
    }

    @Test(
        "a push behind a cancelled one never takes the file of the push before for what the cancelled one fetched",
        arguments: ["/x", "/y"], ["", #","fresh_for":3600"#])
    func cancelled(_ path: String, fresh: String) async throws {
        let fleet = try await Fleet()
        let (latch, version) = (Latch(), Shared(1))
        defer { latch.open() }
        let origin = try OriginServer { request in
            let version = request.path == "/y" ? 2 : version.value
            var reply = OriginReply.file(
                FileBytes(seed: UInt64(version), count: 1_000_000), etag: "\"v\(version)\"", to: request)
            if version == 2 { reply.hold = (300_000, latch) }
            return reply
        }
        func element(_ path: String, _ more: String = "") -> String {
            #"{"url":"\#(origin.url(path))","id":"j","path":"a","connections":1\#(more)}"#
        }
        try await fleet.withWorker("w") {
            try await fleet.push(element("/x"))
            try await fleet.wait("j", for: .completed)
            version.value = 2
            try await fleet.push(element(path))
            try await eventually("a checkpoint", within: .seconds(30)) {
                try await fleet.queue.job("j")?["etag"] == "\"v2\""
            }
            try await fleet.queue.request(.cancelled, of: ["j"])
            try await fleet.wait("j", for: .cancelled)
            #expect(fleet.root.holds("a", FileBytes(seed: 1, count: 1_000_000)))
            latch.open()
            try await fleet.push(element(path, fresh))
            try await fleet.wait("j", for: .completed)
        }
        #expect(fleet.root.holds("a", FileBytes(seed: 2, count: 1_000_000)))
        #expect(fleet.root.names == ["a"])
    }

    @Test(
        "a push with a URL that no worker can read changes nothing of its job",
        arguments: ["paused", "completed", "scheduled", "queued"])
    func unreadable(_ state: String) async throws {
        let fleet = try await Fleet()
        let latch = Latch()
        let origin = try OriginServer { request in
            var reply = OriginReply.file(FileBytes(seed: 9, count: 1_000_000), to: request)
            if state != "completed" { reply.hold = (300_000, latch) }
            return reply
        }
        let bad = #"{"url":"http://\#u{2100}.invalid/","id":"j"}"#
        let delay = state == "scheduled" ? #","delay":2"# : ""
        try await fleet.withWorker("w") {
            if state == "queued" { try await fleet.queue.setSetting("paused", to: "1") }
            try await fleet.push(#"{"url":"\#(origin.url("/x"))","id":"j","path":"a"\#(delay)}"#)
            switch state {
            case "paused":
                try await eventually { try await fleet.queue.job("j")?.offsets.isEmpty == false }
                try await fleet.queue.request(.paused, of: ["j"])
                try await fleet.wait("j", for: .paused)
            case "completed": try await fleet.wait("j", for: .completed)
            case "scheduled": try await fleet.wait("j", for: .scheduled)
            default: break
            }
            try await fleet.push(bad)
            if state == "paused" || state == "completed" {
                try await eventually("the push to be rejected") {
                    try await fleet.queue.rejected(limit: 1).first?.contains("has an invalid host name") == true
                }
                #expect(try await fleet.state("j")?.rawValue == state)
                try await fleet.push(#"{"url":"\#(origin.url("/x"))","id":"j","path":"a"}"#)
            }
            latch.open()
            try await fleet.queue.setSetting("paused", to: nil)
            try await fleet.wait("j", for: .completed)
        }
        #expect(fleet.root.holds("a", FileBytes(seed: 9, count: 1_000_000)))
    }

    @Test("a worker logs which key has a wrong type") func wrongType() async throws {
        let fleet = try await Fleet()
        let logged = Shared<[String]>([])
        let worker = try fleet.worker("w", log: Warnings.log(to: logged))
        let running = Task { try await worker.run() }
        let key = fleet.queue.keys.worker("w")
        try await eventually { try await fleet.queue.workerCount() == 1 }
        try await fleet.queue.redis.send(Command("DEL", key))
        try await fleet.queue.redis.send(Command("SET", key, "x"))
        try await eventually("the key to be named", within: .seconds(20)) {
            logged.value.contains { $0.contains("\(key): it is a string, and must be a hash") }
        }
        try await fleet.queue.redis.send(Command("DEL", key))
        running.cancel()
        try await running.value
    }
}
