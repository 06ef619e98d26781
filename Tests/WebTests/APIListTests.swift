import Foundation
import HaulBus
import HaulContract
import HaulHTTPServer
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulWeb

/// Lists, searches and their order in the API.
@Suite struct APIListTests {
    @Test("lists have the order of ages from either end, and are sorted by other properties among their first jobs")
    func sorting() async throws {
        let fixture = try await WebFixture()
        let keys = fixture.queue.keys
        for number in 0..<2100 {
            // The newest is the smallest, and all have one of three hosts.
            let id = "f\(number + 1000)"
            _ = try await fixture.queue.redis.pipeline([
                .command(Command("ZADD", keys.index(.failed), 1_700_000_000_000 + number, id)),
                .command(
                    Command(
                        "HSET", keys.job(id), "state", "failed", "url", "http://h\(number % 3).example/\(id)", "total",
                        5000 - number)),
            ])
        }
        for number in 0..<3 { #expect(await fixture.push(#"{"url":"http://h/","id":"q\#(number)"}"#).status == 202) }
        func ids(_ query: String) async -> [String] {
            let page = await fixture.get(WebFixture.jobs + "?" + query).json
            return (page?["jobs"]?.array ?? []).compactMap { $0["id"]?.string }
        }
        #expect(await ids("state=failed&limit=2") == ["f3099", "f3098"])
        #expect(await ids("state=failed&limit=2&from=2098") == ["f1001", "f1000"])
        #expect(await ids("state=failed&limit=2&reverse=true") == ["f1000", "f1001"])
        #expect(await ids("state=failed&limit=2&sort=age&from=1") == ["f1001", "f1002"])
        #expect(await ids("state=failed&limit=2&sort=age&reverse=true&host=h1.example") == ["f3098", "f3095"])
        #expect(await ids("state=queued&reverse=true&limit=2") == ["q2", "q1"])
        #expect(await ids("state=queued&reverse=true&limit=2&from=1&q=http") == ["q1", "q0"])
        // The 100 oldest, which are the largest, are not among those that are sorted.
        #expect(await ids("state=failed&sort=size&limit=2") == ["f1100", "f1101"])
        #expect(await ids("state=failed&sort=size&limit=2&reverse=true") == ["f3099", "f3098"])
        #expect(await ids("state=failed&sort=host&limit=1&from=1999") == ["f3099"])
        let sorted = await fixture.get(WebFixture.jobs + "?state=failed&sort=size&limit=2").json
        #expect(sorted?["examined"]?.integer == 2000 && sorted?["total"]?.integer == 2100)
        #expect(sorted?["next"]?.integer == 2)
        let refused = await fixture.get(WebFixture.jobs + "?state=failed&sort=colour")
        #expect(refused.status == 400 && refused.json?["message"]?.string?.contains("not \"colour\"") == true)
    }

    @Test("a search finds waiting jobs, however their elements are written", arguments: [false, true])
    func searchWaiting(isSeen: Bool) async throws {
        let fixture = try await WebFixture()
        let elements = [
            #"{"url":"http://a.example/Plain.bin","id":"plain"}"#,
            #"{"url":"http:\/\/a.example\/escaped.bin","id":"escaped"}"#,
            #"{"url":"http://user:word@secret.example/x?plain=1","id":"credentials"}"#,
            #"{"url":"http://a.example/unnamed"}"#,
            #"{"url":"http://a.example/caf\u00e9","id":"accent"}"#, "no job",
            #"{"url":"http://b.example:81/y","id":"NESTED","meta":{"id":"z"}}"#,
        ]
        let redis = Redis(try RedisURL(fixture.server.url), name: "test")
        for element in elements { try await redis.send(Command("LPUSH", fixture.queue.keys.jobs, element)) }
        if isSeen { try await redis.send(Command("HSET", fixture.queue.keys.job("accent"), "message", "Broken pipe")) }
        func found(_ query: String) async -> [String]? {
            let page = await fixture.get(WebFixture.jobs + "?state=queued&" + query).json
            #expect(page?["next"] == nil && page?["examined"]?.integer == Int64(elements.count), "\(query)")
            return page?["jobs"]?.array?.compactMap { $0["id"]?.string }
        }
        #expect(await found("q=plain.BIN") == ["plain"])
        #expect(await found("q=escaped.bin") == ["escaped"])
        #expect(await found("q=http://secret.example") == ["credentials"])
        #expect(await found("q=x?[mask") == ["credentials"])
        #expect(await found("q=masked") == ["credentials"])
        #expect(await found("q=plain%3D1") == [])
        #expect(await found("q=word") == [])
        #expect(await found("q=unnamed")?.count == 1)
        #expect(await found("q=nested") == ["NESTED"])
        #expect(await found("host=b.example") == ["NESTED"])
        #expect(await found("host=secret.example") == ["credentials"])
        #expect(await found("q=broken") == (isSeen ? ["accent"] : []))
        #expect(await found("error=dns") == [])
    }

    @Test("a push that waits to begin an ended job anew is listed as one that waits") func anew() async throws {
        let fixture = try await WebFixture()
        _ = await fixture.push(#"{"url":"http://h/old","id":"a"}"#)
        let failure = Failure(.http(404), "gone")
        try await fixture.settle(
            try #require(try await fixture.claim()), .failed(failure, retryable: false, received: 0))
        _ = await fixture.push(#"{"url":"http://h/new","id":"a"}"#)
        let job = try #require(await fixture.get(WebFixture.jobs + "?state=queued").json?["jobs"]?.array?.first)
        #expect(job["state"]?.string == "queued" && job["url"]?.string == "http://h/new" && job["ended"] != .bool(true))
        // Filters compare what waits, and not the last end.
        for (filter, count) in [("error=http_404", 0), ("q=gone", 0), ("q=new", 1), ("q=old", 0), ("sort=error", 1)] {
            let found = await fixture.get(WebFixture.jobs + "?state=queued&" + filter).json?["jobs"]?.array
            #expect(found?.count == count, "\(filter): \(found ?? [])")
            #expect(found?.allSatisfy { $0["error"] == nil } == true)
        }
        let url = "&url=" + "http%3A%2F%2Fh%2Fnew"
        #expect(await fixture.get(WebFixture.jobs + "?state=queued" + url).json?["jobs"]?.array?.count == 1)
    }

    @Test("lists are read in pages and filtered") func lists() async throws {
        let fixture = try await WebFixture()
        let jobs = (0..<30).map { #"{"url":"http://\#($0 % 3 == 0 ? "a" : "b").example/f\#($0)?k=1","id":"j\#($0)"}"# }
        _ = await fixture.push("[\(jobs.joined(separator: ","))]")
        let queued = await fixture.get(WebFixture.jobs + "?state=queued&limit=10").json
        #expect(queued?["jobs"]?.array?.compactMap { $0["id"]?.string } == (0..<10).map { "j\($0)" })
        #expect(queued?["total"]?.integer == 30 && queued?["next"]?.integer == 10)
        #expect(queued?["jobs"]?.array?.first?["url"]?.string == "http://a.example/f0?[masked]")
        for number in 0..<30 {
            let claim = try #require(try await fixture.claim())
            let code: ErrorCode = number % 2 == 0 ? .http(404) : .dns
            try await fixture.settle(
                claim, .failed(Failure(code, "no <b>luck</b>"), retryable: true, received: 0))
        }
        let failed = await fixture.get(WebFixture.jobs + "?state=failed&host=a.example&error=dns").json
        #expect(
            Set(failed?["jobs"]?.array?.compactMap { $0["id"]?.string } ?? []) == ["j3", "j9", "j15", "j21", "j27"])
        #expect(failed?["next"] == nil && failed?["examined"]?.integer == 30)
        let found = await fixture.get(WebFixture.jobs + "?state=failed&q=F29%3f").json
        #expect(found?["jobs"]?.array?.first?["id"]?.string == "j29")

        let overview = await fixture.get("/api/queues/default").json
        #expect(overview?.at("counts", "failed")?.integer == 30)
        #expect(overview?.at("failures", "by_host")?.text == #"[["b.example",20],["a.example",10]]"#)
        #expect(overview?.at("failures", "by_error")?.text == #"[["dns",15],["http_404",15]]"#)

        let retry = #"{"action":"retry","where":{"state":"failed","host":"a.example"},"limit":4}"#
        let retried = await fixture.send("POST", WebFixture.control, retry).json
        #expect(retried?["requested"]?.integer == 4 && retried?["more"] == .bool(true))
        try await fixture.tick()
        #expect(try await fixture.queue.count(in: .queued) == 4)
        #expect(await fixture.get(WebFixture.jobs + "?state=none").status == 400)
        #expect(await fixture.get(WebFixture.jobs + "?limit=501").status == 400)
        // A filter that cannot be decoded must not select all jobs.
        for text in ["%zz", "zzz%ff", "%", "%4"] {
            #expect(await fixture.get(WebFixture.jobs + "?state=queued&q=\(text)").status == 400)
        }
    }

    @Test("a search ignores case in every script") func searchCase() async throws {
        let fixture = try await WebFixture()
        let jobs = (0..<1200).map {
            #"{"url":"http://a.example/f\#($0)","id":"j\#($0)","path":"Ärger/Film-\#($0)"}"#
        }
        for part in [jobs[..<1000], jobs[1000...]] { _ = await fixture.push("[\(part.joined(separator: ","))]") }
        for _ in 0..<1200 { _ = try await fixture.claim() }
        // One call searches only for a short time. The next one continues at `next`.
        func found(_ query: String) async -> [String] {
            var (ids, examined, next): ([String], Int64, Int64?) = ([], 0, 0)
            while let from = next {
                let page = await fixture.get(WebFixture.jobs + "?state=running&\(query)&from=\(from)").json
                ids += page?["jobs"]?.array?.compactMap { $0["id"]?.string } ?? []
                examined += page?["examined"]?.integer ?? 0
                next = page?["next"]?.integer
            }
            #expect(examined == 1200, "\(query)")
            return ids
        }
        #expect(
            await found("q=FILM-117&limit=500").sorted()
                == (["117"] + (0..<10).map { "117\($0)" }).map { "j" + $0 }.sorted())
        #expect(
            await found("q=%C3%A4RGER/film-42&limit=500").sorted()
                == (["42"] + (0..<10).map { "42\($0)" }).map { "j" + $0 }.sorted())
        #expect(await found("q=J1199") == ["j1199"])
        #expect(await found("worker=w1&q=f1199") == ["j1199"])
        #expect(await found("worker=w&q=f1199") == [])
        #expect(await found("host=a.exampl") == [])
        // A page behind the end has examined nothing.
        let beyond = await fixture.get(WebFixture.jobs + "?state=queued&from=100000&q=film").json
        #expect(beyond?["examined"]?.integer == 0 && beyond?["jobs"]?.array == [] && beyond?["next"] == nil)
    }

    @Test("jobs are found and controlled by a whole URL, which other filters restrict") func urls() async throws {
        let fixture = try await WebFixture()
        for (id, query) in [("a", "sig=1"), ("b", "sig=1"), ("c", "sig=2")] {
            #expect(await fixture.push(#"{"url":"http://h/f?\#(query)","id":"\#(id)"}"#).status == 202)
        }
        func ids(_ query: String) async -> [String] {
            let page = await fixture.get(WebFixture.jobs + "?" + query)
            #expect(page.status == 200, "\(page.text)")
            return (page.json?["jobs"]?.array ?? []).compactMap { $0["id"]?.string }
        }
        let claim = try #require(try await fixture.claim())
        #expect(claim.run.id == "a")
        for name in ["url", "q"] {
            #expect(await ids("\(name)=http%3A%2F%2Fh%2Ff%3Fsig%3D1") == ["a", "b"])
            #expect(await ids("\(name)=http%3A%2F%2Fh%2Ff%3Fsig%3D1&state=running") == ["a"])
            #expect(await ids("\(name)=http%3A%2F%2Fh%2Ff%3Fsig%3D1&host=other") == [])
            #expect(await ids("\(name)=http%3A%2F%2Fh%2Ff%3Fsig%3D1&reverse=true") == ["b", "a"])
            let byAge = await ids("\(name)=http%3A%2F%2Fh%2Ff%3Fsig%3D1&sort=age")
            #expect(byAge.sorted() == ["a", "b"])
            #expect(await ids("\(name)=http%3A%2F%2Fh%2Ff%3Fsig%3D1&sort=age&reverse=true") == byAge.reversed())
        }
        #expect(await ids("url=f") == [])
        #expect(await fixture.get(WebFixture.jobs + "?older=-1").status == 400)
        #expect(await ids("state=queued&older=3600") == [])
        #expect(await ids("state=queued&older=0").count == 2)
        for (action, place, count) in [
            ("pause", #"{"url":"http://h/f?sig=1"}"#, 2),
            ("cancel", #"{"url":"http://h/f?sig=1","state":"running"}"#, 1),
            ("pause", #"{"url":"http://h/f?sig=3"}"#, 0), ("pause", #"{"state":"running","older":3600}"#, 0),
        ] as [(String, String, Int64)] {
            let body = #"{"action":"\#(action)","where":\#(place)}"#
            let response = await fixture.send("POST", WebFixture.control, body)
            #expect(
                response.status == 202 && response.json?["requested"]?.integer == count, "\(place): \(response.text)")
        }
        for place in [#"{"host":"h"}"#, #"{"url":"h","older":-1}"#, #"{"url":"http://h/","state":"asleep"}"#] {
            let response = await fixture.send("POST", WebFixture.control, #"{"action":"pause","where":\#(place)}"#)
            #expect(response.status == 422, "\(place): \(response.text)")
        }
    }
}
