import HaulBus
import HaulContract
import HaulRedis
import Testing

@testable import HaulWeb

@Suite("A queue of partitions in the API") struct PartitionAPITests {
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
