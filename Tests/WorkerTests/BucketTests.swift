import Glibc
import HaulActivities
import HaulBus
import HaulContract
import HaulHTTP
import HaulRedis
import HaulStorage
import HaulTestSupport
import Testing

@testable import HaulObjectStore
@testable import HaulWorker

/// Workers that share a Redis server and a bucket, and nothing else.
@Suite(
    .disabled(
        if: ObjectServer.installed.isEmpty, "neither radosgw nor SeaweedFS is installed: deploy/test.sh does that"))
struct BucketTests {
    /// Returns a change that configures a bucket of `server`. The server's keys are set in the environment of this
    /// process.
    private func change(
        _ server: ObjectServer, _ prefix: String, endpoint: String? = nil
    ) throws -> (inout WorkerConfiguration) -> Void {
        for (name, value) in server.environment { setenv(name, value, 1) }
        let bucket = try BucketAddress("s3://\(server.bucket)/\(prefix)", endpoint: endpoint ?? server.endpoint)
        return { configuration in
            configuration.bucket = bucket
            configuration.uploadFrom = "\(bucket)"
            configuration.root = "/nonexistent"
        }
    }

    @Test(
        "a paused job continues on another worker where it stopped, and its object is right",
        arguments: ObjectServer.installed)
    func handedOver(_ kind: ObjectServer.Kind) async throws {
        let server = try await ObjectServer.shared(kind)
        let fleet = try await Fleet()
        let prefix = "w\(UInt64.random(in: 0...(.max)))"
        let change = try change(server, prefix)
        let file = FileBytes(seed: 11, count: 40 << 20)
        let latch = Latch()
        let origin = try OriginServer { request in
            var reply = OriginReply.file(file, to: request)
            if request.number == 1 { reply.hold = (after: 21 << 20, until: latch) }
            return reply
        }
        try await fleet.withWorker("one", change) {
            try await fleet.push(
                #"{"url":"\#(origin.url("/film"))","id":"film","path":"films/film.bin","connections":1}"#)
            try await eventually("16 MiB of the first run", within: .seconds(30)) {
                let held = try await fleet.queue.job("film")?.offsets.count ?? 0
                return held >= 16 << 20
            }
            try await fleet.queue.redis.send(Command("HSET", fleet.queue.keys.want, "film", "paused"))
            try await fleet.wait("film", for: .paused)
        }
        latch.open()
        let paused = try #require(try await fleet.queue.job("film"))
        #expect(paused.offsets.intervals == [0..<21 << 20])
        #expect(try await server.object("\(prefix)/films/film.bin") == nil)
        try await fleet.withWorker("two", change) {
            try await fleet.queue.redis.send(Command("HSET", fleet.queue.keys.want, "film", "running"))
            try await fleet.wait("film", for: .completed)
        }
        #expect(origin.bytesSent("/film") <= file.count + 1 << 20)
        #expect(try await server.object("\(prefix)/films/film.bin") == file.all)
        let job = try #require(try await fleet.queue.job("film"))
        #expect(job["file"] == "films/film.bin" && job["store_state"] == nil && job["worker"] == "two")
    }

    @Test(
        "SIGTERM keeps every byte that has arrived, those of incomplete parts included",
        arguments: ObjectServer.installed)
    func terminated(_ kind: ObjectServer.Kind) async throws {
        let server = try await ObjectServer.shared(kind)
        let fleet = try await Fleet()
        let prefix = "w\(UInt64.random(in: 0...(.max)))"
        let change = try change(server, prefix)
        let file = FileBytes(seed: 15, count: 24 << 20)
        let latch = Latch()
        defer { latch.open() }
        let origin = try OriginServer { request in
            var reply = OriginReply.file(file, to: request)
            if request.number == 1 { reply.hold = (after: 13 << 20, until: latch) }
            return reply
        }
        try await fleet.withWorker("one", change) {
            try await fleet.push(
                #"{"url":"\#(origin.url("/film"))","id":"film","path":"films/film.bin","connections":1}"#)
            try await eventually("13 MiB", within: .seconds(30)) {
                try await fleet.queue.job("film")?["received"] == "\(13 << 20)"
            }
            #expect(try await fleet.queue.job("film")?.offsets.contains(0..<13 << 20) == false)
        }
        let waiting = try #require(try await fleet.queue.job("film"))
        #expect(waiting.state == .queued && waiting.offsets.intervals == [0..<13 << 20])
        latch.open()
        try await fleet.withWorker("two", change) { try await fleet.wait("film", for: .completed) }
        #expect(try await server.object("\(prefix)/films/film.bin") == file.all)
        #expect(origin.bytesSent("/film") <= file.count + 1 << 20)
    }

    @Test(
        "a checksum that is pushed after a run without one is verified, and no bytes of another URL stay",
        arguments: ObjectServer.installed, ["/old", "/new"])
    func lateChecksum(_ kind: ObjectServer.Kind, _ path: String) async throws {
        let server = try await ObjectServer.shared(kind)
        let fleet = try await Fleet()
        let prefix = "w\(UInt64.random(in: 0...(.max)))"
        let (old, new) = (FileBytes(seed: 17, count: 24 << 20), FileBytes(seed: 18, count: 24 << 20))
        let isBroken = Shared(true)
        let origin = try OriginServer { request in
            if isBroken.value, request.number > 1 { return OriginReply(403) }
            var reply = OriginReply.file(request.path == "/old" ? old : new, to: request)
            if isBroken.value { (reply.cut, reply.end) = (17 << 20, .fin) }
            return reply
        }
        try await fleet.withWorker("one", try change(server, prefix)) {
            let rest = #""id":"film","path":"film.bin","connections":1"#
            try await fleet.push(#"{"url":"\#(origin.url("/old"))",\#(rest)}"#)
            try await fleet.wait("film", for: .failed)
            #expect(try await fleet.queue.job("film")?.offsets.isEmpty == false)
            isBroken.value = false
            try await fleet.push(
                #"{"url":"\#(origin.url(path))","checksum":"sha256:\#(new.sha256)",\#(rest)}"#)
            try await eventually("the second push to end", within: .seconds(60)) {
                let job = try await fleet.queue.job("film")
                return job?.state == .completed || job?.state == .failed && job?["error"] != "http_403"
            }
            let job = try #require(try await fleet.queue.job("film"))
            let object = try await server.object("\(prefix)/film.bin")
            if path == "/old" {
                #expect(job["error"] == "checksum_mismatch" && object == nil, "\(job.fields)")
            } else {
                #expect(job["checksum"] == "sha256:\(new.sha256)" && object == new.all, "\(job.fields)")
            }
        }
    }

    @Test("small files are stored, and another push finds them unchanged", arguments: ObjectServer.installed)
    func small(_ kind: ObjectServer.Kind) async throws {
        let server = try await ObjectServer.shared(kind)
        let fleet = try await Fleet()
        let prefix = "w\(UInt64.random(in: 0...(.max)))"
        let change = try change(server, prefix)
        let file = FileBytes(seed: 12, count: 10_000)
        let origin = try OriginServer { OriginReply.file(file, to: $0) }
        try await fleet.withWorker("one", change) {
            for number in 0..<20 {
                try await fleet.push(
                    #"{"url":"\#(origin.url("/\(number)"))","id":"j\#(number)","path":"s/\#(number)"}"#)
            }
            for number in 0..<20 { try await fleet.wait("j\(number)", for: .completed) }
            #expect(try await server.object("\(prefix)/s/7") == file.all)
            try await fleet.push(#"{"url":"\#(origin.url("/7"))","id":"j7","path":"s/7"}"#)
            try await eventually("j7 to end as unchanged") {
                let job = try await fleet.queue.job("j7")
                return job?.state == .completed && job?["unchanged"] == "1"
            }
        }
    }

    /// What another worker has done with the job while this one waited for the response to its PUT. `replaced`: it has
    /// completed the job with another object.
    enum Taken: String, CaseIterable, Sendable { case cancelled, running, completed, replaced }

    @Test(
        "a run that has lost its lease deletes the object that its ended job does not have, and no other object",
        arguments: ObjectServer.installed, Taken.allCases)
    func fencedPut(_ kind: ObjectServer.Kind, _ taken: Taken) async throws {
        let server = try await ObjectServer.shared(kind)
        let fleet = try await Fleet()
        let prefix = "w\(UInt64.random(in: 0...(.max)))"
        let gateway = LateGateway(to: server.endpoint)
        defer { gateway.release() }
        gateway.holdResponses { $0.hasPrefix("PUT ") && $0.contains("/s/a") }
        let file = FileBytes(seed: 16, count: 10_000)
        let origin = try OriginServer { OriginReply.file(file, to: $0) }
        try await fleet.withWorker("one", isOrderly: false, try change(server, prefix, endpoint: gateway.endpoint)) {
            try await fleet.push(#"{"url":"\#(origin.url("/a"))","id":"j","path":"s/a"}"#)
            try await eventually("the object", within: .seconds(30)) { gateway.isHolding }
            #expect(try await server.object("\(prefix)/s/a") == file.all)
            let state = taken == .replaced ? "completed" : taken.rawValue
            try await fleet.queue.redis.send(
                Command("HSET", fleet.queue.keys.job("j"), "token", "another", "state", state))
            if taken == .replaced {
                let bucket = try BucketAddress("s3://\(server.bucket)/\(prefix)", endpoint: gateway.endpoint)
                let store = ObjectStore(bucket, environment: { server.environment[$0] }, isReadable: { _ in false })
                let other = CompletedFile(
                    file: "s/a", bytes: 10_000, store: store.id, inode: 1, modified: 1, entity: Entity(), source: "",
                    validated: 1)
                try await fleet.queue.redis.send(
                    Command(
                        arguments: ["HSET", fleet.queue.keys.job("j")] + other.fields.flatMap { [$0.0, $0.1] }))
            }
            gateway.release()
            try await eventually("the run to end") {
                try await fleet.queue.redis.send(Command("HGET", fleet.queue.keys.worker("one"), "running")).string
                    == "0"
            }
        }
        let isDeleted = taken == .cancelled || taken == .replaced
        #expect(try await server.object("\(prefix)/s/a") == (isDeleted ? nil : file.all))
    }

    /// What a run has left of a job that another run has completed.
    private struct Rest: RunRemainder {
        let partialLocation: PartialLocation?
        let store: ObjectStore
        func finalCheckpoint() async -> ResumePoint? { nil }
        func discard(soon: Bool) async { if let partialLocation { await store.discard(partialLocation) } }
    }

    @Test(
        "the object of a completed job stays although an earlier run has recorded that it was naming it",
        arguments: ObjectServer.installed, [true, false])
    func recordedName(_ kind: ObjectServer.Kind, _ isOurs: Bool) async throws {
        let server = try await ObjectServer.shared(kind)
        let fleet = try await Fleet()
        let bucket = try BucketAddress(
            "s3://\(server.bucket)/w\(UInt64.random(in: 0...(.max)))", endpoint: server.endpoint)
        let store = ObjectStore(bucket, environment: { server.environment[$0] }, isReadable: { _ in false })
        let (client, key) = (store.client, store.client.address.key("s/a"))
        let bytes = [UInt8](repeating: 7, count: 1000)
        let location = PartialLocation(file: "s/a", key: PartialKey.of("j", in: fleet.queue.name), generation: "1")
        let hidden = HiddenKeys(job: location.key, generation: "1")
        try await client.putFinal(
            key, RequestMemory(bytes), md5: Digest.md5(bytes),
            mark: ObjectMark(job: location.key, generation: "1", time: 1), .absent)
        // A run that was frozen may write this after its successor has tidied up.
        try await client.put(client.address.key(hidden.naming), text: key)
        try await fleet.queue.redis.send(Command("HSET", fleet.queue.keys.job("j"), "state", "completed"))
        let completed = CompletedFile(
            file: "s/a", bytes: 1000, store: store.id, inode: 1, modified: 1, entity: Entity(), source: "",
            validated: 0)
        let settlement = Settlement.completed(completed, seconds: 1, unchanged: false)
        await Leftovers(fleet.queue, store).cleanUp(
            Run(id: "j", token: "t"), Rest(partialLocation: location, store: store), after: isOurs ? settlement : nil)
        try await eventually("the hidden object to go") {
            try await client.list(client.address.key(hidden.folder)).objects.isEmpty
        }
        try await Task.sleep(for: .seconds(1))
        #expect(try await server.object(key) == bytes)
    }

    @Test(
        "objects of any size are uploaded, with their digests, and each in its own request",
        arguments: ObjectServer.installed)
    func sent(_ kind: ObjectServer.Kind) async throws {
        let server = try await ObjectServer.shared(kind)
        let fleet = try await Fleet()
        let prefix = "w\(UInt64.random(in: 0...(.max)))"
        let file = FileBytes(seed: 13, count: 5_000_001)
        let origin = try OriginServer { request in
            request.method != "GET"
                ? OriginReply(201)
                : OriginReply.file(request.path == "/empty" ? FileBytes(seed: 1, count: 0) : file, to: request)
        }
        let large = FileBytes(seed: 14, count: 40 << 20)
        let larger = try OriginServer { OriginReply.file(large, to: $0) }
        try await fleet.withWorker("one", try change(server, prefix)) {
            for (name, url) in [
                ("a b", origin.url("/")), ("c", origin.url("/")), ("empty", origin.url("/empty")),
                ("big", larger.url("/")),
            ] {
                try await fleet.push(#"{"url":"\#(url)","id":"get-\#(name.first!)","path":"in/\#(name)"}"#)
            }
            for name in ["a", "c", "e", "b"] { try await fleet.wait("get-\(name)", for: .completed) }
            let big = try await fleet.upload("big", origin.url("/big"), #""file":"in/big""#)
            #expect(big.state == .completed && origin.requests.last?.body.bytes == large.all)
            let put = try await fleet.upload(
                "put", origin.url("/put/"), #""file":"in//a b","content_digest":"sha-256""#)
            #expect(put.state == .completed && put["received"] == "5000001", "\(put["message"] ?? "")")
            let request = try #require(origin.requests.last)
            let digest = Base64.encode(SHA256.digest(file.all))
            #expect(request.path == "/put/a%20b" && request.body.bytes == file.all)
            #expect(request.headers["content-digest"] == "sha-256=:\(digest):")
            let each = try await fleet.upload(
                "each", origin.url("/each/"),
                #""files":[{"file":"in/a b"},{"file":"in/empty"},{"file":"in/c"}],"each":true"#)
            #expect(each.state == .completed, "\(each["message"] ?? "")")
            #expect(origin.requests.suffix(3).map(\.body.count) == [5_000_001, 0, 5_000_001])
            for (name, code) in [("in/none", "source_missing"), ("in", "source_missing")] {
                let none = try await fleet.upload("none-\(name.utf8.count)", origin.url("/x"), #""file":"\#(name)""#)
                #expect(none.state == .failed && none["error"] == code && none["retryable"] == "0")
            }
        }
        // A queue with a folder reaches only the objects beneath it.
        let change = try change(server, prefix)
        let inFolder: (inout WorkerConfiguration) -> Void = {
            change(&$0)
            $0.queues = [ServedQueue(.default, folder: "in")]
        }
        try await fleet.withWorker("two", inFolder) {
            let put = try await fleet.upload("folder", origin.url("/x"), #""file":"c""#)
            #expect(put.state == .completed && origin.requests.last?.body.bytes == file.all, "\(put["message"] ?? "")")
            #expect(try await fleet.upload("outer", origin.url("/x"), #""file":"in/c""#)["error"] == "source_missing")
            try await fleet.push(#"{"url":"\#(origin.url("/"))","id":"new","path":"new"}"#)
            try await fleet.wait("new", for: .completed)
        }
        try await fleet.withWorker("three", try self.change(server, prefix)) {
            let seen = try await fleet.upload("seen", origin.url("/x"), #""file":"in/new""#)
            #expect(seen.state == .completed)
        }
    }
}
