import Foundation
import Glibc
import HaulContract
import HaulTestSupport
import Testing

@testable import HaulDirect

/// What `haul get` sends to servers, and how long it waits for them.
@Suite struct GetServerTests {
    private static let bytes = FileBytes(seed: 94, count: 1000)

    @Test("headers, cookies and a token are sent only to the URL's own server, and the agent to all")
    func headers() async throws {
        let bench = GetBench()
        let elsewhere = try OriginServer { .file(Self.bytes, to: $0) }
        let origin = try OriginServer { _ in OriginReply(302, headers: [("Location", elsewhere.url("/b"))]) }
        let get = try await bench.get(
            "-H", "X-One: 1", "-A", "Mine/1", "--bearer", "token", "-b", "a=1; b=2", "-v", origin.url("/a"))
        #expect(get.status == 0, "\(get)")
        let (first, second) = (try #require(origin.requests.first), try #require(elsewhere.requests.first))
        #expect(first.headers["x-one"] == "1" && first.headers["authorization"] == "Bearer token")
        #expect(first.headers["cookie"] == "a=1; b=2")
        #expect(
            second.headers["x-one"] == nil && second.headers["authorization"] == nil && second.headers["cookie"] == nil)
        #expect(first.headers["user-agent"] == "Mine/1" && second.headers["user-agent"] == "Mine/1")
        #expect(
            get.err.contains("redirect (302) to \(elsewhere.url("/b"))") && get.err.contains("ETag \"v1\""),
            "\(get.err)")
    }

    @Test("a download below --min-speed is not repeated by itself, and one that a busy server refuses is")
    func tooSlow() {
        let (slow, busy) = (Failure(.tooSlow, "slow"), Failure(.http(503), "busy"))
        #expect(TransferSettings.retries(after: slow, hasReachedServer: true) == 0)
        #expect(TransferSettings.retries(after: busy, hasReachedServer: true) == 5)
    }

    @Test("a server that announces a large file and sends nothing leaves nothing beside the files") func silent()
        async throws
    {
        let bench = GetBench()
        let origin = try OriginServer { request in
            var reply = OriginReply.file(FileBytes(seed: 1, count: 1 << 30), to: request)
            (reply.cut, reply.end) = (0, .fin)
            return reply
        }
        let get = try await bench.get(origin.url("/a"), "--retries", "0")
        #expect(get.status == 1 && bench.names.isEmpty, "\(get) \(bench.names)")
    }

    @Test("--user and a netrc file sign in, and a password is never printed") func credentials() async throws {
        let bench = GetBench()
        let origin = try OriginServer { request in
            // me:p@:ss
            request.headers["authorization"] == "Basic bWU6cEA6c3M="
                ? .file(Self.bytes, to: request)
                : OriginReply(401, headers: [("WWW-Authenticate", "Basic realm=\"x\"")])
        }
        let get = try await bench.get("-u", "me:p@:ss", origin.url("/a"), "-v", "-w", "%{url} %{url_effective}\\n")
        #expect(get.status == 0 && !(get.out + get.err).contains("ss@"), "\(get)")
        #expect(get.out.contains("\(origin.url("/a")) \(origin.url("/a"))\n"), "\(get)")
        bench.write("netrc", "machine other login x password y\nmachine 127.0.0.1\n login me password \"p@:ss\"\n")
        #expect(try await bench.get("--netrc-file", bench.files.file("netrc"), origin.url("/b")).status == 0)
        #expect(try await bench.get(origin.url("/c")).err.contains("http_401"))
    }

    @Test("--digest and --anyauth send no password before the server asks, and --digest none as Basic")
    func digest() async throws {
        let bench = GetBench()
        let challenge = "Digest realm=\"x\", nonce=\"n\", qop=\"auth\", algorithm=SHA-256"
        let origin = try OriginServer { request in
            let given = request.headers["authorization"]
            let wanted = request.path.hasPrefix("/basic") ? "Basic " : "Digest "
            if given?.hasPrefix(wanted) == true { return .file(Self.bytes, to: request) }
            let offers = "Basic realm=\"x\"" + (wanted == "Basic " ? "" : ", " + challenge)
            return OriginReply(401, headers: [("WWW-Authenticate", offers)])
        }
        func schemes(_ path: String) -> [String] {
            origin.requests.filter { $0.path == path }.map {
                String($0.headers["authorization"]?.prefix { $0 != " " } ?? "")
            }
        }
        for option in ["--digest", "--anyauth"] {
            let path = "/digest" + option
            #expect(try await bench.get(option, "-u", "me:secret", origin.url(path)).status == 0)
            #expect(schemes(path) == ["", "Digest"])
        }
        #expect(try await bench.get("--anyauth", "-u", "me:secret", origin.url("/basic")).status == 0)
        #expect(schemes("/basic") == ["", "Basic"])
        let refused = try await bench.get("--digest", "-u", "me:secret", origin.url("/basic2"))
        #expect(refused.status == 1 && refused.err.contains("the server does not offer Digest"), "\(refused)")
        #expect(schemes("/basic2") == [""])
        let both = try await bench.get("--digest", "--bearer", "t", origin.url("/x"))
        #expect(both.status == 2 && both.err.contains("--bearer sends a token with the first request"), "\(both)")
    }

    @Test("put and call obey --digest and --anyauth as well") func digestPut() async throws {
        let files = TemporaryDirectory()
        let origin = try OriginServer { request in
            request.headers["authorization"]?.hasPrefix("Digest ") == true
                ? OriginReply(201)
                : OriginReply(401, headers: [("WWW-Authenticate", "Digest realm=\"x\", nonce=\"n\"")])
        }
        try Data([1, 2, 3]).write(to: URL(filePath: files.file("a")))
        for arguments in [
            ["put", "--digest", files.file("a"), origin.url("/a")],
            ["call", "--anyauth", "-d", "abc", origin.url("/a")],
        ] {
            let haul = try ChildProcess("haul", arguments + ["-u", "me:secret"])
            #expect(try await haul.wait() == 0, "\(haul.standardError)")
        }
        #expect(origin.requests.map { $0.headers["authorization"]?.hasPrefix("Digest ") } == [nil, true, nil, true])
    }

    @Test("a cookie file is read, and its cookies are sent where they belong") func cookies() async throws {
        let bench = GetBench()
        let origin = try OriginServer { .file(Self.bytes, to: $0) }
        bench.write(
            "jar",
            "# Netscape HTTP Cookie File\n127.0.0.1\tFALSE\t/a\tFALSE\t0\tone\t1\nother\tFALSE\t/\tFALSE\t0\ttwo\t2\n")
        #expect(try await bench.get("-b", bench.files.file("jar"), origin.url("/a"), origin.url("/b")).status == 0)
        #expect(origin.requests.first { $0.path == "/a" }?.headers["cookie"] == "one=1")
        #expect(origin.requests.first { $0.path == "/b" }?.headers["cookie"] == nil)
        bench.write("jar", "no cookie at all\n")
        let wrong = try await bench.get("-b", bench.files.file("jar"), origin.url("/c"))
        #expect(wrong.status == 2 && wrong.err.contains("line 1"), "\(wrong)")
    }

    @Test(
        "get does not wait for a server with a long Retry-After, and says how long it is",
        arguments: [("3600", "1h00m"), ("7200", "2h00m"), ("date", "2h00m"), ("99999999999999999999", "1193046h")])
    func longWait(_ seconds: String, _ words: String) async throws {
        let bench = GetBench()
        let origin = try OriginServer { request in
            guard request.number == 1 else { return .file(Self.bytes, to: request) }
            let dates = [("Date", "Sun, 06 Nov 1994 08:49:37 GMT"), ("Retry-After", "Sun, 06 Nov 1994 10:49:37 GMT")]
            return OriginReply(503, headers: seconds == "date" ? dates : [("Retry-After", seconds)])
        }
        let get = try await bench.get(origin.url("/a"))
        #expect(get.status == 1 && get.err.contains("run the same command again in \(words)"), "\(get)")
        #expect(try await bench.get(origin.url("/a")).status == 0)
    }

    @Test("put, call and get -o - do not wait for a server with a long Retry-After either")
    func longWaitOfOthers() async throws {
        let files = TemporaryDirectory()
        let origin = try OriginServer { _ in OriginReply(503, headers: [("Retry-After", "7200")]) }
        try Data([1, 2, 3]).write(to: URL(filePath: files.file("a")))
        for arguments in [
            ["put", files.file("a"), origin.url("/a")], ["call", "--retries", "2", origin.url("/a")],
            ["get", "-o", "-", origin.url("/a")],
        ] {
            let haul = try ChildProcess("haul", arguments, environment: ["XDG_STATE_HOME": files.path])
            #expect(try await haul.wait() == 1)
            #expect(haul.standardError.contains("run the same command again in 2h00m"), "\(haul.standardError)")
        }
        #expect(origin.requests.count == 3)
    }

    @Test("SIGQUIT ends get at once") func quit() async throws {
        let bench = GetBench()
        let latch = Latch()
        let origin = try OriginServer { request in
            var reply = OriginReply.file(Self.bytes, to: request)
            reply.hold = (500, latch)
            return reply
        }
        let get = try bench.start([origin.url("/a")])
        try await eventually("the request") { !origin.requests.isEmpty }
        get.kill(SIGQUIT)
        _ = try await get.wait()
        #expect(origin.requests.count == 1)
        latch.open()
    }

    @Test("a signal that was ignored when the command began does not interrupt it") func nohup() async throws {
        let (bench, latch) = (GetBench(), Latch())
        let origin = try OriginServer { request in
            var reply = OriginReply.file(Self.bytes, to: request)
            reply.hold = (500, latch)
            return reply
        }
        let get = try ChildProcess(
            "/bin/sh",
            [
                "-c", "trap '' HUP; cd \"$1\"; exec \"$2\" get \"$3\"", "sh", bench.files.path,
                try #require(ChildProcess.path(of: "haul")), origin.url("/a"),
            ], environment: ["XDG_STATE_HOME": bench.home.path])
        try await eventually("the request") { !origin.requests.isEmpty }
        get.kill(SIGHUP)
        latch.open()
        #expect(try await get.wait() == 0, "\(get.standardError)")
        #expect(bench.files.holds("a", Self.bytes))
    }

    @Test("the environment's proxies are used as curl uses them") func proxies() async throws {
        let bench = GetBench()
        let origin = try OriginServer { .file(Self.bytes, to: $0) }
        let proxy = try ProxyServer()
        let environment = ["http_proxy": proxy.url("http")]
        #expect(try await bench.get(origin.url("/a"), environment: environment).status == 0)
        #expect(proxy.targets == ["GET \(origin.url("/a"))"])
        let secret = proxy.url("http").replacing("http://", with: "me:s3cret@")
        let told = try await bench.get("-v", "--no-netrc", origin.url("/g"), environment: ["http_proxy": secret])
        #expect(told.status == 0 && told.err.contains("through the proxy") && !told.err.contains("s3cret"), "\(told)")
        #expect(proxy.targets.count == 2)
        let without = environment.merging(["no_proxy": "127.0.0.0/8"]) { $1 }
        #expect(try await bench.get(origin.url("/b"), environment: without).status == 0)
        #expect(try await bench.get("--no-proxy", origin.url("/c"), environment: environment).status == 0)
        #expect(proxy.targets.count == 2)
        let own = ["HAUL_PROXY": proxy.url("http")]
        #expect(try await bench.get("--no-proxy", origin.url("/d"), environment: own).status == 0)
        #expect(proxy.targets.count == 2)
        bench.write("get.conf", "proxy = \(proxy.url("http"))\n")
        let config = ["--config", "get.conf"]
        for (words, count) in [(["--no-proxy", origin.url("/e")], 2), ([origin.url("/f")], 3)] {
            let get = try bench.start(config + words)
            #expect(try await get.wait() == 0 && proxy.targets.count == count, "\(words) \(get.standardError)")
        }
    }

    @Test("a server that never answered is not tried again, unless --retries says so") func unreachable() async throws {
        let bench = GetBench()
        let closed = try OriginServer { _ in OriginReply() }.url("/x")
        let once = try await bench.get("--json", closed)
        let events = try GetBench.events(once.out)
        #expect(once.status == 1 && events.map { $0["event"]?.string } == ["failed"], "\(once)")
        #expect(events[0]["error"]?.string == "connect")
        let again = try await bench.get("--json", "--retries", "1", closed)
        #expect(try GetBench.events(again.out).map { $0["event"]?.string } == ["retrying", "failed"], "\(again)")
    }

    @Test("a request to a server with a 503 is repeated, and the file arrives") func fault() async throws {
        let bench = GetBench()
        let origin = try OriginServer { request in
            request.number == 1 ? OriginReply(503, headers: [("Retry-After", "0")]) : .file(Self.bytes, to: request)
        }
        let get = try await bench.get(origin.url("/a"))
        #expect(get.status == 0 && get.err.contains("HTTP 503") && get.err.contains("again in"), "\(get)")
    }

    @Test("an http URL of a port that speaks TLS fails at once, and the message says https")
    func wrongScheme() async throws {
        let origin = try OriginServer(certificates: try await Certificates()) { .file(Self.bytes, to: $0) }
        let get = try await GetBench().get(origin.url("/x").replacing("https", with: "http"))
        #expect(get.status == 1 && !get.err.contains("again in"), "\(get)")
        #expect(get.err.contains("127.0.0.1:\(origin.port) speaks TLS") && get.err.contains("give https"), "\(get)")
        #expect(origin.requests.allSatisfy { $0.method == "HEAD" && $0.path == "/" })
    }

    @Test("the message about a mirror that fails names it") func mirror() async throws {
        let origin = try OriginServer { $0.path == "/b" ? .file(Self.bytes, to: $0) : OriginReply(404) }
        let list = origin.url("/a") + "\t" + origin.url("/b") + "\n"
        let get = try await GetBench().get("-i", "-", input: list)
        #expect(get.status == 0 && get.err.contains("the mirror \(origin.url("/a")) failed"), "\(get)")
    }

    @Test("invalid arguments are refused with a message") func refused() async throws {
        let bench = GetBench()
        for (arguments, words) in [
            (["-k", "https://h/"], "--ca"), ([""], "empty"), (["ftp://h/"], "http://, https:// or s3://"),
            ([], "missing"),
            (["h/x", "-o", String(repeating: "n", count: 300)], "255 bytes"),
            (["h/a", "-o", "a", "-o", "b"], "several -o"),
            (["h/a", "--checksum", "sha256:00"], "checksum"), (["h/a", "-H", "Range: x"], "Range"),
            (["h/a", "-H", "none"], "Name: value"), (["h/a", "--limit-rate", "fast"], "--limit-rate"),
            (["magnet:?xt=1"], "not magnet: (magnet:?xt=1)"),
            (["h/a", "--nothing", "x", "-o", "a"], "'--nothing'"), (["h/a", "-H", "Host: b"], "--connect-to"),
            (["h/a", "--ca", "/no/ca"], "/no/ca, cannot be read: No such"),
            (["h/a", "--client-cert", "/no/cert"], "/no/cert, cannot be read: No such"),
            (["h/a", "-i", "/no/such"], "/no/such"), (["h/a", "-j", "0"], "--parallel"),
            (["h/a", "h/b", "--checksum", "md5:00"], "--checksum-file"),
            (["h/a", "--checksum", "sha256-AAAA"], "sha512- and base 64, as in HTML (sha256-AAAA)"),
            (["h/a", "-N", "--if-exists", "skip"], "-N"), (["--continue", "-o", "-"], "--continue and --forget are"),
            (["h/a", "--forget", "-o", "/dev/null"], "--continue and --forget are"),
            (["h/a", "--json", "-o", "/dev/null"], "are about files, and -o names"),
            (["h/a", "--on-error", "true", "-o", "-"], "are about files, and -o names"),
        ] as [([String], String)] {
            let process = try bench.start(arguments)
            #expect(try await process.wait() == 2, "\(arguments)")
            #expect(process.standardError.contains(words), "\(arguments): \(process.standardError)")
        }
        #expect(bench.names.isEmpty)
    }
}
