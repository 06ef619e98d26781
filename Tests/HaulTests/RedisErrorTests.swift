import Foundation
import Glibc
import HaulTestSupport
import Testing

/// A Redis that stalls, is full, refuses commands, or holds nonsense. The worker logs one sentence, makes no busy loop,
/// and continues afterwards.
@Suite struct RedisErrorTests {
    @Test("no live worker loses a job although Redis stalls for longer than the lease") func stall() async throws {
        let fleet = try await ProcessFleet()
        let workers = try ["one", "two"].map { try fleet.worker($0, lease: 5) }
        try await fleet.push("a")
        try await fleet.waitForOffsets("a")
        fleet.server.signal(SIGSTOP)
        // The fault under test: longer than the lease of 5 s. A slow machine delays a worker's tick by less than a
        // lease.
        try await Task.sleep(for: .seconds(6))
        fleet.server.signal(SIGCONT)
        fleet.gate.open()
        try await fleet.wait("a", for: "completed")
        #expect(fleet.origin.requests.count == 1)
        for worker in workers { try await fleet.end(worker) }
    }

    @Test("no live worker loses a job although no worker has served the queue for a minute")
    func unattended() async throws {
        let fleet = try await ProcessFleet()
        let owner = try fleet.worker("owner", lease: 8)
        try await fleet.push("a")
        try await fleet.waitForOffsets("a")
        owner.kill(SIGSTOP)
        let token = try await fleet.field("token", of: "a")
        try await fleet.server.cli(
            "EVAL", "redis.call('SET', KEYS[1], '1000 0') redis.call('ZADD', KEYS[2], 1000, 'a')", "2",
            "haul:{default}:tick", "haul:{default}:leases")
        // Its first tick finds a lease that ended long ago.
        let other = try fleet.worker("other", lease: 8)
        try await eventually("the other worker's tick", every: .milliseconds(20)) {
            try await fleet.server.cli("GET", "haul:{default}:tick") != "1000 0"
        }
        #expect(try await fleet.field("token", of: "a") == token)
        owner.kill(SIGCONT)
        fleet.gate.open()
        try await fleet.wait("a", for: "completed")
        #expect(fleet.origin.requests.count == 1)
        try await fleet.end(owner, other)
    }

    @Test("a worker without the right to subscribe still applies control operations, without a busy loop")
    func deaf() async throws {
        let fleet = try await ProcessFleet()
        try await fleet.server.cli(
            "ACL", "SETUSER", "deaf", "on", ">pw", "~*", "&*", "+@all", "-subscribe", "-psubscribe", "-ssubscribe")
        let worker = try fleet.worker("w", url: fleet.server.url + "?user=deaf&password=pw")
        try await fleet.push("a")
        try await fleet.wait("a", for: "running")
        try await fleet.server.cli("HSET", "haul:{default}:want", "a", "paused")
        try await fleet.server.cli("PUBLISH", "haul:{default}:control", "a")
        try await fleet.wait("a", for: "paused")
        let denied = try await fleet.server.errors("NOPERM")
        #expect(denied > 0)
        fleet.expectRare(denied)
        fleet.gate.open()
        try await fleet.end(worker)
    }

    @Test("a worker without a right to channels logs that, and makes few connections") func noChannels() async throws {
        let fleet = try await ProcessFleet()
        try await fleet.server.cli("ACL", "SETUSER", "w", "on", "nopass", "~*", "+@all", "resetchannels")
        let worker = try fleet.worker("w", url: fleet.server.url + "?user=w&password=x")
        try await fleet.wait(for: "lacks a right", from: worker)
        try await fleet.waitForTicks(3)
        fleet.expectRare(try await fleet.server.errors("NOPERM"))
        try await fleet.end(worker)
    }

    @Test("while Redis is full, running jobs are settled and pushes refused, and claims resume afterwards")
    func outOfMemory() async throws {
        let fleet = try await ProcessFleet()
        let worker = try fleet.worker("w", slots: 1)
        try await fleet.push("a")
        try await fleet.waitForOffsets("a")
        try await fleet.push("behind")
        try await fleet.server.cli("CONFIG", "SET", "maxmemory", "1000000")
        try await fleet.server.cli("CONFIG", "RESETSTAT")
        #expect(try await fleet.server.cli("LPUSH", "haul:{default}:jobs", "{}").contains("OOM"))
        fleet.gate.open()
        try await fleet.wait("a", for: "completed")
        try await fleet.wait(for: "OOM", from: worker)
        let stats = try await fleet.server.cli("INFO", "commandstats")
        let claims = stats.split(separator: "\r\n").first { $0.hasPrefix("cmdstat_blmove:") }
        let calls = claims?.split(separator: "calls=").last?.split(separator: ",").first.flatMap { Int($0) } ?? 0
        fleet.expectRare(calls)
        #expect(try await fleet.server.cli("LLEN", "haul:{default}:jobs") == "1")
        try await fleet.server.cli("CONFIG", "SET", "maxmemory", "0")
        try await fleet.wait("behind", for: "completed")
        try await fleet.push("b")
        try await fleet.wait("b", for: "completed")
        try await fleet.end(worker)
    }

    @Test("a worker reports a changed password, and continues once it has access again")
    func password() async throws {
        let fleet = try await ProcessFleet()
        let worker = try fleet.worker("w")
        try await fleet.push("a")
        try await fleet.waitForOffsets("a")
        try await fleet.server.cli("CONFIG", "SET", "requirepass", "new")
        try await fleet.server.cli("-a", "new", "CLIENT", "KILL", "TYPE", "normal")
        try await fleet.wait(for: "password", from: worker)
        try await fleet.server.cli("-a", "new", "CONFIG", "SET", "requirepass", "")
        fleet.gate.open()
        try await fleet.wait("a", for: "completed")
        #expect(fleet.origin.requests.count == 1)
        try await fleet.end(worker)
    }

    @Test(
        "a worker that lacks a right names it and exits with 3", arguments: ["fcall", "function|load"])
    func lackingRight(_ right: String) async throws {
        let fleet = try await ProcessFleet()
        try await fleet.server.cli("ACL", "SETUSER", "poor", "on", ">pw", "~*", "&*", "+@all", "-\(right)")
        let worker = try fleet.worker("w", url: fleet.server.url + "?user=poor&password=pw")
        #expect(try await worker.wait() == 3)
        #expect(worker.standardError.contains("'\(right)'"), "\(worker.standardError.suffix(500))")
    }

    @Test("invalid settings, an oversized element and a key of a wrong type do not stop a queue")
    func nonsense() async throws {
        let fleet = try await ProcessFleet(held: nil)
        try await fleet.server.cli(
            "HSET", "haul:{default}:settings", "paused", "banana", "max_running", "many", "x", "y")
        let worker = try fleet.worker("w")
        try await fleet.server.cli(
            "EVAL", "redis.call('LPUSH', KEYS[1], '{\"url\":\"http://h/' .. string.rep('x', 300000) .. '\"}')", "1",
            "haul:{default}:jobs")
        try await fleet.push("a")
        try await fleet.wait("a", for: "completed")
        let rejected = try await fleet.server.cli("LRANGE", "haul:{default}:rejected", "0", "-1")
        #expect(rejected.contains("must be at most 16384 bytes"), "\(rejected.prefix(200))")
        #expect(rejected.utf8.count < 10_000)
        try await fleet.server.cli("SET", "haul:{default}:scheduled", "x")
        try await fleet.wait(for: "WRONGTYPE", from: worker)
        try await fleet.push("b")
        try await fleet.server.cli("DEL", "haul:{default}:scheduled")
        try await fleet.wait("b", for: "completed")
        try await fleet.end(worker)
    }

    @Test("a Redis that cannot save refuses pushes, and can still be read") func reading() async throws {
        let server = try await RedisServer(["--save", "3600 1", "--dbfilename", "d.rdb"])
        try await server.cli("HSET", "haul:{default}:job:a", "state", "paused")
        try await server.cli("ZADD", "haul:{default}:paused", "1", "a")
        try await server.breakSaving("d.rdb")
        for (arguments, status) in [(["stats"], 0), (["list"], 0), (["show", "a"], 0), (["push", "http://h/"], 3)] {
            let haul = try ChildProcess("haul", arguments, environment: ["HAUL_REDIS": server.url])
            #expect(try await haul.wait() == status, "\(arguments): \(haul.standardError)")
        }
    }
}
