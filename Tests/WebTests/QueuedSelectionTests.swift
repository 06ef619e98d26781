import HaulBus
import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulWeb

/// Which waiting jobs a list shows, and which ones an action for a filter selects.
@Suite struct QueuedSelectionTests {
    private func ids(_ fixture: WebFixture, _ query: String) async -> [String] {
        let page = await fixture.get(WebFixture.jobs + "?state=queued" + query).json
        return page?["jobs"]?.array?.compactMap { $0["id"]?.string } ?? []
    }

    /// Cancels what `selection` selects. Returns `requested`, and the ids in `want`.
    private func cancel(_ fixture: WebFixture, _ selection: String) async throws -> (Int64?, Set<String>) {
        let body = #"{"action":"cancel","where":{"state":"queued"\#(selection)}}"#
        let response = await fixture.send("POST", WebFixture.control, body)
        #expect(response.json?["more"] == .bool(false), "\(response)")
        let want = try await fixture.queue.redis.send(Command("HGETALL", fixture.queue.keys.want)).dictionary
        return (response.json?["requested"]?.integer, Set(want.keys))
    }

    @Test(
        "a repeated push of a job that runs, is paused or is scheduled does not count as queued; two pushes are one job"
    )
    func repeated() async throws {
        let fixture = try await WebFixture()
        for id in ["running", "paused", "scheduled", "failed"] {
            _ = await fixture.push(#"{"url":"http://h/\#(id)","id":"\#(id)"}"#)
            let claim = try #require(try await fixture.claim())
            switch id {
            case "paused":
                try await fixture.queue.request(.paused, of: [id])
                try await fixture.tick([claim])
                try await fixture.settle(claim, .paused)
            case "scheduled":
                try await fixture.settle(claim, .retry(after: .seconds(600), Failure(.connect, "no")))
            case "failed":
                try await fixture.settle(claim, .failed(Failure(.http(404), "gone"), retryable: false, received: 0))
            default: break
            }
        }
        for id in ["running", "paused", "scheduled", "failed", "new", "new"] {
            _ = await fixture.push(#"{"url":"http://h/\#(id)","id":"\#(id)"}"#)
        }
        for query in ["", "&q=h", "&sort=name"] {
            #expect(Set(await ids(fixture, query)) == ["failed", "new"], "\(query)")
        }
        let (requested, wanted) = try await cancel(fixture, "")
        #expect(requested == 2 && wanted == ["failed", "new"], "\(wanted)")
    }

    @Test("a repeated push of a job that has ended or was removed does not count as queued, and no action selects it")
    func repeatedEnds() async throws {
        let fixture = try await WebFixture()
        let queue = fixture.queue
        var elements: [String] = []
        for id in ["completed", "failed", "removed"] {
            let at = try await queue.time()
            elements.append(#"{"url":"http://h/\#(id)","id":"\#(id)","at":\#(at)}"#)
            try await queue.redis.send(Command("LPUSH", queue.keys.jobs, elements.last ?? ""))
            let claim = try #require(try await fixture.claim())
            switch id {
            case "failed":
                try await fixture.settle(claim, .failed(Failure(.http(404), "gone"), retryable: false, received: 0))
            default: try await fixture.settle(claim, WebFixture.done)
            }
        }
        // One push has the time of a clock that is ahead.
        let ahead = #"{"url":"http://h/ahead","id":"ahead","at":\#(try await queue.time() + 60_000)}"#
        try await queue.redis.send(Command("LPUSH", queue.keys.jobs, ahead))
        try await fixture.settle(try #require(try await fixture.claim()), WebFixture.done)
        try await queue.request(.removed, of: ["removed"])
        try await fixture.tick()
        // A service that was down pushes what it has as open again, and one job anew.
        let new = #"{"url":"http://h/failed","id":"failed","at":\#(try await queue.time() + 1)}"#
        for element in elements + [ahead, new] {
            try await queue.redis.send(Command("LPUSH", queue.keys.jobs, element))
        }
        for query in ["", "&q=h", "&sort=name"] { #expect(await self.ids(fixture, query) == ["failed"], "\(query)") }
        let body = #"{"action":"remove","state":"queued","ids":["completed","failed","ahead"]}"#
        let chosen = await fixture.send("POST", WebFixture.control, body)
        #expect(chosen.json?["left_out"]?.text == #"["completed","ahead"]"#, "\(chosen)")
        for id in ["completed", "removed"] {
            let selection = #"{"action":"resume","where":{"state":"queued","url":"http://h/\#(id)"}}"#
            let response = await fixture.send("POST", WebFixture.control, selection)
            #expect(response.json?["requested"]?.integer == 0, "\(id) \(response)")
        }
        let (requested, wanted) = try await cancel(fixture, "")
        #expect(requested == 1 && wanted == ["failed"], "\(wanted)")
        #expect(await fixture.get(WebFixture.jobs + "/completed").json?["state"]?.string == "completed")
        #expect(await fixture.get(WebFixture.jobs + "/removed?line=true").status == 404)
        let facets = await fixture.get("/api/queues/default/facets?state=queued").json
        #expect(facets?["of"]?.integer == 1, "\(facets?.text ?? "")")
    }

    @Test(
        "an action reaches every job that stays in its state, although others leave it meanwhile",
        arguments: [JobState.failed, .paused, .completed, .scheduled])
    func leaving(_ state: JobState) async throws {
        let fixture = try await WebFixture()
        let (index, redis) = (fixture.queue.keys.index(state), fixture.queue.redis)
        for first in stride(from: 0, to: 12_000, by: 1000) {
            let pairs = (first..<first + 1000).flatMap { ["\($0 / 7)", "j\($0)"] }
            try await redis.send(Command(arguments: ["ZADD", index] + pairs))
        }
        // Workers apply earlier operations to the newest and to the oldest ones, while the request reads.
        let leaving = Task {
            var left = 12_000
            while !Task.isCancelled, left > 4000 {
                for range in [("-20", "-1"), ("0", "4")] {
                    try await redis.send(Command("ZREMRANGEBYRANK", index, range.0, range.1))
                }
                left = try await redis.send(Command("ZCARD", index)).int ?? 0
            }
        }
        let body = #"{"action":"cancel","where":{"state":"\#(state.rawValue)"},"limit":100000}"#
        let response = await fixture.send("POST", WebFixture.control, body)
        leaving.cancel()
        _ = await leaving.result
        #expect(response.json?["more"] == .bool(false), "\(response)")
        let wanted = try await redis.send(Command("HGETALL", fixture.queue.keys.want)).dictionary
        let rest = (try await redis.send(Command("ZRANGE", index, 0, -1)).array ?? []).compactMap(\.string)
        let missed = rest.filter { wanted[$0] == nil }
        #expect(missed.isEmpty && rest.count < 12_000, "\(missed.count) of \(rest.count)")
    }

    @Test("a waiting job that no worker has seen has the kind that its push names") func kinds() async throws {
        let fixture = try await WebFixture()
        for number in 0..<3 {
            _ = await fixture.push(#"{"url":"http://h/\#(number)","id":"r\#(number)","kind":"request"}"#)
        }
        for number in 0..<2 { _ = await fixture.push(#"{"url":"http://h/\#(number)","id":"d\#(number)"}"#) }
        #expect(await ids(fixture, "&kind=request") == ["r0", "r1", "r2"])
        #expect(await ids(fixture, "&kind=download") == ["d0", "d1"])
        #expect(
            await fixture.get("/api/queues/default/facets?state=queued").json?["kind"]?.text
                == #"[["request",3],["download",2]]"#)
        let (requested, wanted) = try await cancel(fixture, #","kind":"download""#)
        #expect(requested == 2 && wanted == ["d0", "d1"])
    }

    @Test("an action reaches every waiting job that is not claimed, although others are claimed meanwhile")
    func claimed() async throws {
        let fixture = try await WebFixture()
        let jobs = fixture.queue.keys.jobs
        let redis = fixture.queue.redis
        for first in stride(from: 0, to: 30_000, by: 1000) {
            let elements = (first..<first + 1000).map { #"{"url":"http://h/\#($0)","id":"j\#($0)"}"# }
            try await redis.send(Command(arguments: ["LPUSH", jobs] + elements))
        }
        // Takes elements as workers do, from the end that is claimed first, while the request reads.
        let claims = Task {
            var left = 30_000
            while !Task.isCancelled, left > 10_000 {
                try await redis.send(Command("RPOP", jobs, 50))
                left = try await redis.send(Command("LLEN", jobs)).int ?? 0
            }
        }
        let body = #"{"action":"cancel","where":{"state":"queued"},"limit":100000}"#
        let response = await fixture.send("POST", WebFixture.control, body)
        claims.cancel()
        _ = await claims.result
        #expect(response.json?["more"] == .bool(false), "\(response)")
        let wanted = try await redis.send(Command("HGETALL", fixture.queue.keys.want)).dictionary
        let rest = try await redis.send(Command("LRANGE", jobs, 0, -1)).array ?? []
        let missed = rest.compactMap { $0.string.flatMap { try? JSON($0) }?["id"]?.string }.filter { wanted[$0] == nil }
        #expect(missed.isEmpty && rest.count < 30_000, "\(missed.count) of \(rest.count)")
    }
}
