import HaulBus
import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulWorker

@Suite struct QuietTests {
    @Test("a quiet worker finishes its jobs and claims no more, until it is no longer quiet")
    func quiet() async throws {
        let fleet = try await Fleet()
        let latch = Latch()
        defer { latch.open() }
        let bytes = FileBytes(seed: 8, count: 100_000)
        let origin = try OriginServer { request in
            var reply = OriginReply.file(bytes, to: request)
            if request.path == "/first" { reply.hold = (1000, latch) }
            return reply
        }
        func record() async throws -> [String: String] {
            try await fleet.queue.workers().first { $0.name == "one" }?.fields ?? [:]
        }
        func push(_ id: String) async throws {
            try await fleet.push(#"{"url":"\#(origin.url("/" + id))","id":"\#(id)"}"#)
        }
        try await fleet.withWorker("one") {
            try await push("first")
            try await fleet.wait("first", for: .running)
            try await eventually("the worker to be recorded as working") { try await record()["state"] == "working" }
            try await fleet.queue.setQuiet("one", true)
            try await push("second")
            try await eventually("the worker to be recorded as quiet") {
                let record = try await record()
                return record["state"] == "quiet" && record["running"] == "1"
            }
            latch.open()
            try await fleet.wait("first", for: .completed)
            try await eventually("the worker to run nothing") { try await record()["running"] == "0" }
            #expect(try await fleet.queue.job("second") == nil)
            try await fleet.withWorker("two") { try await fleet.wait("second", for: .completed) }
            try await push("third")
            try await fleet.queue.setQuiet("one", false)
            try await fleet.wait("third", for: .completed)
            try await eventually("the worker to be recorded as working") { try await record()["state"] == "working" }
        }
        #expect(try await fleet.queue.stats().workers == 0)
    }
}
