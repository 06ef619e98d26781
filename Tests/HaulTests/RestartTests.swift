import Foundation
import Glibc
import HaulBus
import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

/// Restarts of a Redis that runs with the files of deploy/redis.
@Suite struct RestartTests {
    private static let settings = [
        "--include", Roles.repository.appending(path: "deploy/redis/redis.conf").path, "--appendfsync", "always",
        "--enable-debug-command", "local",
    ]

    /// What the first version of the file had: the user `default` without any right.
    private static func withoutRights(_ text: String) -> String {
        text.replacing(/user default off.*/, with: "user default off")
    }

    /// A queue with jobs in many states, and a worker that is frozen while it runs one of them.
    private struct Scene {
        static let bytes = FileBytes(seed: 5, count: 1_600_000)

        let roles: Roles
        let origin: OriginServer
        let root = TemporaryDirectory()
        let gate = Latch()
        let worker: ChildProcess

        init(_ roles: Roles) async throws {
            self.roles = roles
            origin = try OriginServer { [gate] request in
                if request.path == "/missing" { return OriginReply(404) }
                // The largest response, which is not UTF-8, so that the worker sends it in base 64.
                if request.path == "/call" { return OriginReply(body: [UInt8](repeating: 0xff, count: 1 << 20)) }
                guard request.path.hasPrefix("/held") else { return OriginReply(body: Array("small".utf8)) }
                var reply = OriginReply.file(Self.bytes, to: request)
                let start = request.range(of: Self.bytes.count)?.lowerBound ?? 0
                reply.hold = (max(0, 800_000 - start), gate)
                return reply
            }
            #expect(try await roles.haul("deploy", "load-functions").status == 0)
            worker = try roles.start(
                "worker",
                ["worker", "--root", root.path, "--name", "w", "--allow-address", "127.0.0.0/8", "--slots", "3"])
            try await fill()
            worker.kill(SIGSTOP)
        }

        private func fill() async throws {
            for (id, path, more) in [
                ("done", "/a", #","batch":"b","reply_to":"me","meta":{"n":1}"#),
                ("missing", "/missing", #","batch":"b""#),
                ("call", "/call", #","kind":"request","max_response":1048576"#),
                ("later", "/a", #","delay":1000,"deadline":5000"#),
                ("aside", "/held/paused", ""), ("stopped", "/held/stopped", ""), ("running", "/held/running", ""),
            ] {
                try await push(#"{"url":"\#(origin.url(path))","id":"\#(id)"\#(more)}"#)
            }
            try await push("nonsense")
            for (id, state) in [
                ("done", "completed"), ("missing", "failed"), ("call", "completed"), ("later", "scheduled"),
            ] {
                try await wait(id, for: state)
            }
            for id in ["aside", "stopped", "running"] {
                try await eventually("\(id) to have a checkpoint", within: .seconds(30)) {
                    try await roles.cli("monitor", ["HLEN", Roles.prefix + "offsets:\(id)"]) != "0"
                }
            }
            for verb in ["pause aside", "cancel stopped", "queue set rate 5000000", "queue set default.retries 3"] {
                #expect(try await roles.haul("operator", verb).status == 0)
            }
            try await wait("aside", for: "paused")
            try await wait("stopped", for: "cancelled")
            #expect(try await roles.haul("operator", "queue pause").status == 0)
            try await push(#"{"url":"\#(origin.url("/a"))","id":"waiting","batch":"c"}"#)
        }

        func push(_ element: String) async throws {
            _ = try await roles.cli("producer", ["LPUSH", Roles.prefix + "jobs", element])
        }

        func wait(_ id: String, for state: String) async throws {
            try await eventually("\(id) to be \(state): \(worker.standardError)", within: .seconds(40)) {
                try await roles.cli("monitor", ["HGET", Roles.prefix + "job:\(id)", "state"]) == state
            }
        }

        /// A digest and the time of the end of each key, and how many libraries of functions there are.
        func keySpace() async throws -> [String: String] {
            let admin = Redis(try RedisURL(Roles.url("admin", of: roles.server)), name: "digest")
            var result: [String: String] = [:]
            for name in try await admin.send(Command("KEYS", "*")).array!.map({ $0.string! }) {
                let digest = try await admin.send(Command("DEBUG", "DIGEST-VALUE", name)).array![0].string!
                result[name] = "\(digest) \(try await admin.send(Command("PEXPIRETIME", name)).int!)"
            }
            result["libraries"] = String(try await admin.send(Command("FUNCTION", "LIST")).array!.count)
            await admin.close()
            return result
        }

        /// The key space after Redis has executed what the worker had sent before it was frozen.
        func settledKeySpace() async throws -> [String: String] {
            var last = try await keySpace()
            try await eventually("the key space to stay as it is") {
                let next = try await keySpace()
                defer { last = next }
                return next == last
            }
            return last
        }

        func expectKept(_ before: [String: String], _ location: SourceLocation = #_sourceLocation) async throws {
            let after = try await keySpace()
            let changed = before.keys.filter { after[$0] != before[$0] } + after.keys.filter { before[$0] == nil }
            #expect(changed.sorted() == [], sourceLocation: location)
        }

        /// Lets the worker go on, and expects that the jobs end as if nothing had happened.
        func finish() async throws {
            worker.kill(SIGCONT)
            gate.open()
            try await wait("running", for: "completed")
            #expect(FileManager.default.contents(atPath: root.file("running")) == Data(Self.bytes.bytes(0..<1_600_000)))
            worker.kill(SIGTERM)
            #expect(try await worker.wait(within: .seconds(30)) == 0)
            let (_, out, err) = try await roles.haul("inspector", "check")
            #expect(out == "all is in order\n", "\(out)\(err)")
        }
    }

    @Test(
        "with the files of deploy/redis nothing is lost when Redis ends, or is killed, and starts again",
        arguments: RedisServer.Kind.installed)
    func restart(_ kind: RedisServer.Kind) async throws {
        let roles = try await Roles(Self.settings, kind: kind)
        let scene = try await Scene(roles)
        let before = try await scene.settledKeySpace()
        for name in ["leases", "offsets:running", "settings", "batch:b", "members:b", "rejected", "paused"] {
            #expect(before[Roles.prefix + name] != nil, "\(name)")
        }
        for signal in [SIGTERM, SIGKILL] {
            try await roles.server.restart(by: signal)
            try await scene.expectKept(before)
        }
        try await scene.finish()
    }

    /// With Redis' default the second start would apply the half of the transaction that is left.
    @Test(
        "Redis does not start with a transaction that a loss of power has cut, and applies none of it once it is mended"
    )
    func torn() async throws {
        let server = try await RedisServer(Self.settings)
        func values(_ keys: String...) async throws -> [String] {
            var values: [String] = []
            for key in keys { values.append(try await server.cli("GET", key)) }
            return values
        }
        func count(_ keys: [String]) async throws {
            let redis = Redis(try RedisURL(server.url), name: "counter")
            try await redis.send(
                Command(
                    "EVAL", "for _, key in ipairs(KEYS) do redis.call('INCR', key) end", keys.count, keys[0], keys[1],
                    keys[2]))
            await redis.close()
        }
        try await count(["a", "b", "c"])
        let status = try await server.restart { directory in
            let folder = URL(fileURLWithPath: directory + "/appendonlydir")
            let files = try FileManager.default.contentsOfDirectory(atPath: folder.path)
            let file = try #require(files.first { $0.hasSuffix(".incr.aof") })
            let handle = try FileHandle(forWritingTo: folder.appending(path: file))
            // The end of the command for c, and EXEC, which are not on the disk yet.
            try handle.truncate(atOffset: try handle.seekToEnd() - 20)
            try handle.close()
        }
        #expect(status == 1)
        let log = try String(contentsOfFile: server.directory.file("log"), encoding: .utf8)
        #expect(log.contains("Unexpected end of file reading the append only file"), "\(log.suffix(500))")
        let again = try await server.restart { directory in
            let manifest = directory + "/appendonlydir/appendonly.aof.manifest"
            let check = try ChildProcess("sh", ["-c", "echo y | redis-check-aof --fix '\(manifest)'"])
            #expect(try await check.wait() == 0, "\(check.standardOutput)")
        }
        #expect(again == nil)
        try await count(["x", "y", "z"])
        try await server.restart(by: SIGKILL)
        #expect(try await values("a", "b", "c", "x", "y", "z") == ["", "", "", "1", "1", "1"])
    }

    @Test("a Redis that ran with an older users.acl loses nothing if its file is corrected before it restarts")
    func corrected() async throws {
        let roles = try await Roles(Self.settings, change: Self.withoutRights)
        let scene = try await Scene(roles)
        let before = try await scene.settledKeySpace()
        let file = roles.directory.file("users.acl")
        let text = try String(contentsOfFile: file, encoding: .utf8)
        try text.replacing("user default off", with: "user default off ~* &* +@all").write(
            toFile: file, atomically: true, encoding: .utf8)
        try await roles.server.restart(by: SIGTERM)
        try await scene.expectKept(before)
        try await scene.finish()
    }

    @Test("a worker and haul check warn of a user default that cannot replay the AOF, and only then")
    func warned() async throws {
        let words = "replays its AOF as the user default"
        for (settings, isWarned) in [(Self.settings, true), ([], false)] {
            let roles = try await Roles(settings, change: Self.withoutRights)
            #expect(try await roles.haul("deploy", "load-functions").status == 0)
            let root = TemporaryDirectory()
            let worker = try roles.start("worker", ["worker", "--root", root.path, "--name", "w"])
            try await eventually("the worker to work") { worker.standardError.contains("working") }
            let expected = isWarned ? "a restart of Redis may lose what workers have written: it \(words)" : nil
            #expect(worker.standardError.contains(words) == isWarned, "\(worker.standardError)")
            if let expected { #expect(worker.standardError.contains(expected)) }
            let check = try await roles.haul("inspector", "check")
            #expect(check.out.contains("user default off ~* &* +@all") == isWarned, "\(check)")
            #expect(check.status == (isWarned ? 1 : 0))
            guard isWarned else { continue }
            for rules in ["reset off ~* &* +@all", "reset on nopass ~haul:* &* +@all -@admin"] {
                let words = ["ACL", "SETUSER", "default"] + rules.split(separator: " ").map(String.init)
                try await roles.admin.send(Command(arguments: words))
                #expect(try await roles.haul("inspector", "check").status == 0, "\(rules)")
            }
            // Older roles lack the right to ask: the worker says that it does not know.
            try await roles.admin.send(Command("ACL", "SETUSER", "worker", "-acl|dryrun"))
            let other = try roles.start("worker", ["worker", "--root", root.path, "--name", "other"])
            try await eventually("the other worker to work") { other.standardError.contains("working") }
            #expect(other.standardError.contains("may not run ACL DRYRUN"), "\(other.standardError)")
            #expect(!other.standardError.contains(words))
        }
    }

    @Test("the user default can replay the AOF in each ACL file that is shipped or made by what is shipped")
    func shipped() async throws {
        let made = TemporaryDirectory()
        let maker = try ChildProcess(
            "python3",
            [
                Roles.repository.appending(path: "deploy/compose/passwords.py").path, "--acl", made.path, "--haul",
                made.path, "--template", ShippedRoles.path,
            ])
        #expect(try await maker.wait() == 0, "\(maker.standardError)")
        let shipped = made.file("shipped.acl")
        try ShippedRoles.text().write(toFile: shipped, atomically: true, encoding: .utf8)
        for file in [shipped, made.file("users.acl")] {
            let server = try await RedisServer(["--aclfile", file, "--appendonly", "yes"])
            let text = try String(contentsOfFile: file, encoding: .utf8)
            let password = try #require(text.firstMatch(of: /user worker on >(\S+)/)).1
            let redis = Redis(try RedisURL("\(server.url)?user=worker&password=\(password)"), name: "test")
            #expect(try await Queue(.default, redis: redis).replayRights() == .sufficient, "\(file)")
            // No process can use these rights.
            #expect(try await server.cli("PING").contains("NOAUTH"))
            #expect(try await server.cli("AUTH", "").contains("WRONGPASS"))
            await redis.close()
        }
    }

    @Test("no file of the repository shows a user default that is off and has no rights") func written() throws {
        let folder = Roles.repository
        for start in ["deploy", "docs", "README.md", "Tests/chaos", "Tests/bench", "Tests/web"] {
            let place = folder.appending(path: start)
            let names = (FileManager.default.enumerator(atPath: place.path)?.allObjects as? [String]) ?? []
            for name in names.isEmpty ? [""] : names {
                let url = name.isEmpty ? place : place.appending(path: name)
                guard let text = (try? String(contentsOf: url, encoding: .utf8)).map({ "\n" + $0 }) else { continue }
                #expect(text.firstMatch(of: /\n *user default off *\n/) == nil, "\(url.path)")
            }
        }
    }
}
