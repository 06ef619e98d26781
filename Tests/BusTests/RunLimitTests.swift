import Foundation
import HaulBus
import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

@Suite struct RunLimitTests {
    @Test("a run gets the stricter limits of the queue and of its host, and its job can only be stricter")
    func stricter() async throws {
        let f = try await QueueFixture()
        try await f.queue.set(.maxSeconds, to: "100")
        try await f.queue.set(.minSpeed, to: "1000")
        try await f.queue.set(.maxBytes, to: "5000")
        try await f.queue.setLimit(of: "h", to: #"{"max_seconds":50,"min_speed":500,"max_bytes":9000}"#)
        try await f.queue.setLimit(of: "h:8080", to: #"{"min_speed":3000}"#)
        for (id, host, own, limits, job) in [
            ("1", "other", "", [100, 1000, 5000], [1000, 5000]), ("2", "h", "", [50, 1000, 5000], [1000, 5000]),
            ("3", "h:8080", "", [100, 3000, 5000], [3000, 5000]),
            ("4", "h", #","max_bytes":6000,"min_speed":10"#, [50, 1000, 5000], [1000, 5000]),
            ("5", "h", #","max_bytes":40,"min_speed":2000"#, [50, 1000, 5000], [2000, 40]),
        ] as [(String, String, String, [Int64], [Int64])] {
            try await f.push(#"{"url":"http://\#(host)/","id":"\#(id)"\#(own)}"#)
            let claim = try #require(try await f.claim())
            #expect([claim.limits.maxSeconds, claim.limits.minSpeed, claim.limits.maxBytes] == limits, "\(id)")
            let read = try claim.job()
            #expect([read.minSpeed, read.maxBytes] == job, "\(id)")
        }
        // A default of the queue is not stricter than a limit either.
        try await f.redis.send(Command("HSET", f.queue.keys.defaults, "max_bytes", "7000"))
        try await f.push(#"{"url":"http://other/","id":"6"}"#)
        #expect(try #require(try await f.claim()).job().maxBytes == 5000)
        // Other kinds have only the time.
        try await f.push(#"{"kind":"request","url":"http://other/","id":"7"}"#)
        let request = try #require(try await f.claim())
        #expect(request.limits.maxSeconds == 100)
        #expect(try request.job().maxBytes == nil && request.job().minSpeed == nil)
    }

    @Test("a limit of runs with a wrong value has no effect, and is named") func wrong() async throws {
        let f = try await QueueFixture()
        for (setting, value) in [(QueueSetting.maxSeconds, "0"), (.minSpeed, "fast"), (.maxBytes, "1e6")] {
            #expect(!setting.accepts(value))
            try await f.queue.set(setting, to: value)
        }
        try await f.queue.setLimit(of: "h", to: #"{"max_seconds":0,"min_speed":"1","max_bytes":1.5}"#)
        try await f.push(#"{"url":"http://h/","id":"1"}"#)
        let claim = try #require(try await f.claim())
        #expect(claim.limits.maxSeconds == nil && claim.limits.minSpeed == nil && claim.limits.maxBytes == nil)
        let problems = try await Inspection(f.queue).run().map(\.problem).joined(separator: "\n")
        for name in ["max_seconds", "min_speed", "max_bytes"] {
            #expect(problems.components(separatedBy: name).count > 2, "\(problems)")
        }
        #expect(HostLimit.accepts(#"{"max_seconds":1,"min_speed":1,"max_bytes":1}"#))
    }

    @Test("limits hold for runs that begin after they were changed") func later() async throws {
        let f = try await QueueFixture()
        try await f.push(#"{"url":"http://h/","id":"1"}"#)
        #expect(try #require(try await f.claim()).limits.maxBytes == nil)
        try await f.queue.set(.maxBytes, to: "10")
        try await f.push(#"{"url":"http://h/","id":"2"}"#)
        #expect(try #require(try await f.claim()).limits.maxBytes == 10)
        try await f.queue.set(.maxBytes, to: nil)
        try await f.push(#"{"url":"http://h/","id":"3"}"#)
        #expect(try #require(try await f.claim()).limits.maxBytes == nil)
    }
}
