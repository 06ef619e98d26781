import HaulBus
import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

/// Pushes and operations of a job count in one order, that of their timestamps.
@Suite struct OrderTests {
    /// Makes a tick, and returns a timestamp after the tick that is in the past by now.
    private func timestamp(_ f: QueueFixture) async throws -> Int64 {
        try await f.tick()
        let timestamp = try await f.queue.time() + 5
        try await eventually { try await f.queue.time() > timestamp + 20 }
        return timestamp
    }

    private func element(_ at: Int64, id: String = "1", _ more: String = "") -> String {
        #"{"url":"http://h/\#(id)","id":"\#(id)","at":\#(at)\#(more)}"#
    }

    /// Pushes a job at `timestamp`, and claims it.
    private func running(_ f: QueueFixture, _ timestamp: Int64) async throws -> Claim {
        try await f.push(element(timestamp))
        return try #require(try await f.claim())
    }

    @Test("a cancel of a thousand ids stops no newer push, however late it is applied") func bulk() async throws {
        let f = try await QueueFixture()
        let ids = (0..<1000).map { "j\($0)" }
        let timestamp = try await timestamp(f)
        try await f.queue.request(.cancelled, of: ids, at: timestamp)
        for id in ids.prefix(500) { try await f.push(element(timestamp + 20, id: id)) }
        var claims = 0
        while try await f.claim() != nil { claims += 1 }
        try await f.tick()
        for id in ids.dropFirst(500) { try await f.push(element(timestamp + 20, id: id)) }
        while try await f.claim() != nil { claims += 1 }
        #expect(claims == 1000)
    }

    @Test(
        "an operation in `want` stops a push that is not newer, and a newer push runs",
        arguments: [ControlOperation.paused, .cancelled, .removed], [Int64(-1), 0, 1])
    func lying(_ operation: ControlOperation, _ difference: Int64) async throws {
        let f = try await QueueFixture()
        let timestamp = try await timestamp(f)
        try await f.queue.request(operation, of: ["1"], at: timestamp)
        try await f.push(element(timestamp + difference))
        #expect((try await f.claim() != nil) == (difference == 1))
        let stopped: JobState? = operation == .paused ? .paused : operation == .cancelled ? .cancelled : nil
        #expect(try await f.state("1") == (difference == 1 ? .running : stopped))
        #expect(try await f.redis.send(Command("HLEN", f.queue.keys.want)).int == 0)
        try await f.expectOrder()
    }

    @Test("a continuation right behind a pause is done after the pause", arguments: [true, false])
    func continuation(isTicked: Bool) async throws {
        let f = try await QueueFixture()
        try await f.push(#"{"url":"http://h/1","id":"1"}"#)
        let claim = try #require(try await f.claim())
        try await f.redis.send(Command("HSET", f.queue.keys.want, "1", "paused"))
        if isTicked { try await f.tick() }
        try await f.push(#"{"id":"1"}"#)
        #expect(try await f.claim() == nil)
        #expect(try await f.tick([claim]).operations.values.first == .paused)
        try await f.settle(claim, .paused)
        #expect(try await f.claim()?.previous == .queued)
        try await f.expectOrder()
    }

    @Test("a push that is kept behind a pause does not run after a later cancel") func takenBack() async throws {
        let f = try await QueueFixture()
        let timestamp = try await timestamp(f)
        let claim = try await running(f, timestamp)
        try await f.queue.request(.paused, of: ["1"], at: timestamp + 1)
        try await f.push(element(timestamp + 2))
        #expect(try await f.claim() == nil)
        try await f.queue.request(.cancelled, of: ["1"], at: timestamp + 3)
        #expect(try await f.tick([claim]).operations.values.first == .cancelled)
        try await f.settle(claim, .cancelled)
        #expect(try await f.claim() == nil)
        #expect(try await f.state("1") == .cancelled)
        try await f.expectOrder()
    }

    @Test("a cancel, a push behind it and a pause behind the push are done in order") func chain() async throws {
        let f = try await QueueFixture()
        let timestamp = try await timestamp(f)
        let claim = try await running(f, timestamp)
        try await f.queue.request(.cancelled, of: ["1"], at: timestamp + 1)
        try await f.push(element(timestamp + 2, #","retries":9"#))
        #expect(try await f.claim() == nil)
        try await f.queue.request(.paused, of: ["1"], at: timestamp + 3)
        #expect(try await f.tick([claim]).operations.values.first == .cancelled)
        try await f.settle(claim, .cancelled)
        #expect(try await f.state("1") == .paused)
        try await f.queue.request(.running, of: ["1"])
        try await f.tick()
        #expect(try await f.claim()?.job().retries == 9)
        try await f.expectOrder()
    }

    @Test(
        "a push behind a cancel is done although the run ended by itself first",
        arguments: [ControlOperation.cancelled, .removed, .deleted])
    func endedFirst(_ operation: ControlOperation) async throws {
        let f = try await QueueFixture()
        let timestamp = try await timestamp(f)
        let claim = try await running(f, timestamp)
        try await f.queue.request(operation, of: ["1"], at: timestamp + 1)
        try await f.push(element(timestamp + 2))
        #expect(try await f.claim() == nil)
        try await f.settle(claim, QueueFixture.done)
        // The old file is deleted even if the push never runs.
        #expect(try await f.tick().dropped.count == (operation == .deleted ? 1 : 0))
        #expect(try await f.claim() != nil)
        try await f.expectOrder()
    }

    @Test("after a removal and a continuation behind it, a later cancel still leaves the job forgotten")
    func continued() async throws {
        let f = try await QueueFixture()
        let timestamp = try await timestamp(f)
        let claim = try await running(f, timestamp)
        try await f.queue.request(.removed, of: ["1"], at: timestamp + 1)
        try await f.push(#"{"id":"1"}"#)
        #expect(try await f.claim() == nil)
        try await f.queue.request(.cancelled, of: ["1"])
        #expect(try await f.tick([claim]).operations.values.first == .removed)
        try await f.settle(claim, .cancelled)
        #expect(try await f.claim() == nil)
        #expect(try await f.state("1") == nil)
        try await f.expectOrder()
    }

    @Test(
        "a push newer than a removal is done although the run ended before the push was claimed",
        arguments: [ControlOperation.removed, .deleted], [true, false])
    func endedMeanwhile(_ operation: ControlOperation, isReceived: Bool) async throws {
        let f = try await QueueFixture()
        let timestamp = try await timestamp(f)
        let claim = try await running(f, timestamp)
        try await f.queue.request(operation, of: ["1"], at: timestamp + 1)
        if isReceived { #expect(try await f.tick([claim]).operations.values.first == operation) }
        try await f.settle(claim, QueueFixture.done)
        if !isReceived { try await f.tick() }
        #expect(try await f.state("1") == nil)
        try await f.push(element(timestamp + 1))
        try await f.push(element(timestamp))
        #expect(try await f.claim() == nil)
        try await f.push(element(timestamp + 2))
        #expect(try await f.claim() != nil)
        try await f.expectOrder()
    }

    @Test("a waiting push from after the last tick is newer than a removal without a time")
    func untimedRemoval() async throws {
        let f = try await QueueFixture()
        let timestamp = try await timestamp(f)
        let claim = try await running(f, timestamp)
        try await f.redis.send(Command("HSET", f.queue.keys.want, "1", "removed"))
        try await f.settle(claim, QueueFixture.done)
        try await f.push(element(timestamp + 2))
        #expect(try await f.claim() != nil)
        try await f.expectOrder()
    }

    @Test("a repeat of a push that a run's end settled starts nothing, also after a removal")
    func settledPush() async throws {
        let f = try await QueueFixture()
        let timestamp = try await timestamp(f)
        let claim = try await running(f, timestamp)
        try await f.settle(claim, QueueFixture.done)
        try await f.push(element(timestamp + 2))
        #expect(try await f.claim() == nil)
        // This removal is applied after a newer push was claimed, so it changes nothing.
        try await f.queue.request(.removed, of: ["1"], at: timestamp + 1)
        try await f.tick()
        #expect(try await f.state("1") == .completed)
        try await f.queue.request(.removed, of: ["1"], at: timestamp + 3)
        try await f.tick()
        try await f.push(element(timestamp + 2))
        #expect(try await f.claim() == nil)
        #expect(try await f.state("1") == nil)
        try await f.expectOrder()
    }

    @Test(
        "a producer's repeat starts nothing after a cancel or removal, even if its clock is ahead",
        arguments: [ControlOperation.cancelled, .removed], [Int64(0), 60_000])
    func repeated(_ operation: ControlOperation, _ ahead: Int64) async throws {
        let f = try await QueueFixture()
        try await f.tick()
        let element = element(try await f.queue.time() + ahead)
        try await f.push(element)
        let claim = try #require(try await f.claim())
        // This operation has no time. The push was claimed just now, after the last tick.
        try await f.redis.send(Command("HSET", f.queue.keys.want, "1", operation.rawValue))
        try await f.tick([claim])
        try await f.settle(claim, .cancelled)
        for _ in 0..<2 {
            try await f.push(element)
            #expect(try await f.claim() == nil)
        }
        try await f.push(#"{"url":"http://h/1","id":"1"}"#)
        #expect(try await f.claim() != nil)
        try await f.expectOrder()
    }

    @Test("a newer push changes the URLs and headers of an unfinished job, and nothing else")
    func renewed() async throws {
        let f = try await QueueFixture()
        let checksum = "md5:900150983cd24fb0d6963f7d28e17f72"
        try await f.push(#"{"url":"http://h/1","id":"1","checksum":"\#(checksum)","size":3,"meta":7,"path":"a"}"#)
        var claim = try #require(try await f.claim())
        let newer = #"{"url":"http://h/1?2","id":"1","headers":{"A":"b"},"size":4,"meta":8,"path":"b"}"#
        // It is pushed while the job runs, and in the second round while the job is paused.
        try await f.push(newer)
        #expect(try await f.claim() == nil)
        for round in 0..<2 {
            try await f.queue.request(.paused, of: ["1"])
            try await f.tick([claim])
            try await f.settle(claim, .paused)
            if round == 0 { try await f.queue.request(.running, of: ["1"]) } else { try await f.push(newer) }
            try await f.tick()
            claim = try #require(try await f.claim())
            let job = try claim.job()
            #expect(job.checksum == Job.Checksum(checksum) && job.size == 3 && job.path == "a")
            #expect(job.urls == ["http://h/1?2"] && job.headers.first?.value == "b")
            #expect(try await f.queue.job("1")?["meta"] == "7")
        }
        try await f.settle(claim, QueueFixture.done)
        try await f.push(newer)
        let job = try #require(try await f.claim()).job()
        #expect(job.checksum == nil && job.size == 4 && job.path == "b")
        #expect(try await f.queue.job("1")?["meta"] == "8")
        try await f.expectOrder()
    }

    @Test("files to delete in a store that no worker serves delay no operation, and newer files are kept")
    func unserved() async throws {
        let f = try await QueueFixture()
        let ids = (0..<300).map { "j\($0)" }
        for id in ids { try await f.push(element(JobField.timestamps.lowerBound, id: id)) }
        while let claim = try await f.claim() { try await f.settle(claim, QueueFixture.done) }
        let other = WorkerIdentity(name: "w2", store: "other")
        try await f.queue.request(.deleted, of: ids)
        try await f.push(#"{"url":"http://h/p","id":"p"}"#)
        let claim = try #require(try await f.claim())
        while try await f.queue.tick(other, fields: [], runs: []).hasMoreWork {}
        #expect(try await f.redis.send(Command("HLEN", f.queue.keys.want)).int == 0)
        #expect(try await f.redis.send(Command("LLEN", f.queue.keys.prefix + "deletions:s")).int == 300)
        try await f.queue.request(.paused, of: ["p"])
        #expect(try await f.queue.tick(other, fields: [], runs: [(claim.run, RunReport())]).operations.count == 1)
        let findings = try await Inspection(f.queue).run()
        #expect(findings.isEmpty)
        // An entry that has waited for long.
        let list = f.queue.keys.prefix + "deletions:elsewhere"
        try await f.redis.send(Command("RPUSH", list, #"["j","f","g","","1000"]"#))
        #expect(try await Inspection(f.queue).run().map(\.subject) == [list])
        // One job is pushed again, and completes with its file.
        try await f.push(#"{"url":"http://h/j7","id":"j7"}"#)
        let again = try #require(try await f.claim())
        try await f.settle(again, QueueFixture.done)
        var dropped: [DroppedFile] = []
        for _ in 0..<20 where dropped.count < 299 { dropped += try await f.tick().dropped }
        #expect(Set(dropped.map(\.id)) == Set(ids).subtracting(["j7"]))
        #expect(try await f.state("j7") == .completed)
    }

    @Test("a job that returns to the queue when its run ends delays no other element") func front()
        async throws
    {
        let f = try await QueueFixture()
        let claim = try await running(f, JobField.timestamps.lowerBound)
        try await f.queue.request(.removed, of: ["1"])
        try await f.tick()
        // This push is kept behind the operation.
        try await f.push(#"{"url":"http://h/1","id":"1"}"#)
        #expect(try await f.claim() == nil)
        try await f.push(#"{"url":"http://h/x","id":"x"}"#)
        let next = try await f.queue.settle(claim.run, as: QueueFixture.done, worker: f.worker, next: Token.make()).next
        guard case .job(let first) = next else { return #expect(Bool(false), "a job waits") }
        #expect(first.run.id == "1")
        #expect(try await f.claim()?.run.id == "x")
        #expect(try await f.claim() == nil)
        try await f.expectOrder()
    }

    @Test("a cancel right after a pause removes the partial file") func partial() async throws {
        let f = try await QueueFixture()
        let claim = try await running(f, JobField.timestamps.lowerBound)
        try await f.queue.request(.paused, of: ["1"])
        #expect(try await f.tick([claim]).operations.values.first == .paused)
        try await f.queue.request(.cancelled, of: ["1"])
        try await f.tick()
        var report = RunReport()
        report.set(
            ResumePoint(
                generation: "g", store: "s", file: "f", entity: Entity(etag: "\"e\"", total: 9), source: "u",
                offsets: ByteIntervals([0..<4])))
        _ = try await f.queue.settle(claim.run, as: .paused, report: report, worker: f.worker)
        #expect(try await f.state("1") == .cancelled)
        let dropped = try await f.tick().dropped
        #expect(dropped.map(\.generation) == ["g"] && dropped.first?.finished == nil)
    }

    @Test("our own pushes get times by Redis' clock, and keep their ids") func stamps() async throws {
        let f = try await QueueFixture()
        let first = try await f.queue.timestamp(of: .operation)
        let element = try Element(JSON(#"{"url":"http://h/1","headers":{"A":"b"}}"#))
        try await f.queue.push(now: [element])
        let text = try #require(try await f.redis.send(Command("LINDEX", f.queue.keys.jobs, 0)).string)
        let at = try #require(try JSON(text)["at"]?.integer)
        #expect(at > first)
        #expect(try await f.claim()?.run.id == element.id)
    }

    @Test("a cancel that no tick has applied is not undone by a later push of a job whose group has a limit")
    func cancelInFrontOfLimitedGroup() async throws {
        let f = try await QueueFixture()
        try await f.redis.send(Command("HSET", f.queue.keys.limits, "group:g", #"{"running":1}"#))
        let element = #"{"url":"http://h/1","id":"1","group":"g"}"#
        try await f.push(element)
        let claim = try #require(try await f.claim())
        try await f.queue.request(.cancelled, of: ["1"])
        try await f.push(element)
        // Sorts the push into the list of its group.
        #expect(try await f.claim() == nil)
        #expect(try await f.tick([claim]).operations[claim.run.token] == .cancelled)
        try await f.settle(claim, .cancelled)
        // The push was newer, so the job runs once more.
        #expect(try await f.claim()?.run.id == "1")
        try await f.expectOrder()
    }
}
