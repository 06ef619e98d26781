import Foundation
import Glibc
import HaulContract
import HaulRedis
import HaulTestSupport
import Testing

/// `haul up`: a Redis, a worker and the page in one process tree.
@Suite("haul up") struct UpTests {
    private let directory = TemporaryDirectory()
    private let port = FreePort.next()

    private var root: String { directory.file("files") }
    private var privateFiles: String { root + "/.haul" }

    private func up(_ more: [String] = [], environment: [String: String] = [:]) throws -> ChildProcess {
        try ChildProcess(
            "haul", ["up", "--root", root, "--listen", "127.0.0.1:\(port)", "--allow-address", "127.0.0.0/8"] + more,
            environment: environment)
    }

    /// What `haul up --json` prints once all is ready.
    private func printed(_ up: ChildProcess) async throws -> JSON {
        try await eventually("haul up to be ready", within: .seconds(60)) {
            try #require(up.isRunning, "\(up.standardError)")
            return up.standardOutput.hasSuffix("\n")
        }
        return try JSON(up.standardOutput)
    }

    private func run(_ program: String, _ arguments: [String]) async throws -> String {
        let process = try ChildProcess(program, arguments)
        _ = try await process.wait()
        return process.standardOutput
    }

    private func redis(_ arguments: String...) async throws -> String {
        try await run("redis-cli", ["-s", privateFiles + "/redis.sock"] + arguments)
    }

    private func status(_ credentials: String) async throws -> String {
        try await run(
            "curl",
            [
                "-s", "-o", "/dev/null", "-w", "%{http_code}", "-u", credentials,
                "http://127.0.0.1:\(port)/api/queues/default",
            ])
    }

    /// The processes of this root that run, without `haul up` itself.
    private func children(of up: ChildProcess) throws -> [Int32] {
        try FileManager.default.contentsOfDirectory(atPath: "/proc").compactMap { Int32($0) }.filter { id in
            let line = FileManager.default.contents(atPath: "/proc/\(id)/cmdline") ?? Data()
            return id != up.id && String(decoding: line, as: UTF8.self).contains(root)
        }
    }

    @Test(
        "it prints the page, a password, Redis and the root; a push ends with the file, and the next start knows the job"
    )
    func whole() async throws {
        let origin = try OriginServer { _ in OriginReply(body: Array("film".utf8)) }
        let first = try up(["--json"])
        let output = try await printed(first)
        let password = try #require(output["password"]?.string)
        #expect(output["page"]?.string == "http://127.0.0.1:\(port)/" && output["user"]?.string == "admin")
        #expect(output["root"]?.string == URL(fileURLWithPath: root).resolvingSymlinksInPath().path)
        #expect(output["redis"]?.string?.hasSuffix("/.haul/redis.sock") == true)
        #expect(try await status("admin:\(password)") == "200")
        #expect(try await status("admin:wrong") == "401")
        _ = try await redis(
            "LPUSH", "haul:{default}:jobs", #"{"url":"\#(origin.url("/a"))","id":"a","reply_to":"me"}"#)
        #expect(try await redis("BRPOP", "haul:{default}:reply:me", "60").contains(#""event":"completed""#))
        #expect(FileManager.default.contents(atPath: root + "/a") == Data("film".utf8))
        #expect(try children(of: first).count == 3)
        first.kill(SIGTERM)
        #expect(try await first.wait() == 0, "\(first.standardError)")
        #expect(try children(of: first).isEmpty)

        let second = try up(["--json"])
        #expect(try await printed(second)["password"]?.string == password)
        #expect(try await redis("HGET", "haul:{default}:job:a", "state") == "completed\n")
        second.kill(SIGTERM)
        #expect(try await second.wait() == 0)
    }

    @Test(
        "with --expose-redis its Redis has a port of loopback, and demands the password, also one of the user's own",
        arguments: [nil, #"cor rect" h&rse%41/b?#'é\"#] as [String?])
    func exposed(_ own: String?) async throws {
        let redisPort = FreePort.next()
        if let own {
            try FileManager.default.createDirectory(
                atPath: privateFiles, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
            try own.write(toFile: privateFiles + "/password", atomically: false, encoding: .utf8)
        }
        let up = try up(["--json", "--expose-redis", "--redis-port", "\(redisPort)"])
        let output = try await printed(up)
        let url = try #require(output["redis"]?.string)
        let password = try #require(output["password"]?.string)
        #expect(own == nil ? url == "redis://default:\(password)@127.0.0.1:\(redisPort)" : password == own)
        #expect(try RedisURL(url).password == password)
        #expect(try await run("redis-cli", ["-p", "\(redisPort)", "PING"]).contains("NOAUTH"))
        #expect(try await run("redis-cli", ["-u", url, "--no-auth-warning", "PING"]) == "PONG\n")
        let arguments = try children(of: up).map {
            FileManager.default.contents(atPath: "/proc/\($0)/cmdline") ?? Data()
        }
        let isSecret = arguments.allSatisfy {
            !String(decoding: $0, as: UTF8.self).contains(output["password"]!.string!)
        }
        #expect(isSecret, "the password is among the arguments of a process")
        up.kill(SIGTERM)
        #expect(try await up.wait() == 0)
    }

    @Test("when it is killed, its programs end, and the next one takes its jobs back") func killed() async throws {
        let up = try up(["--json"])
        _ = try await printed(up)
        #expect(try children(of: up).count == 3)
        up.kill(SIGKILL)
        _ = try await up.wait()
        try await eventually("the end of all its programs", within: .seconds(30)) { try children(of: up).isEmpty }
        let next = try self.up(["--json"])
        _ = try await printed(next)
        next.kill(SIGINT)
        #expect(try await next.wait() == 0)
    }

    @Test("when one of its programs ends, it ends the others and says which one") func broken() async throws {
        let up = try up()
        try await eventually("haul up to be ready", within: .seconds(60)) { up.standardOutput.contains("watch") }
        let text = try String(contentsOfFile: privateFiles + "/password", encoding: .utf8)
        #expect(up.standardOutput.contains("password \(text)"))
        #expect(up.standardOutput.contains("redis-cli -s \(privateFiles)/redis.sock LPUSH"))
        _ = try await redis("SHUTDOWN")
        #expect(try await up.wait() == 1)
        #expect(up.standardError.contains("redis-server ended with exit status 0; haul up has stopped the others"))
        #expect(try children(of: up).isEmpty)
    }

    @Test("the page has the password of the file, whatever has become of its accounts", arguments: [true, false])
    func accounts(isEmptied: Bool) async throws {
        let first = try up(["--json"])
        let password = try #require(try await printed(first)["password"]?.string)
        first.kill(SIGTERM)
        #expect(try await first.wait() == 0)
        let accounts = privateFiles + "/web.auth"
        var other = try String(contentsOfFile: accounts, encoding: .utf8).replacing(
            "admin operator", with: "guest viewer")
        if isEmptied { other = "" }
        try (other).write(toFile: accounts, atomically: false, encoding: .utf8)
        if !isEmptied { try "changed".write(toFile: privateFiles + "/password", atomically: false, encoding: .utf8) }
        let second = try up(["--json"])
        _ = try await printed(second)
        #expect(try await status("admin:" + (isEmptied ? password : "changed")) == "200")
        if !isEmptied { #expect(try await status("guest:\(password)") == "200") }
        second.kill(SIGTERM)
        #expect(try await second.wait() == 0)
    }

    @Test("a root may have spaces, quotes and backslashes in its name") func strangeName() async throws {
        let root = directory.file(#"a "b" 'c' \d"#)
        let up = try ChildProcess("haul", ["up", "--root", root, "--listen", "127.0.0.1:\(port)", "--json"])
        #expect(try await printed(up)["redis"]?.string == "unix://\(root)/.haul/redis.sock")
        #expect(try await run("redis-cli", ["-s", root + "/.haul/redis.sock", "PING"]) == "PONG\n")
        up.kill(SIGTERM)
        #expect(try await up.wait() == 0, "\(up.standardError)")
    }

    @Test("a private directory that others can enter or have made is refused") func foreign() async throws {
        try FileManager.default.createDirectory(atPath: privateFiles, withIntermediateDirectories: true)
        chmod(privateFiles, 0o755)
        let open = try up()
        #expect(try await open.wait() == 2 && open.standardError.contains("no other user can enter"))
        try FileManager.default.removeItem(atPath: privateFiles)
        try FileManager.default.createSymbolicLink(atPath: privateFiles, withDestinationPath: directory.path)
        let link = try up()
        #expect(try await link.wait() == 2 && link.standardError.contains("no other user can enter"))
        let query = try ChildProcess("haul", ["up", "--root", root + "?"])
        #expect(try await query.wait() == 2 && query.standardError.contains("must not have a ?"))
    }

    @Test("it refuses what cannot work, and says what to do") func refusals() async throws {
        let running = try up(["--json"])
        _ = try await printed(running)
        let second = try up()
        #expect(try await second.wait() == 2)
        #expect(second.standardError.contains("another haul up serves"))
        running.kill(SIGTERM)
        _ = try await running.wait()

        let haul = try #require(ChildProcess.path(of: "haul"))
        let without = try ChildProcess(haul, ["up", "--root", root], environment: ["PATH": "/nowhere"])
        #expect(try await without.wait() == 2)
        #expect(without.standardError.contains("install the package redis-server"))
        let listener = try LoopbackSocket.listen()
        defer { close(listener.descriptor) }
        let taken = try up(["--expose-redis", "--redis-port", "\(listener.port)"])
        #expect(try await taken.wait() == 2)
        #expect(taken.standardError.contains("127.0.0.1:\(listener.port): Address already in use: give another"))
        let long = try ChildProcess("haul", ["up", "--root", root + "/" + String(repeating: "x", count: 100)])
        #expect(try await long.wait() == 2)
        #expect(long.standardError.contains("give a --root with a shorter path"))
        for (arguments, message) in [
            (["--listen", "nowhere"], "--listen must be"), (["--redis-port", "0"], "--redis-port must be"),
            (["--redis", "redis://h", "--expose-redis"], "--redis names another"),
        ] {
            let wrong = try ChildProcess("haul", ["up", "--root", root] + arguments)
            #expect(try await wrong.wait() == 2)
            #expect(wrong.standardError.contains(message), "\(wrong.standardError)")
        }
    }

    @Test("the URL of another Redis may be in a file, so that no argument has its password") func urlInFile()
        async throws
    {
        let server = try await RedisServer(["--requirepass", "SECRET"])
        let file = directory.file("url")
        try (server.url + "?password=SECRET\n").write(toFile: file, atomically: true, encoding: .utf8)
        let up = try up(["--json", "--redis", "@" + file])
        #expect(try await printed(up)["redis"]?.string == server.url + "?password=SECRET")
        let arguments = try (children(of: up) + [up.id]).map {
            String(decoding: FileManager.default.contents(atPath: "/proc/\($0)/cmdline") ?? Data(), as: UTF8.self)
        }
        #expect(arguments.count == 3 && arguments.allSatisfy { !$0.contains("SECRET") }, "\(arguments)")
        up.kill(SIGTERM)
        #expect(try await up.wait() == 0)
        let absent = try self.up(["--redis", "@/no/such/file"])
        #expect(try await absent.wait() == 2 && absent.standardError.contains("--redis names the file /no/such/file"))
    }
}
