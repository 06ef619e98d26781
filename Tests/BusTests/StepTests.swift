import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulBus

@Suite("Next steps in Redis") struct StepTests {
    private static let failed = Settlement.failed(
        Failure(.http(404), "gone"), retryable: false, received: 0)

    private func waiting(_ f: QueueFixture) async throws -> [String] {
        try await f.redis.send(Command("LRANGE", f.queue.keys.jobs, 0, -1)).array?.compactMap(\.string) ?? []
    }

    private func settle(_ f: QueueFixture, _ claim: Claim, _ settlement: Settlement) async throws -> Bool {
        let steps = NextSteps(after: settlement, of: try claim.job(), claim.run)
        let end = RunEnd(claim.run, settlement, steps: steps)
        return try await f.queue.settle([end], worker: f.worker, next: []).isOurs[0].get()
    }

    private static let parent =
        #"{"url":"http://h/f","id":"p","then":[{"url":"http://h/${file}"},{"url":"http://h/2","id":"x-${id}"}],"else":{"kind":"request","url":"http://h/?e=${error}"}}"#

    @Test("a settle pushes the steps of its end once, however often it is sent, and the job names them")
    func once() async throws {
        let f = try await QueueFixture()
        try await f.push(Self.parent)
        let claim = try #require(try await f.claim())
        for _ in 0..<3 { #expect(try await settle(f, claim, QueueFixture.done)) }
        let steps = try await waiting(f)
        try #require(steps.count == 2)
        let first = try Job(element: steps[1].utf8)
        #expect(first.urls == ["http://h/f"] && first.id?.hasPrefix("p.then-1.") == true)
        #expect(steps[0] == #"{"url":"http://h/2","id":"x-p"}"#)
        #expect(try await f.queue.job("p")?["steps"] == "\(first.id!) x-p")
        try await f.expectOrder()
    }

    @Test("a failed run pushes else; its retry, and the end after it, push steps with other ids")
    func retried() async throws {
        let f = try await QueueFixture()
        try await f.push(Self.parent)
        #expect(try await settle(f, try #require(try await f.claim()), Self.failed))
        let first = try Job(element: try #require(try await waiting(f).first).utf8)
        #expect(first.kind == .request && first.urls == ["http://h/?e=http_404"])
        try await f.redis.send(Command("DEL", f.queue.keys.jobs))
        try await f.queue.request(.running, of: ["p"])
        try await f.tick()
        let again = try #require(try await f.claim())
        #expect(try await f.queue.job("p")?["steps"] == nil)
        #expect(try await settle(f, again, Self.failed))
        let second = try Job(element: try #require(try await waiting(f).first).utf8)
        #expect(second.id != first.id && second.urls == first.urls)
        try await f.expectOrder()
    }

    @Test(
        "a run that is cancelled, paused, retried or released pushes no steps",
        arguments: ["cancelled", "paused", "retry", "released"])
    func none(_ outcome: String) async throws {
        let f = try await QueueFixture()
        try await f.push(Self.parent)
        let claim = try #require(try await f.claim())
        let failure = Failure(.connect, "no")
        let settlement: Settlement =
            switch outcome {
            case "cancelled": .cancelled
            case "paused": .paused
            case "retry": .retry(after: .seconds(60), failure)
            default: .released(why: "shutdown")
            }
        if outcome == "cancelled" || outcome == "paused" {
            try await f.queue.request(outcome == "paused" ? .paused : .cancelled, of: ["p"])
            try await f.tick([claim])
        }
        #expect(try await settle(f, claim, settlement))
        let steps = try await waiting(f).filter { !$0.contains(#""t":"#) }
        #expect(steps.isEmpty)
        try await f.expectOrder()
    }

    @Test("a worker pushes the else of a job that Redis has failed, once, even if two workers prepare it")
    func owed() async throws {
        let f = try await QueueFixture()
        try await f.push(
            #"{"url":"http://h/f","id":"late","deadline":0,"else":[{"url":"http://h/${id}/${error}"},{"url":"http://h/b","id":"b"}]}"#
        )
        try await f.push(#"{"url":"http://h/f","id":"plain","deadline":0,"meta":"\u0065lse"}"#)
        #expect(try await f.claim() == nil)
        for id in ["late", "plain"] { #expect(try await f.state(id) == .failed) }
        let replies = [try await f.tick(), try await f.tick()]
        #expect(replies.allSatisfy { $0.owedSteps.count == 2 })
        for reply in replies { try await f.queue.push(reply.owedSteps, as: f.worker) }
        let steps = try await waiting(f).map { try Job(element: $0.utf8) }
        #expect(steps.map { $0.urls[0] } == ["http://h/b", "http://h/late/deadline"])
        let names = "\(steps[1].id!) b"
        #expect(try await f.queue.job("late")?["steps"] == names && steps[1].id!.hasPrefix("late.else-1."))
        #expect(try await f.tick().owedSteps.isEmpty)
        #expect(try await f.redis.send(Command("EXISTS", f.queue.keys[.owedSteps])).int == 0)
        try await f.expectOrder()
    }

    @Test("a job that has crashed too often is followed by its else") func crashed() async throws {
        let f = try await QueueFixture { $0.crashLimit = 0 }
        try await f.push(Self.parent)
        let claim = try #require(try await f.claim("lost"))
        try await f.reportActive(claim)
        // The worker has registered again and does not know the run.
        let lost = WorkerIdentity(name: "lost", store: "s", instance: "other")
        try await f.redis.send(Command("HDEL", f.queue.keys.worker("lost"), "instance"))
        _ = try await f.queue.register(lost, fields: [], known: [])
        try #require(try await f.state("p") == .failed)
        let owed = try await f.tick().owedSteps
        try await f.queue.push(owed, as: f.worker)
        #expect(try await waiting(f).map { try Job(element: $0.utf8).urls[0] } == ["http://h/?e=crash_loop"])
        try await f.expectOrder()
    }

    @Test("a job without steps costs its settle no extra command") func free() async throws {
        let f = try await QueueFixture()
        func calls() async throws -> Int {
            let text = try await f.redis.send(Command("INFO", "commandstats")).string ?? ""
            return text.split(whereSeparator: \.isNewline).reduce(0) { sum, line in
                guard !line.hasPrefix("cmdstat_info:"), let first = line.firstRange(of: "calls=") else { return sum }
                return sum + (Int(line[first.upperBound...].prefix { $0 != "," }) ?? 0)
            }
        }
        var counts: [Int] = []
        // The first call also begins an epoch.
        for element in [
            #"{"url":"http://h/z","id":"z"}"#,
            #"{"url":"http://h/a","id":"a"}"#, #"{"url":"http://h/b","id":"b","then":{"url":"http://h/c"}}"#,
        ] {
            try await f.push(element)
            let before = try await calls()
            let claim = try #require(try await f.claim())
            _ = try await settle(f, claim, QueueFixture.done)
            counts.append(try await calls() - before)
        }
        // The step's own LPUSH is all that is added.
        #expect(counts[2] == counts[1] + 1)
    }
}
