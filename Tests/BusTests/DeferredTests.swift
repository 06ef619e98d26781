import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulBus

/// Elements that wait for a host or for a worker of a kind are found like all others.
@Suite struct DeferredTests {
    /// Elements in every place where one may wait: in the queue, held by a worker, for a host, for a kind.
    private func fill(_ f: QueueFixture) async throws {
        try await f.redis.send(Command("HSET", f.queue.keys.limits, "slow", #"{"connections":0}"#))
        for id in ["h1", "h2", "h3"] { try await f.push(#"{"id":"\#(id)","url":"http://slow/\#(id)"}"#) }
        try await f.push(#"{"id":"later","kind":"later","url":"http://h/"}"#)
        try await f.push(#"{"id":"known","url":"http://slow/known","delay":0.01}"#)
        #expect(try await f.claim() == nil)
        for id in ["q1", "q2"] { try await f.push(#"{"id":"\#(id)","url":"http://h/\#(id)"}"#) }
        try await f.redis.send(
            Command("LPUSH", f.queue.keys.held(f.worker.name), #"{"id":"held","url":"http://h/held"}"#))
    }

    private static let all: Set<String> = ["h1", "h2", "h3", "later", "known", "q1", "q2", "held"]

    @Test("every element that is counted is listed, searched and found, and the cause of its wait is named")
    func found() async throws {
        let f = try await QueueFixture()
        try await fill(f)
        let stats = try await f.queue.stats()
        // The job `known` is scheduled or queued by now: its push was delayed.
        let lists = try await f.queue.waitingLists()
        let expected = Self.all.subtracting(["known"])
        #expect(stats.counts[.queued] == expected.count && lists.count == expected.count)
        #expect(try await f.queue.count(in: .queued) == expected.count)
        #expect(Set(try await f.queue.ids(in: .queued, limit: 100)) == expected)
        var paged: [String] = []
        for start in stride(from: 0, to: lists.count, by: 2) {
            paged += try await f.queue.listed(in: .queued, from: start, limit: 2).map(\.id)
        }
        #expect(paged == (try await f.queue.ids(in: .queued, limit: 100)))
        let searched = try await f.queue.waiting(in: lists, from: 0, limit: 100) { _ in true }
        #expect(searched.read == expected.count && Set(searched.jobs.map(\.job.id)) == expected)
        #expect(Set(try await f.queue.waiting(for: Self.all).keys) == expected)
        for id in expected { #expect(try await f.queue.waiting(for: id)?.id == id) }
        #expect(try await f.queue.waiting(for: "h2")?.waitsFor == "host slow (limit connections 0)")
        #expect(try await f.queue.waiting(for: "later")?.waitsFor == "a worker that does jobs of the kind later")
        #expect(try await f.queue.waiting(for: "q1")?.waitsFor == nil)
        #expect(stats.deferred == ["later": 1] && stats.waiting.hosts.map(\.count) == [3])
        #expect(try await f.queue.heads().count == 4)
        try await f.expectOrder()
    }

    @Test("a control operation reaches all jobs that wait, for whichever host, and however large their elements are")
    func operations() async throws {
        let f = try await QueueFixture()
        let hosts = ["a", "b", "c"]
        for host in hosts { try await f.redis.send(Command("HSET", f.queue.keys.limits, host, #"{"connections":0}"#)) }
        let padding = String(repeating: "z", count: 700)
        for host in hosts {
            for n in 0..<250 {
                try await f.push(
                    #"{"id":"\#(host)\#(n)","url":"http://\#(host)/\#(n)","x":"\#(n % 7 == 0 ? padding : "")"}"#)
            }
        }
        while try await f.redis.send(Command("LLEN", f.queue.keys.jobs)).int != 0 {
            #expect(try await f.claim() == nil)
        }
        let wanted = (0..<250).map { "b\($0)" }
        try await f.queue.request(.cancelled, of: wanted)
        // A round takes a number of calls. Another one follows it, because operations came during the first.
        for _ in 0..<400 where try await f.queue.count(in: .cancelled) < wanted.count { try await f.tick() }
        #expect(Set(try await f.queue.ids(in: .cancelled, limit: 1000)) == Set(wanted))
        #expect(try await f.queue.count(in: .queued) == 500)
        try await f.expectOrder()
    }

    @Test("a cancelled element of a kind that no worker knows counts as cancelled in its batch")
    func batch() async throws {
        let f = try await QueueFixture()
        try await f.push(#"{"id":"odd","kind":"odd","url":"http://h/","batch":{"name":"b","size":1,"reply_to":"r"}}"#)
        #expect(try await f.claim() == nil)
        try await f.queue.request(.cancelled, of: ["odd"])
        for _ in 0..<10 where try await f.queue.count(in: .cancelled) == 0 { try await f.tick() }
        #expect(try await f.queue.batch("b")?.counts[.cancelled] == 1)
        let replies = try await f.redis.send(Command("LRANGE", f.queue.keys.prefix + "reply:r", 0, -1)).array ?? []
        #expect(replies.count == 1)
        try await f.expectOrder()
    }

    @Test(
        "a list of deferred elements that no worker would check is found and repaired",
        arguments: ["deferred_hosts", "deferred_kinds"])
    func unnoticed(_ index: String) async throws {
        let f = try await QueueFixture()
        try await fill(f)
        try await f.redis.send(Command("DEL", f.queue.keys.prefix + index))
        let list = f.queue.keys.prefix + (index == "deferred_hosts" ? "deferred_host:slow" : "deferred_kind:later")
        #expect(try await Inspection(f.queue).run(repairing: true).map(\.subject) == [list])
        try await f.expectOrder()
        #expect(try await f.queue.waitingLists().count == 7)
    }

    @Test(
        "a job that is resumed while the elements of its group are looked at again takes no element's place",
        arguments: [true, false])
    func resumed(_ isFirst: Bool) async throws {
        let f = try await QueueFixture()
        let again = #"{"id":"again","url":"http://h/a","group":"acme","batch":"b"}"#
        try await f.push(again)
        let first = try #require(try await f.claim())
        try await f.settle(first, .failed(Failure(.http(500), "m"), retryable: true, received: 0))
        try await f.redis.send(Command("HSET", f.queue.keys.limits, "group:acme", #"{"running":1}"#))
        let others = (0...1).map { #"{"id":"acme-\#($0)","url":"http://h/\#($0)","group":"acme"}"# }
        try await f.push(others[0])
        let running = try #require(try await f.claim())
        // The job waits to be begun anew, beside one that is new.
        try await f.push(isFirst ? [again, others[1]] : [others[1], again])
        #expect(try await f.claim() == nil)
        try await f.queue.request(.cancelled, of: ["unknown"])
        var tick = Tick(f.worker, runs: [(running.run, RunReport())])
        _ = try await f.queue.step(&tick)
        // Now a round is under way. It meets the push after the job has been put into the same list.
        try await f.queue.request(.retried, ofBatch: "b")
        for _ in 0..<5 { try await f.tick([running]) }
        try await f.settle(running, QueueFixture.done)
        var ids: Set<String> = []
        while let claim = try await f.claim() {
            ids.insert(claim.run.id)
            try await f.settle(claim, QueueFixture.done)
        }
        #expect(ids == ["again", "acme-1"])
    }
}
