import HaulBus
import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

/// What is kept of a job that was forgotten.
@Suite struct ForgettingTests {
    private func position(_ f: QueueFixture, _ id: String) async throws -> EventPosition {
        let values = try await f.redis.send(Command("HMGET", f.queue.keys.job(id), "epoch", "seq")).array ?? []
        let numbers = try values.map { try #require($0.string.flatMap { Int64($0) }) }
        return EventPosition(epoch: numbers[0], sequence: numbers[1])
    }

    private func complete(_ f: QueueFixture, _ element: String) async throws {
        try await f.push(element)
        try await f.settle(try #require(try await f.claim()), QueueFixture.done)
    }

    @Test(
        "the events of an id are in order after its removal, and after its tombstone has expired",
        arguments: [true, false])
    func order(_ leavesTombstone: Bool) async throws {
        let f = try await QueueFixture()
        for _ in 1...5 { try await f.push(#"{"url":"http://h/1","id":"1"}"#) }
        let claim = try #require(try await f.claim())
        #expect(try await f.claim() == nil)
        try await f.settle(claim, QueueFixture.done)
        let before = try await position(f, "1")
        if leavesTombstone {
            try await f.queue.request(.removed, of: ["1"])
            try await f.tick()
            #expect(try await position(f, "1") == before)
        } else {
            try await f.redis.send(Command("DEL", f.queue.keys.job("1")))
            try await eventually { try await f.queue.time() > before.sequence }
        }
        try await complete(f, #"{"url":"http://h/1","id":"1"}"#)
        #expect(try await position(f, "1") > before)
        #expect(try await position(f, "1").epoch == before.epoch)
        try await f.expectOrder()
    }

    @Test("a push that is older than a removal counts as removed, and a newer push does not")
    func overtaken() async throws {
        let f = try await QueueFixture()
        try await complete(f, #"{"url":"http://h/1","id":"1"}"#)
        let at = try await f.queue.time()
        #expect(try await f.queue.removed(["1": at]).isEmpty)
        try await f.queue.request(.removed, of: ["1"], at: at)
        try await f.tick()
        #expect(try await f.queue.removed(["1": at, "2": at]) == ["1"])
        #expect(try await f.queue.removed(["1": at + 1]).isEmpty)
        try await f.push(#"{"url":"http://h/1","id":"1","at":\#(at + 1)}"#)
        let claim = try #require(try await f.claim())
        #expect(try await f.queue.removed(["1": at + 1]).isEmpty)
        #expect(try await f.queue.job("1")?.hasEnded(since: at + 1) == false)
        try await f.settle(claim, QueueFixture.done)
        try await eventually { try await f.queue.job("1")?.hasEnded(since: at + 1) == true }
    }

    @Test("a file to be deleted is given to the job's next run, until a run has ended") func pendingDeletion()
        async throws
    {
        let f = try await QueueFixture()
        try await complete(f, #"{"url":"http://h/1","id":"1"}"#)
        try await f.queue.request(.deleted, of: ["1"], at: try await f.queue.time())
        try await f.push(#"{"url":"http://h/1","id":"1"}"#)
        let claim = try #require(try await f.claim())
        let identity = QueueFixture.file.identity
        #expect(
            claim.pendingDeletion?.file == "f" && claim.pendingDeletion?.store == "s"
                && claim.pendingDeletion?.identity == identity)
        #expect(claim.completed == nil && claim.previous == nil)
        // This run has to delete the file.
        #expect(try await f.tick([claim]).dropped.allSatisfy { $0.finished == nil })
        // The job is requeued before it has deleted the file.
        try await f.settle(claim, .released(why: "test"))
        let next = try #require(try await f.claim())
        #expect(next.pendingDeletion == claim.pendingDeletion)
        var report = RunReport()
        report.fields.append(("pending_deletion", ""))
        try await f.queue.settle(next.run, as: QueueFixture.done, report: report, worker: f.worker)
        try await f.push(#"{"url":"http://h/1","id":"1"}"#)
        #expect(try #require(try await f.claim()).pendingDeletion == nil)
        try await f.expectOrder()
    }

    @Test(
        "the file of a removed job is deleted even if its job is pushed again and never runs", arguments: [false, true])
    func neverRuns(_ isCancelled: Bool) async throws {
        let f = try await QueueFixture()
        try await complete(f, #"{"url":"http://h/1","id":"1"}"#)
        try await f.queue.request(.deleted, of: ["1"], at: try await f.queue.time())
        try await f.push(#"{"url":"http://h/1","id":"1","delay":3600}"#)
        #expect(try await f.claim() == nil)
        #expect(try await f.state("1") == .scheduled)
        if isCancelled { try await f.queue.request(.cancelled, of: ["1"]) }
        let dropped = try await f.tick().dropped
        #expect(dropped.map(\.file) == ["f"] && dropped.map(\.finished) == [QueueFixture.file.identity])
        await f.queue.reportUnlinked(dropped)
        try await f.expectOrder()
    }

    @Test("a file is not deleted while a run may replace it, nor if a later file has its identity")
    func laterFile() async throws {
        let f = try await QueueFixture()
        try await complete(f, #"{"url":"http://h/1","id":"1"}"#)
        try await f.queue.request(.deleted, of: ["1"], at: try await f.queue.time())
        try await f.push(#"{"url":"http://h/1","id":"1"}"#)
        let claim = try #require(try await f.claim())
        let deleting = f.queue.keys.deleting("s")
        func entries() async throws -> [String] {
            try await f.redis.send(Command("HKEYS", deleting)).array?.compactMap(\.string) ?? []
        }
        #expect(try await f.tick([claim]).dropped.isEmpty)
        let waiting = try await entries()
        #expect(waiting.count == 1, "the entry waits for the end of the run")
        try await f.settle(claim, .released(why: "test"))
        try await f.redis.send(Command("HSET", deleting, waiting[0], "1"))
        // The job waits for its next run. Now the file may be deleted.
        let dropped = try await f.tick().dropped
        #expect(dropped.map(\.finished) == [QueueFixture.file.identity])
        let next = try #require(try await f.claim())
        #expect(dropped[0].owner(try #require(try await f.queue.job("1"))) == .undecided)
        // With --remote-time a new file may have the inode, size and time of the one that its run has deleted.
        try await f.settle(next, QueueFixture.done)
        #expect(dropped[0].owner(try #require(try await f.queue.job("1"))) == .newer)
        try await f.redis.send(Command("HSET", deleting, waiting[0], "1"))
        #expect(try await f.tick().dropped.isEmpty)
        #expect(try await entries().isEmpty)
        try await f.expectOrder()
    }

    @Test(
        "a job whose new push ends elsewhere still knows its finished file, and deletes it", arguments: [false, true])
    func elsewhere(_ isRemoved: Bool) async throws {
        let f = try await QueueFixture()
        try await complete(f, #"{"url":"http://h/1","id":"1","path":"f"}"#)
        try await f.push(#"{"url":"http://h/1","id":"1","path":"p2"}"#)
        let claim = try #require(try await f.claim())
        var report = RunReport()
        report.fields = [("file", "p2"), ("store", "other"), ("generation", "g")]
        _ = try await f.queue.tick(f.worker, runs: [(claim.run, report)])
        try await f.settle(claim, .cancelled)
        if isRemoved {
            try await f.queue.request(.deleted, of: ["1"])
            let dropped = try await f.tick().dropped
            #expect(dropped.map(\.file) == ["f"] && dropped.map(\.finished) == [QueueFixture.file.identity])
        }
        try await f.push(#"{"url":"http://h/1","id":"1","path":"f"}"#)
        let next = try #require(try await f.claim())
        let (file, store) =
            isRemoved
            ? (next.pendingDeletion?.file, next.pendingDeletion?.store) : (next.completed?.file, next.completed?.store)
        #expect(file == "f" && store == "s")
    }

    @Test("a file to be deleted is known by inode, size and time, in older entries by its inode alone")
    func identity() async throws {
        let f = try await QueueFixture()
        try await complete(f, #"{"url":"http://h/1","id":"1"}"#)
        try await f.queue.request(.deleted, of: ["1"])
        try await f.redis.send(
            Command("LPUSH", f.queue.keys.prefix + "deletions:s", #"["old","g","","7","1763712000000"]"#))
        let dropped = try await f.tick().dropped
        let found = Dictionary(uniqueKeysWithValues: dropped.map { ($0.file, $0.finished) })
        #expect(found == ["f": QueueFixture.file.identity, "g": FinishedIdentity(inode: 7)])
    }

    @Test("a removal and a newer cancel of an unknown job each stop the pushes before them", arguments: [0, 1, 2])
    func betweenOperations(_ push: Int64) async throws {
        let f = try await QueueFixture()
        try await f.tick()
        let at = try await f.queue.time()
        try await eventually { try await f.queue.time() > at + 10 }
        try await f.queue.request(.removed, of: ["1"], at: at + 1)
        try await f.tick()
        try await f.queue.request(.cancelled, of: ["1"], at: at + 3)
        try await f.tick()
        try await f.push(#"{"url":"http://h/1","id":"1","at":\#(at + 2 * push)}"#)
        if push == 2 { #expect(try await f.claim() != nil) } else { #expect(try await f.claim() == nil) }
        #expect(try await f.state("1") == [nil, .cancelled, .running][Int(push)])
        try await f.expectOrder()
    }

    @Test(
        "a completion that waits for replicas is marked `unreplicated` if a push or a removal comes",
        arguments: ["push", "removed", "cancelled"])
    func unreplicated(_ act: String) async throws {
        let f = try await QueueFixture()
        try await f.push(#"{"url":"http://h/1","id":"1","reply_to":"me"}"#)
        let claim = try #require(try await f.claim())
        _ = try await f.queue.settle(
            [RunEnd(claim.run, QueueFixture.done, awaitsReplicas: true)], worker: f.worker, next: [])
        #expect(try await f.redis.send(Command("LLEN", f.queue.keys.reply("me"))).int == 0)
        if act == "push" {
            try await f.push(#"{"url":"http://h/1","id":"1"}"#)
            #expect(try await f.claim() != nil)
        } else {
            try await f.redis.send(Command("HSET", f.queue.keys.want, "1", act))
            try await f.tick()
        }
        let reported = try await f.redis.send(Command("LRANGE", f.queue.keys.reply("me"), 0, -1)).array ?? []
        #expect(reported.count == (act == "cancelled" ? 0 : 1))
        for event in reported {
            #expect(Event(event.bytes ?? [])?["unreplicated"] != nil, "\(event)")
        }
        try await f.expectOrder()
    }

    @Test("`deleted` names the file of the last completion, even if the one before it had the same inode and time")
    func sameIdentity() async throws {
        let f = try await QueueFixture()
        try await complete(f, #"{"url":"http://h/1","id":"1"}"#)
        try await f.push(#"{"url":"http://h/1","id":"1","path":"p2"}"#)
        var file = QueueFixture.file
        file.file = "p2"
        try await f.settle(#require(try await f.claim()), .completed(file, seconds: 1, unchanged: false))
        try await f.queue.request(.deleted, of: ["1"])
        #expect(try await f.tick().dropped.map(\.file) == ["p2"])
    }

    @Test("a job that is pushed again while ended jobs are chosen is not removed with them") func chosen() async throws
    {
        let f = try await QueueFixture()
        try await complete(f, #"{"url":"http://h/1","id":"1"}"#)
        let timestamps = try #require(try await f.queue.timestamps(of: .removed, choosing: [.completed]))
        try await f.push(#"{"url":"http://h/1","id":"1","at":\#(timestamps[0]! + 1)}"#)
        _ = try await f.queue.request(.removed, of: ["1"], at: timestamps)
        try await f.tick()
        #expect(try await f.claim()?.run.id == "1")
        // Jobs that wait or run are to end although they were pushed just now.
        #expect(try await f.queue.timestamps(of: .removed, choosing: [.completed, .queued]) == nil)
        #expect(try await f.queue.timestamps(of: .cancelled, choosing: [.completed]) == nil)
    }

    @Test("an operation with the time of a listing leaves alone a job for which a newer one waits")
    func newerOperation()
        async throws
    {
        let f = try await QueueFixture()
        try await complete(f, #"{"url":"http://h/1","id":"1"}"#)
        let listed = try await f.queue.operationTimestamps()
        try await f.queue.request(.cancelled, of: ["1"])
        #expect(try await f.queue.request(.removed, of: ["1", "2"], at: listed).ids == ["2"])
        let waiting = try await f.redis.send(Command("HGETALL", f.queue.keys.want)).dictionary
        #expect(waiting["1"]?.hasPrefix("cancelled ") == true && waiting["2"]?.hasPrefix("removed ") == true)
    }
}
