import HaulBus
import HaulContract
import HaulHTTPServer
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulWeb

@Suite("A queue of partitions in the API") struct PartitionAPITests {
    @Test("a client that comes back gets what another partition has published a little earlier, too")
    func lastEvent() async throws {
        let fixture = try await WebFixture { $0.queues = [QueueName("films#2")!] }
        let server = HTTPServer { await fixture.web.decide($0) }
        let address = try await server.listen(on: ListenAddress("127.0.0.1:0")!)
        for (partition, events) in [(0, [("a", 10_000), ("b", 15_000)]), (1, [("c", 11_000), ("d", 14_000)])] {
            for (id, at) in events {
                try await fixture.server.cli(
                    "XADD", "haul:{films#\(partition)of2}:log", "\(at)-0", "event", "completed", "id", id, "data",
                    #"{"v":1,"event":"completed","id":"\#(id)","at":\#(at)}"#)
            }
        }
        let client = try RawClient(address)
        await client.send(
            "GET /api/queues/films%232/events HTTP/1.1\r\nHost: localhost\r\nLast-Event-ID: 15000\r\n\r\n")
        let text = await client.read(until: #""id":"b""#)
        #expect(text.contains(#""id":"d""#) && !text.contains(#""id":"c""#), "\(text)")
        await server.stop()
    }

    @Test("a page of batches far down the list reads only its own batches") func batches() async throws {
        let fixture = try await WebFixture { $0.queues = [QueueName("films#2")!] }
        let queue = Queue(QueueName("films#2")!, redis: fixture.queue.redis)
        for number in 0..<60 {
            let keys = queue.partitions[queue.placement(ofID: "x", inBatch: "b\(number)")].keys
            try await queue.redis.send(Command("HSET", keys.batch("b\(number)"), "created", 1000 + number))
            try await queue.redis.send(Command("ZADD", keys.batches, 1000 + number, "b\(number)"))
        }
        func reads() async throws -> Int {
            let text = try await fixture.server.cli("INFO", "commandstats")
            return text.firstMatch(of: /cmdstat_hgetall:calls=(\d+)/).flatMap { Int($0.1) } ?? 0
        }
        let before = try await reads()
        let page = await fixture.get("/api/queues/films%232/batches?from=40&limit=10").json
        let names = page?["batches"]?.array?.compactMap { $0["name"]?.string }
        #expect(names == (10..<20).reversed().map { "b\($0)" }, "\(names ?? [])")
        #expect(page?["next"]?.integer == 50 && page?["total"]?.integer == 60)
        #expect(try await reads() - before <= 10)
    }

    @Test("a pause and settings that have not reached all partitions are shown, whichever partition has them")
    func partial()
        async throws
    {
        let fixture = try await WebFixture { $0.queues = [QueueName("films#4")!] }
        let queue = Queue(QueueName("films#4")!, redis: fixture.queue.redis)
        try await queue.partitions[3].set(.paused, to: "1")
        try await queue.partitions[2].setLimit(of: "h", to: #"{"connections":2}"#)
        let overview = await fixture.get("/api/queues/films%234").json
        #expect(overview?["paused"]?.bool == true && overview?["paused_partitions"]?.integer == 1)
        let settings = await fixture.get("/api/queues/films%234/settings").json
        #expect(settings?["paused"]?.bool == true)
        #expect(settings?["differs"]?.array?.compactMap(\.string) == ["limits.h", "paused"])
        let changed = await fixture.send(
            "PATCH", "/api/queues/films%234/settings", #"{"paused":true,"limits":{"h":null}}"#)
        #expect(changed.status == 200 && changed.json?["differs"] == nil, "\(changed)")
        #expect(await fixture.get("/api/queues").json?["queues"]?.array?.first?["paused"]?.bool == true)
    }

    @Test("the partitions are one queue, whose jobs are pushed, listed, found and cancelled") func life() async throws {
        let fixture = try await WebFixture { $0.queues = [QueueName("films#4")!] }
        let queue = Queue(QueueName("films#4")!, redis: fixture.queue.redis)
        let path = "/api/queues/films%234"
        for partition in queue.partitions { _ = try await partition.register(fixture.worker, fields: [], known: []) }
        for number in 0..<12 {
            let pushed = await fixture.send(
                "POST", path + "/jobs", #"{"url":"http://h/\#(number)","id":"j\#(number)"}"#)
            #expect(pushed.status == 202, "\(pushed)")
        }
        let waiting = await fixture.get(path + "/jobs?state=queued")
        #expect(waiting.json?["total"]?.integer == 12 && waiting.json?["jobs"]?.array?.count == 12, "\(waiting)")
        let cancelled = await fixture.send("POST", path + "/control", #"{"action":"cancel","ids":["j3"]}"#)
        #expect(cancelled.status == 202, "\(cancelled)")
        for partition in queue.partitions {
            var tick = Tick(fixture.worker, runs: [])
            try await partition.perform(&tick)
            while case .job(let claim) = try await partition.claim(fixture.worker, tokens: [Token.make()]).first {
                let end = RunEnd(claim.run, WebFixture.done, RunReport())
                _ = try await partition.settle([end], worker: fixture.worker, next: [])
            }
        }
        let overview = await fixture.get(path)
        #expect(overview.json?["queue"]?.string == "films#4")
        #expect(overview.json?.at("counts", "completed")?.integer == 11, "\(overview)")
        #expect(overview.json?.at("counts", "cancelled")?.integer == 1)
        #expect(overview.json?.at("workers", "working")?.integer == 1)
        var (ids, next): ([String], Int64?) = ([], 0)
        while let start = next {
            let page = await fixture.get(path + "/jobs?state=completed&limit=4&from=\(start)")
            ids += (page.json?["jobs"]?.array ?? []).compactMap { $0["id"]?.string }
            next = page.json?["next"]?.integer
            if ids.count > 20 { break }
        }
        #expect(Set(ids) == Set((0..<12).map { "j\($0)" }).subtracting(["j3"]) && ids.count == 11, "\(ids)")
        #expect(await fixture.get(path + "/jobs/j3").json?["state"]?.string == "cancelled")
        #expect(await fixture.get("/api/queues").text.contains(#""queue":"films#4""#))
    }
}
