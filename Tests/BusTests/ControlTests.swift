import HaulBus
import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

@Suite struct ControlTests {
    @Test(
        "a removal forgets a job in every state, and keeps its finished file unless it is `deleted`",
        arguments: [
            ControlOperation.removed, .deleted,
        ])
    func removal(_ operation: ControlOperation) async throws {
        let f = try await QueueFixture()
        func isForgotten(_ id: String) async throws -> Bool {
            try await eventually {
                try await f.tick(); return try await f.queue.job(id) == nil
            }
            // A tombstone recognizes earlier pushes for an hour.
            let keys = try await f.redis.send(Command("KEYS", "*:\(id)")).array?.compactMap(\.string)
            return keys == [f.queue.keys.job(id)]
        }
        // Completed.
        try await f.push(#"{"url":"http://h/1","id":"1"}"#)
        try await f.settle(try #require(try await f.claim()), QueueFixture.done)
        try await f.queue.request(operation, of: ["1"])
        let dropped = try await f.tick().dropped
        #expect(dropped.first?.file == (operation == .deleted ? "f" : nil))
        #expect(dropped.first?.finished == (operation == .deleted ? QueueFixture.file.identity : nil))
        #expect(try await isForgotten("1"))
        // Scheduled, paused and failed.
        try await f.push(#"{"url":"http://h/2","id":"2","delay":1000}"#)
        try await f.push(#"{"url":"http://h/3","id":"3"}"#)
        try await f.push(#"{"url":"http://h/4","id":"4"}"#)
        let third = try #require(try await f.claim())
        try await f.queue.request(.paused, of: ["3"])
        try await f.tick([third])
        try await f.settle(third, .paused)
        try await f.settle(
            try #require(try await f.claim()), .failed(Failure(.io, "m"), retryable: true, received: 0))
        try await f.queue.request(operation, of: ["2", "3", "4"])
        for id in ["2", "3", "4"] { #expect(try await isForgotten(id)) }
        // Running: the run is stopped first.
        try await f.push(#"{"url":"http://h/5","id":"5"}"#)
        let running = try #require(try await f.claim())
        try await f.queue.request(operation, of: ["5"])
        #expect(try await f.tick([running]).operations[running.run.token] == operation)
        try await f.settle(running, .cancelled)
        #expect(try await isForgotten("5"))
        // Running: the run completes before it receives the operation.
        try await f.push(#"{"url":"http://h/6","id":"6"}"#)
        let quick = try #require(try await f.claim())
        try await f.queue.request(operation, of: ["6"])
        try await f.tick([quick])
        try await f.settle(quick, QueueFixture.done)
        #expect(try await isForgotten("6"))
        // Queued: no worker has claimed the element yet.
        try await f.push(#"{"url":"http://h/7","id":"7"}"#)
        try await f.queue.request(operation, of: ["7"])
        try await f.tick()
        #expect(try await f.claim() == nil)
        #expect(try await isForgotten("7"))
        try await f.expectOrder()
    }

    @Test("a finished file is deleted by a worker of its own store") func otherStore() async throws {
        let f = try await QueueFixture()
        try await f.push(#"{"url":"http://h/1","id":"1"}"#)
        try await f.settle(try #require(try await f.claim()), QueueFixture.done)
        try await f.queue.request(.deleted, of: ["1"])
        let elsewhere = WorkerIdentity(name: "w2", store: "other")
        #expect(try await f.queue.tick(elsewhere, fields: [], runs: []).dropped.isEmpty)
        #expect(try await f.queue.job("1") == nil)
        #expect(try await f.tick().dropped.count == 1)
        #expect(try await f.tick().dropped.isEmpty)
        try await f.expectOrder()
    }

    @Test("a file to be deleted is given to workers again until one confirms the deletion")
    func givenAgain() async throws {
        let f = try await QueueFixture()
        try await f.push(#"{"url":"http://h/1","id":"1"}"#)
        try await f.settle(try #require(try await f.claim()), QueueFixture.done)
        try await f.queue.request(.deleted, of: ["1"])
        let given = try #require(try await f.tick().dropped.first)
        let dropping = f.queue.keys.deleting("s")
        #expect(try await Inspection(f.queue).run().isEmpty)
        // As if its worker had died a while ago.
        let now = try await f.queue.time()
        try await f.redis.send(Command("HSET", dropping, given.entry, now - 11_000))
        let again = try await f.tick().dropped
        #expect(again.map(\.finished) == [QueueFixture.file.identity])
        #expect(try await f.tick().dropped.isEmpty)
        await f.queue.reportUnlinked(again)
        #expect(try await f.redis.send(Command("EXISTS", dropping)).int == 0)
        // An entry that cannot be read is dropped.
        for entry in ["nonsense", "5", #"["1"]"#, "{}"] {
            try await f.redis.send(Command("HSET", dropping, entry, "1"))
        }
        #expect(try await Inspection(f.queue).run().map(\.subject) == [dropping])
        #expect(try await f.tick().dropped.isEmpty)
        #expect(try await f.redis.send(Command("EXISTS", dropping)).int == 0)
    }

    @Test("a pause stops a running job, and a resume puts the job at the front of the queue") func pause() async throws
    {
        let f = try await QueueFixture()
        try await f.push(#"{"url":"http://h/1","id":"1"}"#)
        let claim = try #require(try await f.claim())
        try await f.redis.send(Command("HSET", f.queue.keys.want, "1", "paused"))
        #expect(try await f.tick([claim]).operations[claim.run.token] == .paused)
        try await f.settle(claim, .paused)
        #expect(try await f.state("1") == .paused)
        try await f.push(#"{"url":"http://h/2","id":"2"}"#)
        try await f.queue.request(.running, of: ["1"])
        try await f.tick()
        #expect(try await f.claim()?.run.id == "1")
        #expect(try await f.redis.send(Command("HLEN", f.queue.keys.want)).int == 0)
        try await f.expectOrder()
    }

    @Test("a pause of an unknown job applies to its first push") func early() async throws {
        let f = try await QueueFixture()
        try await f.queue.request(.paused, of: ["1"])
        try await f.tick()
        try await f.push(#"{"url":"http://h/1","id":"1"}"#)
        #expect(try await f.claim() == nil)
        #expect(try await f.state("1") == .paused)
        #expect(try await f.redis.send(Command("TTL", f.queue.keys.job("1"))).int == -1)
        try await f.expectOrder()
    }

    @Test("a cancel of an ended job is ignored, and a continuation of an unknown job is rejected")
    func ignored() async throws {
        let f = try await QueueFixture()
        try await f.push(#"{"url":"http://h/1","id":"1"}"#)
        try await f.settle(try #require(try await f.claim()), QueueFixture.done)
        try await f.queue.request(.cancelled, of: ["1"])
        try await f.tick()
        #expect(try await f.state("1") == .completed)
        try await f.push(#"{"id":"unknown"}"#)
        #expect(try await f.claim() == nil)
        #expect(try await f.queue.rejected(limit: 1).first?.contains("no job unknown") == true)
        try await f.expectOrder()
    }

    @Test("a pushed continuation resumes a paused job with its offsets") func continuation() async throws {
        let f = try await QueueFixture()
        try await f.push(#"{"url":"http://h/1","id":"1","meta":{"k":[]}}"#)
        let claim = try #require(try await f.claim())
        let digest = Job.Checksum("md5:900150983cd24fb0d6963f7d28e17f72")
        var report = RunReport()
        report.set(
            ResumePoint(
                generation: "g", store: "s", file: "f", entity: Entity(etag: "\"e\"", total: 9, digest: digest),
                source: "u", isMixed: true,
                offsets: ByteIntervals([0..<4])))
        try await f.queue.request(.paused, of: ["1"])
        try await f.tick([claim])
        _ = try await f.queue.settle(claim.run, as: .paused, report: report, worker: f.worker, next: nil)
        try await f.push(#"{"id":"1"}"#)
        #expect(
            try await f.queue.register(
                WorkerIdentity(name: "other", store: "s", instance: "other"), fields: [], known: []))
        let again = try #require(try await f.claim("other"))
        #expect(again.previous == .paused)
        #expect(again.resume?.offsets.intervals == [0..<4])
        #expect(again.resume?.entity.etag == "\"e\"")
        #expect(again.resume?.entity.digest == digest)
        #expect(again.resume?.isMixed == true)
        #expect(try await f.queue.job("1")?["meta"] == #"{"k":[]}"#)
        try await f.expectOrder()
    }

    @Test("an operation whose job id is not UTF-8 is rejected in valid JSON") func encoding() async throws {
        let f = try await QueueFixture()
        for id in [[0xE9], Array("a".utf8) + Array(repeating: Array("ü".utf8), count: 64).joined()] as [[UInt8]] {
            try await f.redis.send(Command("HSET", f.queue.keys.want, id, "paused"))
            try await f.tick()
            let entry = try await f.redis.send(Command("LINDEX", f.queue.keys.rejected, 0)).bytes ?? []
            let text = try #require(String(validating: entry, as: UTF8.self))
            #expect(try JSON(text)["reason"]?.string?.contains("not a valid job id") == true, "\(text)")
        }
    }
}
