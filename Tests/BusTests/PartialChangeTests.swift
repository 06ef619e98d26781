import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulBus

/// A queue of four partitions, and the same queue for a user who may not use the last one: to that user it is like a
/// partition that does not answer.
private struct PartialChangeFixture {
    let base: PartitionFixture
    let limited: Queue

    init() async throws {
        base = try await PartitionFixture(isClocked: false)
        let keys = (0..<3).map { "~haul:{films#\($0)of4}:*" }
        try await base.redis.send(
            Command(arguments: ["ACL", "SETUSER", "limited", "on", ">secret", "+@all", "&*"] + keys))
        limited = Queue(
            QueueName("films#4")!,
            redis: Redis(try RedisURL(base.server.url + "?user=limited&password=secret"), name: "limited"))
    }
}

@Suite("Changes that reach only some partitions") struct PartialChangeTests {
    @Test("a change says which partitions have it, is recorded, and shows until it is repeated") func partial()
        async throws
    {
        let f = try await PartialChangeFixture()
        let queue = f.base.queue
        for (name, value) in [(QueueSetting.paused, "1"), (.maxRunning, "5")] {
            let error = await #expect(throws: RedisError.self) {
                try await f.limited.change(ChangeRecord("set", by: "me", via: .command)) { () throws(RedisError) in
                    try await f.limited.set(name, to: value)
                }
            }
            #expect(error?.isPartial == true && error?.code == .noPermission)
            let message = error?.message ?? ""
            #expect(message.hasPrefix("3 of the 4 partitions of films#4 have the change, but not films#3of4 ("))
            #expect(message.hasSuffix("Make the same change again when all of them answer"), "\(message)")
        }
        for defaults in [QueueDefault(name: "retries")!] {
            await #expect(throws: RedisError.self) { try await f.limited.set(defaults, to: "3") }
        }
        await #expect(throws: RedisError.self) { try await f.limited.setLimit(of: "h", to: #"{"connections":2}"#) }
        #expect(try await queue.changes().count == 2)

        #expect(
            try await queue.differences().map { "\($0.label) \($0.values.map { $0 ?? "-" })" } == [
                #"max_running ["5", "5", "5", "-"]"#, #"paused ["1", "1", "1", "-"]"#,
                #"defaults.retries ["3", "3", "3", "-"]"#,
                #"limits.h ["{\"connections\":2}", "{\"connections\":2}", "{\"connections\":2}", "-"]"#,
            ])
        // The first partition decides nothing.
        try await queue.partitions[0].set(.paused, to: nil)
        let stats = try await queue.stats()
        #expect(stats.isPaused && stats.isPartlyPaused && stats.pausedPartitions == 2)
        #expect(stats.scopeOfPause == " in 2 of 4 partitions")
        #expect(stats.maxRunning == 5 && stats.allowedRunning == nil)
        #expect(try await queue.settings()["paused"] == "1")
        #expect(try await queue.configuration().settings["paused"] == "1")
        #expect(try await queue.startLimits().map(\.isPaused) == [false, true, true, false])

        try await queue.set(.paused, to: "1")
        try await queue.set(.maxRunning, to: "5")
        #expect(try await queue.differences().map(\.label) == ["defaults.retries", "limits.h"])
        let whole = try await queue.stats()
        #expect(whole.isPaused && !whole.isPartlyPaused && whole.scopeOfPause.isEmpty && whole.allowedRunning == 20)
    }

    @Test("jobs of the partitions that are paused are slowed by the pause, and the others are not") func bottleneck()
        async throws
    {
        let f = try await PartialChangeFixture()
        let queue = f.base.queue
        _ = try await f.base.hire("w")
        for number in 0..<12 { try await f.base.push("j\(number)") }
        try await queue.partitions[2].set(.paused, to: "1")
        let queued = try await queue.partitions[2].count(in: .queued)
        let load = QueueLoad(
            stats: try await queue.stats(), workers: [["slots": "4", "seen": "\(try await queue.time())"]],
            settings: [:],
            limits: [:], backoffs: [:], running: [], now: try await queue.time())
        #expect(
            load.bottlenecks.first { $0.cause == .paused } == Bottleneck(.paused, "1 of 4 partitions", queued: queued))
        #expect(queued > 0 && queued < 12)
    }

    @Test("a push reports the jobs that it has pushed when a partition does not answer") func push() async throws {
        let f = try await PartialChangeFixture()
        let elements = try (0..<16).map { try Element(JSON(#"{"url":"http://h/\#($0)","id":"j\#($0)"}"#)) }
        let last = Set(elements.map(\.id).filter { f.base.queue.placement(ofID: $0, inBatch: nil) == 3 })
        #expect(!last.isEmpty && last.count < 16)
        let report = await f.limited.report(ofPushing: elements)
        #expect(report.error?.message.hasPrefix("the partition films#3of4: ") == true)
        #expect(Set(report.timestamps.keys) == Set(elements.map(\.id)).subtracting(last))
        #expect(try await f.base.queue.count(in: .queued) == 16 - last.count)
        await #expect(throws: RedisError.self) { try await f.limited.push(now: elements) }
    }

    @Test("a push of many jobs waits for each call, so that it knows what is pushed if the connection ends")
    func calls() async throws {
        let f = try await QueueFixture()
        let elements = try (0..<1500).map { try Element(JSON(#"{"url":"http://h/","id":"j\#($0)"}"#)) }
        _ = try await f.queue.time()
        let before = f.redis.traffic.roundTrips
        let report = await f.queue.report(ofPushing: elements)
        #expect(report.error == nil && report.timestamps.count == 1500)
        // The time, and three times 500 jobs.
        #expect(f.redis.traffic.roundTrips - before >= 4)
        #expect(try await f.queue.count(in: .queued) == 1500)
    }

    @Test("retries that no worker has applied are known by the times of their requests") func retries() async throws {
        let f = try await PartitionFixture()
        let at = try await f.queue.request(.running, of: ["a"])
        try await f.queue.request(.paused, of: ["b"])
        #expect(try await f.queue.pendingRetries(of: ["a", "b", "c"]).keys.sorted() == ["a"])
        #expect(try await f.queue.pendingRetries(of: ["a"])["a"] ?? 0 <= at)
    }

    @Test("a check reports the schedules of a queue with another number of partitions") func schedules() async throws {
        let f = try await PartitionFixture(isClocked: false)
        _ = try await f.hire("w")
        let other = Queue(QueueName("films#2")!, redis: f.redis)
        try await other.add(try Schedule(#"{"every":3600,"job":{"url":"http://h/x"}}"#), as: "nightly")
        let findings = try await Inspection.findings(of: f.queue).filter { $0.subject == "the queue films#2" }
        #expect(
            findings.map(\.problem) == [
                "0 workers serve it, and 0 of its jobs have not ended, with 1 schedule, beside films#4"
            ])
    }
}
