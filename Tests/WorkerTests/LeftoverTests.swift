import Glibc
import HaulActivities
import HaulBus
import HaulContract
import HaulFileStore
import HaulRedis
import HaulStorage
import HaulTestSupport
import Testing

@testable import HaulWorker

/// Whether a run may write to its partial file.
@Suite struct WritePermitTests {
    private static let second: UInt64 = 1_000_000_000

    @Test("a run writes within 2.5 s of an answered tick, and then only if Redis does not answer or extends the lease")
    func permits() {
        let sent = ContinuousClock.now
        let lease = Lease(length: .seconds(8), sent: sent)
        let begun = Lease.time(of: sent)
        #expect(lease.writePermit(at: begun + 2 * Self.second) == .granted)
        #expect(lease.writePermit(at: begun + 3 * Self.second) == .unknown)
        // A tick that was sent before the process stopped says nothing.
        lease.recordUnanswered(sent: sent + .seconds(2))
        #expect(lease.writePermit(at: begun + 60 * Self.second) == .unknown)
        lease.recordUnanswered(sent: sent + .seconds(60))
        #expect(lease.writePermit(at: begun + 60 * Self.second) == .granted)
        // Redis may have come back while the process was stopped.
        #expect(lease.writePermit(at: begun + 90 * Self.second) == .unknown)
        lease.extend(sent: sent + .seconds(61))
        #expect(lease.writePermit(at: begun + 62 * Self.second) == .granted)
        #expect(lease.writePermit(at: begun + 70 * Self.second) == .unknown)
        lease.end()
        #expect(lease.writePermit(at: begun + 62 * Self.second) == .refused)
    }

    @Test("a short lease ends the permit earlier") func short() {
        let sent = ContinuousClock.now
        let lease = Lease(length: .seconds(1), sent: sent)
        #expect(lease.writePermit(at: Lease.time(of: sent) + 3 * Self.second / 2) == .unknown)
    }
}

/// Partial files that no run will continue.
@Suite struct LeftoverTests {
    @Test("a fenced run removes its partial file if no other run can continue it", arguments: [true, false])
    func fenced(isKnown: Bool) async throws {
        let fleet = try await Fleet()
        let gate = Latch()
        defer { gate.open() }
        let origin = try OriginServer { request in
            var reply = OriginReply.file(FileBytes(seed: 3, count: 2_000_000), to: request)
            reply.hold = (100_000, gate)
            return reply
        }
        let partial = try await fleet.withWorker("w", isOrderly: false) {
            try await fleet.push(#"{"url":"\#(origin.url("/a"))","id":"j","path":"a"}"#)
            try await eventually { try await fleet.queue.job("j")?.offsets.isEmpty == false }
            // Another worker has the job. It continues this generation, or has begun another one.
            let fields = ["token", "another"] + (isKnown ? [] : ["generation", "another"])
            try await fleet.queue.redis.send(Command(arguments: ["HSET", fleet.queue.keys.job("j")] + fields))
            try await eventually("the run to end") {
                try await fleet.queue.redis.send(Command("HGET", fleet.queue.keys.worker("w"), "running")).string == "0"
            }
            return ".haul-\(PartialKey.of("j", in: .default))-\(try await fleet.queue.job("j")?["generation"] ?? "")"
        }
        #expect(fleet.root.names == (isKnown ? [partial] : []))
    }

    @Test("a worker whose name another process has taken ends the runs that it has lost") func takenName() async throws
    {
        let fleet = try await Fleet()
        let gate = Latch()
        defer { gate.open() }
        let origin = try OriginServer { request in
            var reply = OriginReply.file(FileBytes(seed: 3, count: 2_000_000), to: request)
            reply.hold = (100_000, gate)
            return reply
        }
        try await fleet.withWorker("w", isOrderly: false) {
            try await fleet.push(#"{"url":"\#(origin.url("/a"))","id":"j","path":"a"}"#)
            try await eventually { try await fleet.queue.job("j")?.offsets.isEmpty == false }
            // The other process has returned the job, and another worker has begun a generation of its own.
            let keys = fleet.queue.keys
            let seen = try await fleet.queue.time() + 600_000
            try await fleet.queue.redis.send(
                Command("HSET", keys.worker("w"), "instance", "other", "seen", "\(seen)"))
            try await fleet.queue.redis.send(
                Command(arguments: ["HSET", keys.job("j"), "token", "another", "generation", "another"]))
            // The worker's connections break, so that it registers again, and is refused.
            try await fleet.queue.redis.send(Command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"))
            try await eventually("the partial file to be removed") { fleet.root.names.isEmpty }
        }
    }

    @Test("a failed job's partial file is removed at once if no run can continue it", arguments: [true, false])
    func failed(isContinuable: Bool) async throws {
        let fleet = try await Fleet()
        let gate = Latch()
        defer { gate.open() }
        let asked = Shared(0)
        let origin = try OriginServer { request in
            let count = asked.change {
                $0 += 1
                return $0
            }
            guard count == 1 else { return OriginReply(404) }
            var reply = OriginReply.file(
                FileBytes(seed: 3, count: 2_000_000), etag: isContinuable ? "\"v1\"" : nil, to: request)
            reply.hold = (200_000, gate)
            reply.cut = 300_000
            reply.end = .fin
            return reply
        }
        try await fleet.withWorker("w") {
            try await fleet.push(
                #"{"url":"\#(origin.url("/a"))","id":"j","path":"a","retries":0,"connections":1}"#)
            try await eventually { try await fleet.queue.job("j")?.offsets.isEmpty == false }
            gate.open()
            try await fleet.wait("j", for: .failed)
            #expect(try await fleet.queue.job("j")?.offsets.isEmpty == !isContinuable)
            #expect(fleet.root.names.count == (isContinuable ? 1 : 0))
        }
    }

    /// A finished file of a job on `server`, and the `Leftovers` that keep its partial file. Returns the partial file's
    /// name.
    private func settle(
        on server: RedisServer, in root: TemporaryDirectory, after prepare: (Queue) async throws -> Void = { _ in }
    ) async throws -> (Leftovers, queue: Queue, partial: String) {
        let queue = Queue(.default, redis: Redis(try RedisURL(server.url), name: "w", replies: .owed))
        let leftovers = Leftovers(queue, try FileStore(root: root.path))
        let partial = root.leave("j", as: "a")
        try await prepare(queue)
        try await tick(queue)
        await leftovers.retain(
            PartialLocation(
                file: "a", key: PartialKey.of("j", in: .default), generation: TemporaryDirectory.generation),
            of: Run(id: "j", token: "t"))
        return (leftovers, queue, partial)
    }

    /// A write, as ticks make one every second.
    private func tick(_ queue: Queue) async throws { try await queue.redis.send(Command("SET", queue.keys.tick, "1")) }

    @Test("a partial file is kept until a replica has the settle, if a failover may undo the settle")
    func replicated() async throws {
        let (port, root) = (FreePort.next(), TemporaryDirectory())
        let server = try await RedisServer([
            "--bind", "127.0.0.1", "--port", "\(port)", "--repl-diskless-sync-delay", "0",
        ])
        let (leftovers, queue, partial) = try await settle(on: server, in: root)
        #expect(await !leftovers.sweep(olderThan: .zero, mayFailOver: true))
        #expect(root.names == [partial, "a"])
        let replica = try await RedisServer(["--replicaof", "127.0.0.1 \(port)"])
        try await eventually("the replica to acknowledge something") {
            try await tick(queue)
            return await leftovers.sweep(olderThan: .seconds(3600), mayFailOver: true)
        }
        #expect(root.names == [partial, "a"])
        try await eventually("the partial file to be removed") {
            await leftovers.sweep(olderThan: .zero, mayFailOver: true)
            return root.names == ["a"]
        }
        // The sweep does not use WAIT, which would hold up other commands.
        #expect(try await server.cli("INFO", "commandstats").contains("cmdstat_wait:") == false)
        withExtendedLifetime(replica) {}
    }

    @Test("a replica that lags does not count, and settles from before a restart are left to the janitor")
    func lagging() async throws {
        let (port, root) = (FreePort.next(), TemporaryDirectory())
        let server = try await RedisServer([
            "--bind", "127.0.0.1", "--port", "\(port)", "--repl-diskless-sync-delay", "0", "--appendonly", "yes",
        ])
        let replica = try await RedisServer(["--replicaof", "127.0.0.1 \(port)"])
        let (leftovers, queue, partial) = try await settle(on: server, in: root) { queue in
            try await eventually("the replica to follow") {
                try await tick(queue)
                return await queue.replication()?.acknowledged != nil
            }
            replica.signal(SIGSTOP)
        }
        for _ in 1...3 { await leftovers.sweep(olderThan: .zero, mayFailOver: true) }
        #expect(root.names == [partial, "a"])
        let mark = try #require(await queue.replication()).offset
        try await server.restart(by: SIGKILL)
        replica.signal(SIGCONT)
        try await eventually("the replica to acknowledge a later offset") {
            try await tick(queue)
            return await queue.replication()?.acknowledged ?? 0 > mark
        }
        #expect(await !leftovers.sweep(olderThan: .zero, mayFailOver: true))
        #expect(root.names == [partial, "a"])
    }

    @Test("without a replica an old partial file is removed if Redis still has the settle of its run")
    func unannounced() async throws {
        let (server, root) = (try await RedisServer(), TemporaryDirectory())
        let (leftovers, queue, partial) = try await settle(on: server, in: root)
        await leftovers.sweep(olderThan: .zero, mayFailOver: true)
        #expect(root.names == [partial, "a"])
        // Another run has completed the job.
        try await queue.redis.send(Command("HSET", queue.keys.job("j"), "state", "completed", "token", "another"))
        await leftovers.sweep(olderThan: .zero, maxWait: .zero, mayFailOver: true)
        #expect(root.names == [partial, "a"])
        try await queue.redis.send(Command("HSET", queue.keys.job("j"), "token", "t"))
        let place = PartialLocation(
            file: "a", key: PartialKey.of("j", in: .default), generation: TemporaryDirectory.generation)
        await leftovers.retain(place, of: Run(id: "j", token: "t"))
        await leftovers.sweep(olderThan: .zero, maxWait: .zero, mayFailOver: true)
        #expect(root.names == ["a"])
    }

    @Test("after a restart of Redis a partial file is removed if Redis still has the settle")
    func restarted() async throws {
        let (server, root) = (try await RedisServer(["--appendonly", "yes"]), TemporaryDirectory())
        let (leftovers, queue, partial) = try await settle(on: server, in: root) { queue in
            try await queue.redis.send(Command("HSET", queue.keys.job("j"), "state", "completed", "token", "t"))
        }
        try await server.restart()
        try await tick(queue)
        #expect(root.names == [partial, "a"])
        try await eventually("the partial file to be removed") {
            await leftovers.sweep(olderThan: .zero, maxWait: .zero, mayFailOver: true)
            return root.names == ["a"]
        }
    }

    @Test("a job whose end a crash of Redis has lost recognizes its own file", arguments: [3, 300_000])
    func lostEnd(_ size: Int64) async throws {
        let fleet = try await Fleet()
        let origin = try OriginServer { OriginReply.file(FileBytes(seed: 4, count: size), to: $0) }
        let element = #"{"url":"\#(origin.url("/a"))","id":"j","path":"a"}"#
        try await fleet.withWorker("w", isOrderly: false) {
            try await fleet.push(element)
            try await fleet.wait("j", for: .completed)
            // Redis knows nothing of the job any more.
            let keys = fleet.queue.keys
            try await fleet.queue.redis.send(Command("DEL", keys.job("j"), keys.spec("j"), keys.offsets("j")))
            try await fleet.queue.redis.send(Command("ZREM", keys.index(.completed), "j"))
            try await fleet.push(element)
            try await eventually("the second end") { try await fleet.queue.job("j")?.hasEnded == true }
            #expect(try await fleet.queue.job("j")?["error"] == nil)
        }
        #expect(fleet.root.names == ["a"])
    }

    @Test("a partial file is kept on a cluster even if the worker's URL is a plain one") func cluster() async throws {
        let fleet = try await Fleet(RedisServer.clusterOfOne)
        try await fleet.server.serveAllSlots()
        let origin = try OriginServer { _ in OriginReply(body: [1, 2, 3]) }
        try await fleet.withWorker("w") {
            try await fleet.push(#"{"url":"\#(origin.url("/a"))","id":"j","path":"a"}"#)
            try await fleet.wait("j", for: .completed)
        }
        // No replica has the settle.
        #expect(fleet.root.names.count == 2 && fleet.root.names[0].contains(PartialKey.of("j", in: .default)))
    }
}
