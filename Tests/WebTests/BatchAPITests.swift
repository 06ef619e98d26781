import HaulBus
import HaulContract
import HaulRedis
import Testing

@testable import HaulWeb

@Suite struct BatchAPITests {
    private static let batches = "/api/queues/default/batches"

    /// Three jobs of the batch `night`: one has failed, one runs, and one is still queued. A further queued job has
    /// no batch.
    private func fixture() async throws -> WebFixture {
        let fixture = try await WebFixture()
        for job in [
            #"{"url":"http://h/1","id":"n1","batch":{"name":"night","size":3,"reply_to":"nights"}}"#,
            #"{"url":"http://h/2","id":"n2","batch":"night"}"#, #"{"url":"http://h/x","id":"other"}"#,
            #"{"url":"http://h/3","id":"n3","batch":"night"}"#,
        ] { #expect(await fixture.push(job).status == 202) }
        let claim = try #require(try await fixture.claim())
        try await fixture.settle(claim, .failed(Failure(.http(404), "gone"), retryable: false, received: 0))
        _ = try await fixture.claim()
        return fixture
    }

    @Test("batches are listed with their counts, and a single batch is found by its name")
    func listed() async throws {
        let fixture = try await fixture()
        #expect(await fixture.push(#"{"url":"http://h/4","id":"d1","batch":"day"}"#).status == 202)
        for _ in 0..<3 { _ = try await fixture.claim() }
        let page = await fixture.get(Self.batches).json
        #expect(Set(page?["batches"]?.array?.compactMap { $0["name"]?.string } ?? []) == ["day", "night"])
        #expect(page?["total"]?.integer == 2 && page?["next"] == nil)
        let first = await fixture.get(Self.batches + "?limit=1").json
        #expect(first?["batches"]?.array?.count == 1 && first?["next"]?.integer == 1)
        #expect(await fixture.get(Self.batches + "?from=1&limit=1").json?["next"] == nil)
        let night = await fixture.get(Self.batches + "/night").json
        #expect(night?["pending"]?.integer == 2 && night?["failed"]?.integer == 1 && night?["size"]?.integer == 3)
        #expect(night?["round"]?.integer == 0 && night?["finished"] == nil && night?["wanted"] == nil)
        #expect(night?["reply_to"]?.array?.compactMap(\.string) == ["nights"])
        #expect(await fixture.get(Self.batches + "/none").status == 404)
        #expect(await fixture.get(Self.batches + "/no%20name").status == 404)
        #expect(await fixture.get(Self.batches + "?limit=501").status == 400)
    }

    @Test("the jobs of a batch are found in each state, and each job names its batch")
    func jobs() async throws {
        let fixture = try await fixture()
        func found(_ state: JobState, _ batch: String) async -> [String]? {
            let page = await fixture.get(WebFixture.jobs + "?state=\(state.rawValue)&batch=\(batch)").json
            for job in page?["jobs"]?.array ?? [] { #expect(job["batch"]?.string == batch) }
            return page?["jobs"]?.array?.compactMap { $0["id"]?.string }
        }
        #expect(await found(.failed, "night") == ["n1"])
        #expect(await found(.running, "night") == ["n2"])
        // No worker has taken this job yet. The batch comes from its element.
        #expect(await found(.queued, "night") == ["n3"])
        #expect(await found(.queued, "nigh") == [])
        #expect(await found(.failed, "nigh") == [])
        #expect(await found(.completed, "night") == [])
        #expect(await fixture.get(WebFixture.jobs + "/n2").json?["batch"]?.string == "night")
        let retry = #"{"action":"retry","where":{"state":"failed","batch":"night"}}"#
        #expect(await fixture.send("POST", WebFixture.control, retry).json?["requested"]?.integer == 1)
        try await fixture.tick()
        #expect(try await fixture.queue.job("n1")?.state == .queued)
    }

    @Test("the ended jobs of a batch are listed like all others: by the times at which they ended") func order()
        async throws
    {
        let fixture = try await WebFixture()
        for id in ["a", "b", "c"] {
            _ = await fixture.push(#"{"url":"http://h/\#(id)","id":"\#(id)","batch":"night"}"#)
            let claim = try #require(try await fixture.claim())
            try await fixture.settle(claim, .failed(Failure(.http(404), "gone"), retryable: false, received: 0))
        }
        let earlier = try await fixture.queue.time() - 10_000
        try await fixture.queue.redis.send(Command("HSET", fixture.queue.keys.job("b"), "finished", earlier))
        func found(_ query: String) async -> [String]? {
            let page = await fixture.get(WebFixture.jobs + "?state=failed&batch=night" + query).json
            let rows = page?["jobs"]?.array ?? []
            #expect(rows.allSatisfy { $0["timestamp"]?.integer != nil })
            return rows.compactMap { $0["id"]?.string }
        }
        #expect(await found("") == ["c", "a", "b"])
        #expect(await found("&reverse=true") == ["b", "a", "c"])
        #expect(await found("&sort=age") == ["b", "a", "c"])
        #expect(await found("&older=5") == ["b"])
        let body = #"{"action":"retry","where":{"state":"failed","batch":"night"},"limit":1}"#
        #expect(await fixture.send("POST", WebFixture.control, body).json?["requested"]?.integer == 1)
        let requested = try await fixture.queue.redis.send(Command("HKEYS", fixture.queue.keys.want)).array
        #expect(requested?.compactMap(\.string) == ["b"], "the job that ended first comes first")
    }

    @Test("a whole batch is paused, resumed, retried and cancelled, also for later members")
    func steered() async throws {
        let fixture = try await fixture()
        func ask(_ action: String) async throws -> Int64? {
            let body = #"{"action":"\#(action)","batch":"night"}"#
            let response = await fixture.send("POST", WebFixture.control, body)
            #expect(response.status == 202, "\(response.text)")
            try await fixture.tick()
            try await fixture.tick()
            return response.json?["requested"]?.integer
        }
        #expect(try await ask("retry") == 1)
        #expect(try await fixture.queue.job("n1")?.state == .queued)
        #expect(try await ask("pause") == 2)
        #expect(try await fixture.queue.job("n1")?.state == .paused)
        #expect(await fixture.get(Self.batches + "/night").json?["wanted"]?.string == "paused")
        #expect(try await ask("resume") == 2)
        #expect(try await fixture.queue.job("n1")?.state == .queued)
        #expect(try await ask("cancel") == 2)
        #expect(try await fixture.queue.job("n1")?.state == .cancelled)
        #expect(await fixture.get(Self.batches + "/night").json?["wanted"]?.string == "cancelled")
        for body in [
            #"{"action":"remove","batch":"night"}"#, #"{"action":"cancel","batch":"no name"}"#,
            #"{"action":"cancel","batch":3}"#, #"{"action":"cancel","where":{"state":"failed","bacth":"night"}}"#,
        ] { #expect(await fixture.send("POST", WebFixture.control, body).status == 422, "\(body)") }
    }

    @Test("a job among many waiting ones is found by its id, however its element is written")
    func inLine() async throws {
        let fixture = try await WebFixture()
        let url = "http://h/unnamed"
        let elements =
            (0..<2600).map { #"{"url":"http://h/\#($0)","id":"j\#($0)"}"# } + [
                #"{"url":"http://user:planted@h/a?sig=planted","id":"named","batch":"b"}"#,
                #"{"url":"\#(url)"}"#, #"{"url":"http:\/\/h\/e","id":"esc\u0061ped"}"#,
            ]
        for page in elements.chunks(ofCount: 500) {
            try await fixture.queue.redis.send(
                Command(arguments: ["LPUSH", fixture.queue.keys.jobs] + Array(page)))
        }
        func found(_ id: String) async -> JSON? { await fixture.get(WebFixture.jobs + "/\(id)?line=true").json }
        let job = await found("named")
        #expect(job?["state"]?.string == "queued" && job?["url"]?.string == "http://h/a?[masked]")
        #expect(job?["batch"]?.string == "b" && job?["ended"] == .bool(false))
        let unnamed = try Element(JSON(#"{"url":"\#(url)"}"#)).id
        for id in [unnamed, "escaped", "j0", "j500", "j2599"] { #expect(await found(id)?["id"]?.string == id) }
        for id in ["j2600", "j", "h", "0000000000000000"] { #expect(await found(id)?["error"]?.string == "not_found") }
        #expect(await fixture.get(WebFixture.jobs + "/named").status == 404)
    }
}
