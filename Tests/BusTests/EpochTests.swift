import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulBus

/// The events of a job are in order by epoch and `seq`, also after a failover or a restart of the server.
@Suite struct EpochTests {
    /// A primary, and a replica that can take over.
    private struct Pair {
        let servers: [RedisServer]
        let queues: [Queue]
        let worker = WorkerIdentity(name: "w", store: "s")

        init() async throws {
            let ports = [FreePort.next(), FreePort.next()]
            let own = ["--bind", "127.0.0.1", "--repl-diskless-sync-delay", "0"]
            let primary = try await RedisServer(own + ["--port", "\(ports[0])"])
            let replica = try await RedisServer(
                own + ["--port", "\(ports[1])", "--replicaof", "127.0.0.1 \(ports[0])"])
            try await eventually("the replica to follow", within: .seconds(30)) {
                try await replica.cli("INFO", "replication").contains("master_link_status:up")
            }
            servers = [primary, replica]
            queues = try servers.map { Queue(.default, redis: Redis(try RedisURL($0.url), name: "test")) }
            _ = try await queues[0].register(worker, fields: [], known: [])
        }

        func run(_ id: String) async throws -> Run {
            try await queues[0].redis.send(
                Command("LPUSH", queues[0].keys.jobs, #"{"url":"http://h/","id":"\#(id)","reply_to":"me"}"#))
            guard case .job(let claim) = try await queues[0].claim(worker, token: Token.make()) else {
                throw RedisError(.reply, "no job was claimed")
            }
            return claim.run
        }

        /// The newest event on the reply list.
        func reply(_ server: Int) async throws -> Event? {
            let queue = queues[server]
            return try await queue.redis.send(Command("LINDEX", queue.keys.reply("me"), 0)).bytes.flatMap { Event($0) }
        }

        func waitForReplica() async throws {
            try await queues[0].redis.send(Command("SET", "mark", Token.make()))
            #expect(try await queues[0].redis.send(Command("WAIT", 1, 10_000), timeout: .seconds(15)).int == 1)
        }
    }

    @Test("a job that is settled on two primaries has two events, whose positions show the later one")
    func failover() async throws {
        let pair = try await Pair()
        let run = try await pair.run("j")
        try await pair.waitForReplica()
        try await pair.servers[1].cli("REPLICAOF", "NO", "ONE")
        for queue in pair.queues {
            // The first event of a queue begins its epoch, and two servers could do that in the same millisecond.
            let before = try await queue.time()
            try await eventually { try await queue.time() > before }
            try await queue.settle(run, as: QueueFixture.done, worker: pair.worker)
        }
        let (lost, kept) = (try #require(try await pair.reply(0)), try #require(try await pair.reply(1)))
        #expect(lost.name == "completed" && kept.name == "completed")
        #expect(try #require(lost.position) < #require(kept.position))
    }

    @Test("a primary that comes back begins an epoch that is later than its successor's") func back() async throws {
        let pair = try await Pair()
        var positions: [EventPosition] = []
        func settle(_ server: Int) async throws {
            let run = try await pair.queues[server].redis.send(
                Command("HGET", pair.queues[server].keys.job("j"), "token"))
            let queue = pair.queues[server]
            try await queue.settle(
                Run(id: "j", token: try #require(run.string)), as: .released(why: "test"), worker: pair.worker)
            positions.append(try #require(try await queue.job("j")).position)
            var worker = pair.worker
            worker.session = server
            _ = try await queue.register(worker, fields: [], known: [])
            #expect(try await !queue.claim(worker, tokens: [Token.make()]).isEmpty)
        }
        _ = try await pair.run("j")
        try await settle(0)
        try await pair.waitForReplica()
        try await pair.servers[1].cli("REPLICAOF", "NO", "ONE")
        try await settle(1)
        // The events of the old primary still have its old epoch.
        try await settle(0)
        let port = try await pair.servers[1].cli("CONFIG", "GET", "port").split(separator: "\n")[1]
        try await pair.servers[0].cli("REPLICAOF", "127.0.0.1", String(port))
        try await eventually("the old primary to follow", within: .seconds(30)) {
            try await pair.servers[0].cli("INFO", "replication").contains("master_link_status:up")
        }
        try await pair.servers[0].cli("REPLICAOF", "NO", "ONE")
        try await settle(0)
        #expect(positions[1] > positions[0] && positions[2] > positions[0])
        #expect(positions[2].epoch == positions[0].epoch && positions[1].epoch > positions[2].epoch)
        #expect(positions[3].epoch > positions[1].epoch)
    }

    @Test("a server that was restarted begins another epoch, and keeps it") func restarted() async throws {
        let server = try await RedisServer(["--appendonly", "yes"])
        let worker = WorkerIdentity(name: "w", store: "s")
        var epochs: [Int64] = []
        for round in 0..<2 {
            let queue = Queue(.default, redis: Redis(try RedisURL(server.url), name: "test"))
            _ = try await queue.register(worker, fields: [], known: [])
            for id in ["a\(round)", "b\(round)"] {
                try await queue.redis.send(Command("LPUSH", queue.keys.jobs, #"{"url":"http://h/","id":"\#(id)"}"#))
                guard case .job(let claim) = try await queue.claim(worker, token: Token.make()) else { continue }
                try await queue.settle(claim.run, as: QueueFixture.done, worker: worker)
                epochs.append(try #require(try await queue.job(id)?.integer("epoch")))
            }
            try await server.restart()
        }
        #expect(epochs.count == 4 && epochs[0] == epochs[1] && epochs[2] == epochs[3] && epochs[1] < epochs[2])
    }

    @Test("a completed job that waits for replicas is announced once, after a minute at the latest")
    func overdue() async throws {
        let f = try await QueueFixture()
        let queue = Queue(
            .default, redis: f.redis, policy: QueuePolicy(),
            functions: Functions(clock: "return redis.call('GET', 'test:now')"))
        func set(_ seconds: Int) async throws {
            try await f.redis.send(Command("SET", "test:now", 1_800_000_000_000 + seconds * 1000))
        }
        try await set(0)
        try await f.push(#"{"url":"http://h/1","id":"1","reply_to":"me"}"#)
        guard case .job(let claim) = try await queue.claim(f.worker, token: Token.make()) else {
            return #expect(Bool(false), "no job")
        }
        let end = RunEnd(claim.run, QueueFixture.done, awaitsReplicas: true)
        #expect(try await queue.settle([end], worker: f.worker, next: []).isOurs[0].get())
        let record = try #require(try await queue.job("1"))
        #expect(record.state == .completed && !record.hasEnded && record["waiting"] == "replicas")
        func reported() async throws -> Int {
            try await f.redis.send(Command("LLEN", queue.keys.reply("me"))).int ?? -1
        }
        for (seconds, count) in [(1, 0), (59, 0), (61, 1), (62, 1)] {
            try await set(seconds)
            _ = try await queue.tick(f.worker, fields: [], runs: [])
            #expect(try await reported() == count, "after \(seconds) s")
        }
        let event = try #require(
            try await f.redis.send(Command("LINDEX", queue.keys.reply("me"), 0)).bytes.flatMap { Event($0) })
        #expect(event.name == "completed" && event["unreplicated"] != nil && event["file"]?.string == "f")
        #expect(try await queue.job("1")?.hasEnded == true)
        try await f.expectOrder()
    }

    @Test(
        "a completed job that waits for replicas is announced before it runs again or is forgotten",
        arguments: [true, false])
    func overtaken(_ isPushed: Bool) async throws {
        let f = try await QueueFixture()
        let element = #"{"url":"http://h/1","id":"1","reply_to":"me"}"#
        try await f.push(element)
        let claim = try #require(try await f.claim())
        let end = RunEnd(claim.run, QueueFixture.done, awaitsReplicas: true)
        #expect(try await f.queue.settle([end], worker: f.worker, next: []).isOurs[0].get())
        if isPushed {
            try await f.push(element)
            _ = try #require(try await f.claim())
        } else {
            try await f.queue.request(.removed, of: ["1"])
            try await f.tick()
        }
        #expect(try await f.redis.send(Command("LLEN", f.queue.keys.reply("me"))).int == 1)
        #expect(try await f.redis.send(Command("ZCARD", f.queue.keys.unannounced)).int == 0)
        try await f.expectOrder()
    }
}
