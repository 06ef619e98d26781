import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulBus

/// A queue while its workers are replaced by workers of another version, which brings its own functions.
@Suite struct VersionTests {
    @Test(
        "one version ends what another one has begun, and deleted libraries are loaded again",
        arguments: RedisServer.Kind.installed)
    func mixed(server: RedisServer.Kind) async throws {
        let f = try await QueueFixture(on: server)
        // The same clock in other code makes another library, as another version does.
        let newer = Queue(
            .default, redis: f.redis, policy: QueuePolicy(),
            functions: Functions(
                clock: "local t = redis.call('TIME') return t[1] .. string.sub('00000' .. t[2], -6, -4)"))
        let successor = WorkerIdentity(name: "w2", store: "s")
        #expect(try await newer.register(successor, fields: [], known: []))
        let libraries = Command("FUNCTION", "LIST")
        #expect(try await f.redis.send(libraries).array?.count == 2)
        for id in ["a", "b"] { try await f.push(#"{"url":"http://h/\#(id)","id":"\#(id)"}"#) }

        let older = try #require(try await f.claim())
        guard case .job(let claim) = try await newer.claim(successor, token: Token.make()) else {
            Issue.record("the newer version claims nothing")
            return
        }
        // The newer version's tick applies an operation for the older version's run, and the other way round.
        try await newer.request(.paused, of: [older.run.id])
        _ = try await newer.tick(successor, fields: [], runs: [(claim.run, RunReport())])
        try await f.queue.request(.cancelled, of: [claim.run.id])
        #expect(try await f.tick([older]).operations.count == 1)
        #expect(try await f.settle(older, .paused))
        #expect(try await f.state("a") == .paused)
        let report = try await newer.settle(
            claim.run, as: QueueFixture.done, report: RunReport(), worker: successor, next: nil)
        #expect(report.isOurs)

        try await f.redis.send(Command("FUNCTION", "FLUSH"))
        try await newer.request(.running, of: ["a"])
        try await f.tick()
        let again = try #require(try await f.claim())
        #expect(again.run.id == "a")
        #expect(try await f.settle(again, QueueFixture.done))
        try await f.expectOrder()
        #expect(try await f.redis.send(libraries).array?.count == 1)
        #expect(try await Inspection(newer).run().isEmpty)
        #expect(try await f.redis.send(libraries).array?.count == 2)
    }
}
