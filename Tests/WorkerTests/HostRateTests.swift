import HaulBus
import HaulContract
import HaulHTTP
import HaulRedis
import HaulTestSupport
import Synchronization
import Testing

@testable import HaulWorker

@Suite("A host's limit of rate over a fleet")
struct HostRateTests {
    @Test(
        "two workers together keep a host's rate, and jobs of another host are not slowed",
        // The second limit depends on the time of day, and is in force all day.
        arguments: ["1000000", "\"full 08:00-08:01 Europe/Nowhere, 1MB\""])
    func rate(_ limit: String) async throws {
        let fleet = try await Fleet()
        let bytes = FileBytes(seed: 9, count: 6_000_000)
        let origin = try OriginServer { OriginReply.file(bytes, to: $0) }
        try await fleet.queue.setLimit(of: "127.0.0.1", to: #"{"rate":\#(limit)}"#)
        let begun = ContinuousClock.now
        try await fleet.withWorker("one") {
            try await fleet.withWorker("two") {
                for number in 0..<4 {
                    try await fleet.push(#"{"url":"\#(origin.url("/\(number)"))","id":"\#(number)"}"#)
                }
                let elsewhere = origin.url("/fast").replacing("127.0.0.1", with: "localhost")
                try await fleet.push(#"{"url":"\#(elsewhere)","id":"fast"}"#)
                try await fleet.wait("fast", for: .completed)
                try await eventually("4 MB to arrive", within: .seconds(30)) {
                    try await self.received(fleet) > 4_000_000
                }
                let seconds = (ContinuousClock.now - begun).secondsValue
                // The bytes of a tenth of a second may come at once, and the values in Redis are a little late.
                #expect(Double(try await self.received(fleet)) < 1_050_000 * seconds + 300_000)
                #expect(seconds < 15)
                // Running jobs follow a change of the limit.
                try await fleet.queue.setLimit(of: "127.0.0.1", to: nil)
                for number in 0..<4 { try await fleet.wait("\(number)", for: .completed) }
            }
        }
    }

    @Test("limits by the time of day begin and end by Redis' clock, without a change of the setting")
    func timeOfDay() throws {
        let leases = WorkerRateLeases()
        let url = try #require(WebURL("http://h/"))
        let host = leases.hosts.bucket(for: url)
        let night = try #require(RateSchedule("full 22:00-06:00 Europe/Berlin, 2M"))
        for (time, isLimited) in [(0, false), (5 * 3600 - 1, false), (5 * 3600, true), (21 * 3600, false)] {
            leases.limit(queue: night, hosts: ["h": night], at: Int64(time))
            // A bucket with a new limit is closed until Redis has granted a lease.
            #expect(
                (host.bytesPerSecond < .max) == isLimited
                    && leases.limits.keys.sorted() == (isLimited ? ["*", "h"] : []))
        }
    }

    @Test("a group's rate is kept at every host, and jobs of others are not slowed")
    func group() async throws {
        let fleet = try await Fleet()
        let bytes = FileBytes(seed: 9, count: 3_000_000)
        let origin = try OriginServer { OriginReply.file(bytes, to: $0) }
        try await fleet.queue.setLimit(of: "group:acme", to: #"{"rate":1000000}"#)
        let begun = ContinuousClock.now
        try await fleet.withWorker("one") {
            for number in 0..<2 {
                let url = origin.url("/\(number)").replacing("127.0.0.1", with: number == 0 ? "127.0.0.1" : "localhost")
                try await fleet.push(#"{"url":"\#(url)","id":"\#(number)","group":"acme"}"#)
            }
            try await fleet.push(#"{"url":"\#(origin.url("/fast"))","id":"fast","group":"bolt"}"#)
            try await fleet.wait("fast", for: .completed)
            for number in 0..<2 { #expect(try await fleet.state("\(number)") != .completed) }
            for number in 0..<2 { try await fleet.wait("\(number)", for: .completed) }
            #expect(ContinuousClock.now - begun > .seconds(4.5))
        }
    }

    private func received(_ fleet: Fleet) async throws -> Int {
        var sum = 0
        for number in 0..<4 {
            sum +=
                try await fleet.queue.redis.send(
                    Command("HGET", fleet.queue.keys.job("\(number)"), "received")
                ).string.flatMap { Int($0) } ?? 0
        }
        return sum
    }
}
