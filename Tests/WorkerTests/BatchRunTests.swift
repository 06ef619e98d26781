import HaulBus
import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulWorker

/// Batches with real workers.
@Suite("A batch's jobs on several workers") struct BatchRunTests {
    @Test("a batch on workers that come and go is answered once, and again after its failed jobs are retried")
    func answered() async throws {
        let fleet = try await Fleet()
        let bytes = FileBytes(seed: 9, count: 3000)
        let isMended = Shared(false)
        let origin = try OriginServer { request in
            request.path.hasPrefix("/bad") && !isMended.value ? OriginReply(404) : .file(bytes, to: request)
        }
        let count = 60
        let elements = (0..<count).map { index in
            let path = index.isMultiple(of: 10) ? "bad" : "good"
            return
                #"{"id":"j\#(index)","url":"\#(origin.url("/\(path)/\(index)"))","batch":{"name":"b","size":\#(count),"reply_to":"r"}}"#
        }
        try await fleet.queue.redis.send(Command(arguments: ["LPUSH", fleet.queue.keys.jobs] + elements))
        func reported() async throws -> [JSON] {
            let list =
                try await fleet.queue.redis.send(Command("LRANGE", fleet.queue.keys.reply("r"), 0, -1)).array ?? []
            return try list.reversed().map { try JSON($0.bytes ?? []) }
        }
        // A worker that ends in the middle returns its jobs to the queue.
        try await fleet.withWorker("one", isOrderly: false) {
            try await eventually("some jobs to end") { try await fleet.queue.batch("b")?.counts[.completed] ?? 0 > 5 }
        }
        try await fleet.withWorker("two") {
            try await fleet.withWorker("three", isOrderly: false) {
                try await eventually("the batch to end", within: .seconds(30)) { try await !reported().isEmpty }
            }
            let first = try await reported()
            #expect(first.count == 1)
            #expect(
                ["round", "size", "completed", "failed", "cancelled"].map { first[0][$0]?.integer } == [
                    1, 60, 54, 6, 0,
                ])
            isMended.value = true
            try await fleet.queue.request(.retried, ofBatch: "b")
            try await eventually("the batch to end again", within: .seconds(30)) {
                try await fleet.queue.batch("b")?.counts[.completed] == count
            }
        }
        // A retried member may end before the next one is queued. So there may be several rounds.
        let all = try await reported()
        #expect(all.map { $0["round"]?.integer } == (1...all.count).map { Int64($0) })
        #expect(all.last?["completed"]?.integer == 60 && all.last?["failed"]?.integer == 0)
    }
}
