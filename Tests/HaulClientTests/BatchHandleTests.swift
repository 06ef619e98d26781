import Glibc
import HaulClient
import HaulTestSupport
import Testing

@Suite("Batches in the client") struct BatchHandleTests {
    @Test("a batch has a status, a result, an event and a reply, and its failed jobs can be retried")
    func ends() async throws {
        let bench = try await ClientBench()
        let queue = try bench.queue()
        let batch = queue.batch("night")
        #expect(try await batch.status() == nil)
        let jobs = ["/a", "/b", "/missing"].map { path in
            var job = bench.job(path, id: "j" + path.dropFirst())
            job.batch = Job.Batch("night", size: 3, replyTo: "me")
            return job
        }
        let ended = Task<Event?, any Error> {
            for try await update in queue.events {
                if case .event(let event) = update, event.kind == .batchEnded { return event }
            }
            return nil
        }
        try await eventually("the subscription to all events") { try await bench.server.cli("PUBSUB", "NUMPAT") == "1" }
        try await queue.push(jobs)
        async let before = batch.result(timeout: .seconds(60))
        let worker = try bench.worker()
        let status = try await before
        #expect(status.hasEnded && status.round == 1 && status.size == 3)
        #expect((status.pending, status.completed, status.failed, status.cancelled, status.rejected) == (0, 2, 1, 0, 0))
        #expect(try await batch.status() == status)
        let event = try #require(try await value(of: ended))
        #expect(event.batch == "night" && event.round == 1 && event.json["failed"]?.integer == 1)
        var replies = try queue.replies(to: "me").makeAsyncIterator()
        let reply = try #require(try await replies.next())
        #expect(reply.id == "night" && reply.end == .batch(status))
        try await reply.acknowledge()
        try await batch.retry()
        let again = try await batch.result(after: 1, timeout: .seconds(30))
        #expect(again.round == 2 && again.failed == 1)
        await #expect { try await batch.result(after: 2, timeout: .milliseconds(200)) } throws: {
            ($0 as? HaulError)?.code == .timedOut
        }
        await queue.close()
        worker.kill(SIGTERM)
        _ = try await worker.wait()
    }

    @Test("a paused batch also pauses members that come later, and can be resumed and cancelled")
    func steering() async throws {
        let bench = try await ClientBench()
        let queue = try bench.queue()
        let batch = queue.batch("night")
        let worker = try bench.worker()
        func push(_ id: String) async throws {
            var job = bench.job("/held/\(id)", id: id)
            job.batch = Job.Batch("night")
            try await queue.push(job)
        }
        try await push("a")
        try await bench.wait("a", for: "running")
        try await batch.pause()
        try await bench.wait("a", for: "paused")
        try await push("b")
        try await bench.wait("b", for: "paused")
        try await batch.resume()
        for id in ["a", "b"] { try await bench.wait(id, for: "running") }
        try await batch.cancel()
        for id in ["a", "b"] { try await bench.wait(id, for: "cancelled") }
        let status = try #require(try await batch.status())
        #expect((status.pending, status.cancelled, status.hasEnded) == (0, 2, false))
        await queue.close()
        worker.kill(SIGTERM)
        _ = try await worker.wait()
    }
}
