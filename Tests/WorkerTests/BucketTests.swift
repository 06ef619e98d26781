import Glibc
import HaulBus
import HaulContract
import HaulObjectStore
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulWorker

/// Workers that share a Redis and a bucket, and nothing else.
@Suite(
    .disabled(
        if: ObjectServer.installed.isEmpty, "neither radosgw nor SeaweedFS is installed: deploy/test.sh does that"))
struct BucketTests {
    /// The keys are the test servers' own, for all of this process.
    private func change(_ server: ObjectServer, _ prefix: String) throws -> (inout WorkerConfiguration) -> Void {
        for (name, value) in server.environment { setenv(name, value, 1) }
        let bucket = try BucketAddress("s3://\(server.bucket)/\(prefix)", endpoint: server.endpoint)
        return { configuration in
            configuration.bucket = bucket
            configuration.root = "/nonexistent"
        }
    }

    private func object(_ path: String, _ server: ObjectServer, _ prefix: String) async throws -> [UInt8]? {
        let directory = TemporaryDirectory()
        let curl = try ChildProcess(
            "curl",
            [
                "-sSf", "--aws-sigv4", "aws:amz:us-east-1:s3", "-u", "testkey:testsecret", "-H",
                "x-amz-content-sha256: UNSIGNED-PAYLOAD", "-o", directory.file("object"),
                "\(server.endpoint)/\(server.bucket)/\(prefix)/\(path)",
            ])
        _ = try await curl.wait()
        return directory.contents("object")
    }

    @Test(
        "a paused job goes on with another worker, to the byte, and nothing is fetched twice",
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
            try await eventually("bytes of the first run", within: .seconds(30)) {
                let held = try await fleet.queue.job("film")?.offsets.count ?? 0
                return held >= 16 << 20
            }
            try await fleet.queue.redis.send(Command("HSET", fleet.queue.keys.want, "film", "paused"))
            try await fleet.wait("film", for: .paused)
        }
        latch.open()
        let paused = try #require(try await fleet.queue.job("film"))
        #expect(paused.offsets.intervals == [0..<21 << 20])
        #expect(try await object("films/film.bin", server, prefix) == nil)
        try await fleet.withWorker("two", change) {
            try await fleet.queue.redis.send(Command("HSET", fleet.queue.keys.want, "film", "running"))
            try await fleet.wait("film", for: .completed)
        }
        #expect(origin.bytesSent("/film") <= file.count + 1 << 20)
        #expect(try await object("films/film.bin", server, prefix) == file.all)
        let job = try #require(try await fleet.queue.job("film"))
        #expect(job["file"] == "films/film.bin" && job["journal"] == nil && job["worker"] == "two")
    }

    @Test("small files need a request each, and a push again finds them unchanged", arguments: ObjectServer.installed)
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
            #expect(try await object("s/7", server, prefix) == file.all)
            try await fleet.push(#"{"url":"\#(origin.url("/7"))","id":"j7","path":"s/7"}"#)
            try await eventually("j7 to be told unchanged") {
                let job = try await fleet.queue.job("j7")
                return job?.state == .completed && job?["unchanged"] == "1"
            }
        }
    }
}
