import HaulBus
import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulWorker

@Suite("Groups and real workers")
struct GroupTests {
    @Test("behind 100,000 elements of one group, a job of another one starts while most of them wait")
    func front() async throws {
        let fleet = try await Fleet()
        let bytes = FileBytes(seed: 4, count: 1000)
        let origin = try OriginServer { OriginReply.file(bytes, to: $0) }
        for page in 0..<200 {
            let elements = (page * 500..<page * 500 + 500).map {
                #"{"url":"\#(origin.url("/a"))","id":"a-\#($0)","path":"a-\#($0)","group":"a"}"#
            }
            try await fleet.queue.redis.send(Command(arguments: ["LPUSH", fleet.queue.keys.jobs] + elements))
        }
        try await fleet.withWorker("one") {
            try await fleet.wait("a-0", for: .completed)
            try await fleet.push(#"{"url":"\#(origin.url("/b"))","id":"b","group":"b"}"#)
            try await fleet.wait("b", for: .completed)
            let stats = try await fleet.queue.stats()
            let ended = try await fleet.queue.count(in: .completed)
            print("\(ended) jobs of the other group have ended before")
            #expect(ended < 50_000)
            // What waits is counted, and none of it is lost.
            #expect(abs((stats.counts[.queued] ?? 0) + ended - 100_001) < 100)
        }
    }
}
