import Foundation
import HaulBus
import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

/// Tests deploy/redis/users.acl on a real server: each role may do its part, and nothing else.
@Suite struct AccessTests {
    struct Roles {
        let server: RedisServer
        private let directory = TemporaryDirectory()

        init() async throws {
            let file = directory.file("users.acl")
            try ShippedRoles.text().write(toFile: file, atomically: true, encoding: .utf8)
            server = try await RedisServer(["--aclfile", file])
            _ = try await queue("deploy").loadFunctions()
        }

        func redis(_ role: String) throws -> Redis {
            let url = "\(server.url)?user=\(role)&password=\(ShippedRoles.password(of: role))"
            return Redis(try RedisURL(url), name: role)
        }

        func queue(_ role: String) throws -> Queue { Queue(.default, redis: try redis(role)) }

        /// Whether the role may send a command, in which `K:` stands for the queue's prefix.
        func permits(_ role: String, _ command: String) async throws -> Bool {
            let redis = try redis(role)
            let words = command.replacingOccurrences(of: "K:", with: "haul:{default}:").split(separator: " ")
            do throws(RedisError) {
                _ = try await redis.send(Command(arguments: words.map(String.init)))
                return true
            } catch {
                #expect(error.code == .noPermission, "\(role): \(command): \(error.message)")
                return false
            }
        }
    }

    @Test("each role may do its part") func permitted() async throws {
        let roles = try await Roles()
        let worker = WorkerIdentity(name: "w1", store: "s")
        let queue = try roles.queue("worker")
        #expect(try await queue.register(worker, fields: [], known: []))
        #expect(try await roles.permits("producer", #"LPUSH K:jobs {"url":"http://h/1","id":"1","reply_to":"me"}"#))
        let waiter = try roles.redis("worker")
        let reply = try await queue.waitAndClaim(worker, token: Token.make(), block: .seconds(1), on: waiter)
        guard case .job(let claim) = reply else { return #expect(Bool(false), "no job") }
        #expect(try await queue.tick(worker, fields: [], runs: [(claim.run, RunReport())]).fenced.isEmpty)
        let settled = try await queue.settle(
            claim.run, as: QueueFixture.done, report: RunReport(), worker: worker, next: Token.make())
        #expect(settled.isOurs)
        #expect(try await roles.permits("producer", "BRPOP K:reply:me 1"))
        #expect(try await roles.permits("producer", #"RPUSH K:jobs {"url":"http://h/2","id":"2"}"#))
        let monitor = try roles.queue("monitor")
        #expect(try await monitor.job("1")?.state == .completed)
        #expect(try await monitor.stats().counts[.completed] == 1)
        #expect(try await monitor.workers().count == 1)
        let operating = try roles.queue("operator")
        try await operating.request(.removed, of: ["1"])
        try await operating.setSetting("max_running", to: "3")
        #expect(try await operating.rejected(limit: 10).isEmpty)
        #expect(try await queue.tick(worker, fields: [], runs: []).gate == .open)
        #expect(try await monitor.job("1") == nil)
        try await queue.leave(worker)
        for role in ["monitor", "operator"] {
            #expect(try await roles.permits(role, "PSUBSCRIBE K:events:*"))
        }
        #expect(try await roles.permits("worker", "SUBSCRIBE K:control"))
        // docs/operate/redis.md reads the line in this way. A worker finds out in this way which key has a wrong type.
        #expect(try await roles.permits("operator", "LINDEX K:jobs -1"))
        #expect(try await roles.permits("worker", "TYPE K:jobs"))
    }

    @Test("no role may do more than its part") func refused() async throws {
        let roles = try await Roles()
        let commands = [
            ("producer", "RPOP K:jobs"), ("service", "HGETALL K:spec:1"), ("service", "LRANGE K:rejected 0 -1"),
            ("service", "HSET K:settings paused 1"), ("service", "HSET K:job:1 state queued"),
            ("service", "RPOP K:jobs"),
            ("service", "PUBLISH K:events:1 x"), ("web", "PUBLISH K:events:1 x"), ("web", "HSET K:job:1 state queued"),
            ("web", "HSET K:spec:1 spec x"), ("web", "BRPOP K:reply:me 1"), ("web", "DEL K:job:1"),
            ("web", "EVAL return 0"),
            ("producer", "LRANGE K:jobs 0 -1"), ("producer", "HGETALL K:job:1"),
            ("producer", "LPUSH haul:{other}:jobs x"), ("producer", "HSET K:want 1 cancelled"),
            ("producer", "HGETALL K:spec:1"), ("producer", "PUBLISH K:control 1"), ("producer", "EVAL return 0"),
            ("producer", "PSUBSCRIBE *"),
            ("monitor", "HGETALL K:spec:1"), ("monitor", "LRANGE K:jobs 0 -1"), ("monitor", "LRANGE K:rejected 0 -1"),
            ("monitor", "HSET K:want 1 cancelled"), ("monitor", "HSET K:settings paused 1"),
            ("monitor", "LPUSH K:jobs x"), ("monitor", "PUBLISH K:control 1"), ("monitor", "DEL K:job:1"),
            ("monitor", "BRPOP K:reply:me 1"), ("monitor", "LRANGE K:held:w1 0 -1"), ("monitor", "EVAL return 0"),
            ("monitor", "CONFIG GET *"), ("monitor", "PSUBSCRIBE *"), ("monitor", "KEYS *"),
            ("operator", "LPUSH K:jobs x"), ("operator", "HSET K:job:1 state queued"), ("operator", "DEL K:want"),
            ("monitor", "HGETALL K:defaults"), ("service", "HGETALL K:defaults"),
            ("operator", "HGETALL K:spec:1"), ("operator", "EVAL return 0"),
            ("operator", "HSET haul:{other}:want 1 paused"), ("operator", "CONFIG SET maxmemory 1"),
            ("worker", "LPUSH haul:{other}:jobs x"), ("worker", "FLUSHALL"), ("worker", "CONFIG GET *"),
            ("worker", "KEYS *"), ("worker", "SUBSCRIBE other"), ("worker", "SHUTDOWN"), ("worker", "ACL LIST"),
        ]
        for (role, command) in commands {
            #expect(try await roles.permits(role, command) == false, "\(role): \(command)")
        }
    }

    @Test("an event that may not be published is reported, and its replies and its batch are not lost")
    func unpublished() async throws {
        let f = try await QueueFixture()
        _ = try await f.queue.loadFunctions()
        try await f.redis.send(Command("ACL", "SETUSER", "w", "on", ">p", "~*", "+@all", "resetchannels"))
        let redis = Redis(try RedisURL("\(f.server.url)?user=w&password=p"), name: "w")
        let queue = Queue(.default, redis: redis)
        try await f.push(#"{"id":"a","url":"http://h/","reply_to":"r","batch":{"name":"b","size":1,"reply_to":"s"}}"#)
        guard case .job(let claim) = try await queue.claim(f.worker, token: Token.make()) else {
            return #expect(Bool(false), "no job")
        }
        let end = RunEnd(claim.run, QueueFixture.done)
        let reply = try await queue.settle([end], worker: f.worker, next: []).isOurs
        guard case .failure(let error)? = reply.first else { return #expect(Bool(false), "\(reply)") }
        #expect(error.message.contains("channel"), "\(error)")
        #expect(try await f.state("a") == .completed)
        // It is settled.
        #expect(try await queue.settle([end], worker: f.worker, next: []).isOurs[0].get())
        for list in ["r", "s"] { #expect(try await f.redis.send(Command("LLEN", f.queue.keys.reply(list))).int == 1) }
        // A refused element stops none behind it.
        try await f.push(#"{"id":"bad"}"#)
        try await f.push(#"{"id":"good","url":"http://h/"}"#)
        guard case .job(let good) = try await queue.claim(f.worker, token: Token.make()) else {
            return #expect(Bool(false), "no job")
        }
        #expect(good.run.id == "good")
        #expect(try await f.queue.rejected(limit: 10).count == 1)
        // A tick names the reason.
        try await f.queue.request(.cancelled, of: ["c"])
        try await f.tick()
        try await f.push(#"{"id":"d","url":"http://h/","delay":1000}"#)
        #expect(try await f.claim() == nil)
        try await f.queue.request(.cancelled, of: ["d"])
        #expect(try await queue.tick(f.worker, runs: []).refused?.contains("channel") == true)
        #expect(try await f.state("d") == .cancelled)
        #expect(try await Inspection(f.queue).run().isEmpty)
    }
}
