import Foundation
import HaulClient
import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

/// What the roles of deploy/redis/users.acl may not do, and what happens when a right or a password changes.
@Suite struct RoleLimitTests {
    @Test("the documented role with a prefix takes replies of its own names, and of no others")
    func replyPrefix() async throws {
        let page = try String(
            contentsOf: Roles.repository.appending(path: "docs/evaluate/security.md"), encoding: .utf8)
        let line = try #require(page.split(separator: "\n").first { $0.contains("user films-billing on >PASSWORD") })
        let role = "films-billing"
        let user = line.trimmingCharacters(in: .whitespaces).replacing("{films}", with: "{default}")
            .replacing(">PASSWORD", with: ">\(ShippedRoles.password(of: role))")
        let roles = try await Roles { $0 + "\n" + user + "\n" }
        // It differs from the shipped role in nothing but the prefix.
        let rules = user.split(separator: " ", maxSplits: 4)[4]
        #expect(rules.replacing(":reply:billing-*", with: ":reply:*") == roles.rules["producer"] ?? "")
        for name in ["billing-1", "billing", "other"] {
            try await roles.admin.send(Command("LPUSH", Roles.prefix + "reply:\(name)", "of \(name)"))
            let output = try await roles.cli(role, ["RPOP", Roles.prefix + "reply:\(name)"])
            #expect(name == "billing-1" ? output == "of billing-1" : output.contains("NOPERM"), "\(name): \(output)")
        }
        #expect(try await roles.cli(role, ["BRPOP", Roles.prefix + "reply:billing-1", "0.1"]) == "")
        #expect(try await roles.cli(role, ["BRPOP", Roles.prefix + "reply:other", "0.1"]).contains("NOPERM"))
        #expect(try await roles.cli(role, ["LPUSH", Roles.prefix + "jobs", #"{"url":"http://h/"}"#]) == "1")
        #expect(try await roles.cli(role, ["LPUSH", Roles.prefix + "reply:billing-1", "x"]).contains("NOPERM"))
    }

    @Test("an operator who lists the queues is told which role may") func queues() async throws {
        let roles = try await Roles()
        let queues = try await roles.haul("operator", "queues")
        #expect(queues.status == 3 && queues.err.contains("the role inspector may"), "\(queues)")
    }

    @Test("a worker that may not load functions logs what to run, and works once that is done")
    func unloaded() async throws {
        let roles = try await Roles()
        let root = TemporaryDirectory()
        let arguments = ["worker", "--root", root.path, "--name", "w"]
        let early = try roles.start("worker", arguments)
        #expect(try await early.wait(within: .seconds(20)) == 3)
        #expect(early.standardError.contains("haul load-functions"), "\(early.standardError)")
        #expect(try await roles.haul("deploy", "load-functions").out.hasPrefix("haul_"))
        let worker = try roles.start("worker", arguments)
        try await eventually("the worker to work", within: .seconds(20)) { worker.standardError.contains("working") }
        worker.kill(SIGTERM)
        #expect(try await worker.wait(within: .seconds(20)) == 0)
    }

    @Test("the operator cannot forge events, and a worker cannot replace functions or kill clients")
    func refused() async throws {
        let roles = try await Roles()
        for (role, command) in [
            ("operator", ["PUBLISH", Roles.prefix + "events:a", "{}"]), ("operator", ["FCALL", "f", "0"]),
            ("worker", ["FUNCTION", "LOAD", "REPLACE", "#!lua name=x"]), ("worker", ["FUNCTION", "DELETE", "x"]),
            ("worker", ["CLIENT", "KILL", "TYPE", "normal"]), ("worker", ["CLIENT", "UNBLOCK", "1"]),
            ("worker", ["CLIENT", "LIST"]), ("deploy", ["FUNCTION", "FLUSH"]), ("deploy", ["FCALL", "f", "0"]),
            ("deploy", ["GET", Roles.prefix + "tick"]), ("inspector", ["FUNCTION", "LOAD", "x"]),
            ("inspector", ["LPUSH", Roles.prefix + "jobs", "x"]),
            ("monitor", ["LRANGE", Roles.prefix + "jobs", "0", "-1"]),
        ] {
            #expect(try await roles.cli(role, command).contains("NOPERM"), "\(role): \(command)")
        }
    }

    @Test("the role `admin` may run the commands for which docs/operate/ needs an administrator") func administrator()
        async throws
    {
        let roles = try await Roles(["--appendonly", "yes"])
        let libraries = try await roles.haul("admin", "load-functions").out
        let name = try #require(libraries.firstMatch(of: /haul_[0-9a-f]+/)).0
        for command in [
            ["ACL", "SETUSER", "worker", ">NEW"], ["ACL", "SAVE"], ["ACL", "LOAD"], ["ACL", "GETUSER", "default"],
            ["CLIENT", "KILL", "USER", "worker"], ["CONFIG", "SET", "maxmemory", "1gb"], ["BGREWRITEAOF"],
            ["FUNCTION", "LIST"], ["FUNCTION", "DELETE", String(name)], ["DEL", Roles.prefix + "rejected"],
            ["--rdb", roles.directory.file("copy.rdb")], ["INFO"], ["SHUTDOWN", "NOSAVE"],
        ] {
            let reply = try await roles.cli("admin", command)
            #expect(!reply.contains("NOPERM") && !reply.hasPrefix("ERR"), "\(command): \(reply)")
        }
        #expect(roles.directory.contents("copy.rdb")?.starts(with: Array("REDIS".utf8)) == true)
        #expect(try await roles.cli("admin", ["PING"]).contains("PONG") == false)
    }

    @Test("a password is replaced while jobs run, and the old one is refused afterwards") func rotated() async throws {
        let roles = try await Roles()
        #expect(try await roles.haul("deploy", "load-functions").status == 0)
        let (bytes, gate, root) = (FileBytes(seed: 9, count: 1_600_000), Latch(), TemporaryDirectory())
        let origin = try OriginServer { request in
            var reply = OriginReply.file(bytes, to: request)
            let start = request.range(of: bytes.count)?.lowerBound ?? 0
            reply.hold = (max(0, 800_000 - start), gate)
            return reply
        }
        let file = roles.directory.file("url")
        func write(_ password: String) throws {
            let url = "\(roles.server.url)?db=1&user=worker&password=\(password)\n"
            try url.write(toFile: file, atomically: true, encoding: .utf8)
        }
        func start(_ name: String) throws -> ChildProcess {
            try ChildProcess(
                "haul",
                ["worker", "--root", root.path, "--name", name, "--allow-address", "127.0.0.0/8", "--slots", "1"],
                environment: ["HAUL_REDIS_FILE": file])
        }
        try write("WORKER-PASSWORD")
        var workers = [try start("one"), try start("two")]
        for id in ["a", "b"] {
            let element = #"{"url":"\#(origin.url("/" + id))","id":"\#(id)"}"#
            _ = try await roles.cli("producer", ["LPUSH", Roles.prefix + "jobs", element])
            try await eventually("\(id) to have a checkpoint", within: .seconds(30)) {
                try await roles.cli("monitor", ["HLEN", Roles.prefix + "offsets:\(id)"]) != "0"
            }
        }
        #expect(try await roles.cli("admin", ["ACL", "SETUSER", "worker", ">NEW"]) == "OK")
        #expect(try await roles.cli("admin", ["ACL", "SAVE"]) == "OK")
        try write("NEW")
        // A reload cannot apply it, and says so.
        workers[0].kill(SIGHUP)
        try await eventually("the worker to say what needs a restart") {
            workers[0].standardError.contains("need a restart")
        }
        for (index, name) in ["one", "two"].enumerated() {
            workers[index].kill(SIGTERM)
            #expect(try await workers[index].wait(within: .seconds(30)) == 0)
            workers[index] = try start(name)
            let worker = workers[index]
            try await eventually("\(name) to work again") { worker.standardError.contains("working") }
        }
        #expect(try await roles.cli("admin", ["ACL", "SETUSER", "worker", "<WORKER-PASSWORD"]) == "OK")
        #expect(try await roles.cli("admin", ["ACL", "SAVE"]) == "OK")
        _ = try await roles.cli("admin", ["CLIENT", "KILL", "USER", "worker"])
        #expect(try await roles.cli("worker", ["PING"]).contains("NOAUTH"))
        gate.open()
        for id in ["a", "b"] {
            try await eventually("\(id) to be completed: \(workers.map(\.standardError))", within: .seconds(40)) {
                try await roles.cli("monitor", ["HGET", Roles.prefix + "job:\(id)", "state"]) == "completed"
            }
            #expect(try await roles.cli("monitor", ["HGET", Roles.prefix + "job:\(id)", "attempt"]) == "")
        }
        // The saved file holds the new password alone.
        try await roles.server.restart()
        try await eventually("a worker to be connected again", within: .seconds(30)) {
            try await roles.cli("admin", ["CLIENT", "LIST"]).contains("user=worker")
        }
        for worker in workers { worker.kill(SIGTERM) }
        for worker in workers { #expect(try await worker.wait(within: .seconds(30)) == 0) }
    }

    @Test("the shipped accounts file lets no user sign in") func placeholders() async throws {
        let server = try await RedisServer(["--aclfile", ShippedRoles.path])
        for role in ["default", "admin", "worker", "producer"] {
            for password in ["", ShippedRoles.password(of: role), String(repeating: "0", count: 64)] {
                #expect(try await server.cli("AUTH", role, password).contains("WRONGPASS"), "\(role)")
            }
        }
        let acl = try String(contentsOfFile: ShippedRoles.path, encoding: .utf8)
        #expect(!acl.contains(">") && !acl.contains("nopass"))
    }
}
