import Foundation
import Glibc
import HaulContract
import HaulTestSupport
import Testing

@testable import HaulDirect

/// `haul get` as a part of other programs: defaults, and commands at the end of a download.
@Suite(.timeLimit(.minutes(2))) struct GetServiceTests {
    private static let bytes = FileBytes(seed: 97, count: 1000)

    @Test("a file sets defaults, hosts have their own, and the command line wins") func configuration() async throws {
        let bench = GetBench()
        let origin = try OriginServer { .file(Self.bytes, to: $0) }
        let folder = bench.home.file("config/haul")
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        let file = folder + "/get.conf"
        let environment = ["XDG_CONFIG_HOME": bench.home.file("config")]
        func write(_ text: String) throws { try Data(text.utf8).write(to: URL(filePath: file)) }
        try write(
            """
            # defaults
            user-agent = Mine/1
            quiet = true
            directory = sub

            [127.0.0.1]
            header = X-Team: films
            limit-rate = 1M

            [other]
            header = X-Other: 1
            """)
        let get = try await bench.get(origin.url("/a"), environment: environment)
        #expect(get.status == 0 && get.out.isEmpty, "\(get)")
        #expect(bench.files.contents("sub/a") == Self.bytes.all)
        let seen = try #require(origin.requests.last)
        #expect(seen.headers["user-agent"] == "Mine/1" && seen.headers["x-team"] == "films")
        #expect(seen.headers["x-other"] == nil)
        _ = try await bench.get(
            "-A", "Yours/2", "-d", "here", "-H", "X-Team: x", origin.url("/b"), environment: environment)
        #expect(origin.requests.last?.headers["user-agent"] == "Yours/2" && bench.files.contents("here/b") != nil)
        #expect(origin.requests.last?.headers["x-team"] == "x")
        _ = try await bench.get("--no-config", origin.url("/c"), environment: environment)
        #expect(origin.requests.last?.headers["x-team"] == nil && bench.names.contains("c"))
        let printed = try await bench.get("--print-config", environment: environment)
        #expect(printed.status == 0 && printed.out.contains("user-agent = Mine/1  # \(file):2\n"), "\(printed)")
        #expect(printed.out.contains("\n[127.0.0.1]\nheader = X-Team: films  # \(file):7\n"))
        try write(
            """
            user = alice:s3cret
            header = X-Api-Key: s3cret
            proxy = bob:s3cret@p.example:1
            on-complete = notify #1?
            """)
        let masked = try await bench.get("--print-config", environment: environment)
        #expect(masked.out.contains("user = alice:[masked]") && masked.out.contains("X-Api-Key: [masked]"), "\(masked)")
        #expect(masked.out.contains("proxy = p.example:1") && !masked.out.contains("s3cret"), "\(masked)")
        #expect(masked.out.contains("on-complete = notify #1?  # "), "\(masked)")
        try write("bearer = s3cret")
        #expect(try await bench.get("--print-config", environment: environment).out.contains("bearer = [masked]"))
        for (text, words) in [
            ("quite = true", ":1: \"quite\" is not an option with a default. Did you mean quiet?"),
            ("quiet = yes", "must be true or false"), ("x", "write option = value"), ("output = a", "not an option"),
            ("[h]\nproxy = x", ":2: \"proxy\" is not a setting of a host"), ("[http://h/]", "without scheme"),
            ("[127.0.0.1]\nretries = x", "must be a number"),
            ("[127.0.0.1]\n\nretries = 5000", "\(file):3: retries"),
            ("retries = 1\nconnections = 900", "(--connections comes from \(file):2)"),
            ("limit-rate = fast", "(--limit-rate comes from \(file):1)"),
        ] {
            try write(text)
            let wrong = try await bench.get(origin.url("/d"), environment: environment)
            #expect(wrong.status == 2 && wrong.err.contains(words), "\(text): \(wrong)")
        }
        let missing = try await bench.get("--config", "/no/such", origin.url("/d"))
        #expect(missing.status == 2 && missing.err.contains("/no/such"), "\(missing)")
    }

    @Test("header fields of a host's section go to no other host, and lists are fetched with them as well")
    func sections() async throws {
        let bench = GetBench()
        let metalink = Shared("")
        let origin = try OriginServer { request in
            if request.path == "/absent" { return OriginReply(404) }
            if request.path == "/list" { return OriginReply(body: Array("http://127.0.0.1:1/never\n".utf8)) }
            guard request.path == "/four" else { return .file(Self.bytes, to: request) }
            guard request.headers["x-own"] != nil else { return OriginReply(401) }
            return OriginReply(
                headers: [("Content-Type", "application/metalink4+xml")], body: Array(metalink.value.utf8))
        }
        metalink.value = """
            <metalink xmlns="urn:ietf:params:xml:ns:metalink"><file name="m"><url>\(origin.url("/m"))</url></file></metalink>
            """
        let port = origin.port
        bench.write("get.conf", "[127.0.0.1]\nheader = X-Key: secret\n")
        func get(_ words: String..., input: String = "") async throws -> ChildProcess {
            let get = try bench.start(
                words + ["--config", "get.conf", "--resolve", "mirror.test:\(port):127.0.0.1", "--retries", "0"],
                input: input, environment: ["TMPDIR": bench.home.path])
            _ = try await get.wait()
            return get
        }
        func seen(_ path: String) -> OriginRequest? { origin.requests.last { $0.path == path } }
        let other = try await get(origin.url("/absent"), "--mirror", "http://mirror.test:\(port)/a", "-o", "a")
        #expect(bench.files.holds("a", Self.bytes), "\(other.standardError)")
        #expect(try #require(seen("/a")).headers["x-key"] == nil)
        let same = try await get(origin.url("/absent"), "--mirror", origin.url("/b"), "-o", "b")
        #expect(try #require(seen("/b")).headers["x-key"] == "secret", "\(same.standardError)")
        _ = try await get("-i", origin.url("/list"))
        #expect(try #require(seen("/list")).headers["x-key"] == "secret")
        let followed = try await get("-i", "-", input: "\(origin.url("/four"))\n header=X-Own: 1\n")
        #expect(bench.files.holds("m", Self.bytes), "\(followed.standardError)")
        #expect(origin.requests.filter { $0.path == "/four" }.allSatisfy { $0.headers["x-key"] == "secret" })
    }

    @Test("a default that an option of the command line excludes does not count") func excluded() async throws {
        let bench = GetBench()
        let origin = try OriginServer { .file(Self.bytes, to: $0) }
        bench.write("get.conf", "if-exists = rename\nbearer = token\nipv6 = true\n")
        let get = try await bench.get("--config", "get.conf", "-N", "-4", "-u", "me:secret", origin.url("/a"))
        #expect(get.status == 0, "\(get)")
        #expect(origin.requests.last?.headers["authorization"]?.hasPrefix("Basic ") == true)
        bench.write(
            "files.conf", "on-complete = exit 3\non-error = exit 3\njson = true\ndirectory = sub\nquiet = true\n")
        for output in ["-", "/dev/null", "/dev/stdout"] {
            let stream = try await bench.get("--config", "files.conf", "-o", output, origin.url("/a"))
            #expect(stream.status == 0 && stream.out.isEmpty == (output == "/dev/null"), "\(output): \(stream.err)")
        }
        bench.write("directory.conf", "directory = sub\n")
        for output in [bench.files.file("own"), "there/"] {
            let file = try await bench.get("--config", "directory.conf", "--output=\(output)", origin.url("/a"))
            #expect(file.status == 0, "\(file)")
        }
        #expect(bench.files.holds("own", Self.bytes) && bench.files.holds("there/a", Self.bytes))
        #expect(!bench.names.contains("sub"))
    }

    @Test("a command gets the event of each file that was fetched, or failed, and its failure shows") func hooks()
        async throws
    {
        let bench = GetBench()
        let origin = try OriginServer { $0.path == "/missing" ? OriginReply(404) : .file(Self.bytes, to: $0) }
        let path = ["PATH": "/usr/bin:/bin"]
        let get = try await bench.get(
            "-q", "--on-complete", "cat >done; echo told", "--on-error", "cat >failed", origin.url("/a"),
            origin.url("/missing"),
            environment: path)
        #expect(get.status == 1 && get.out.isEmpty && get.err.contains("told"), "\(get)")
        let done = try JSON(#require(bench.files.contents("done")))
        #expect(done["event"]?.string == "completed" && done["file"]?.string == bench.files.file("a"))
        let failed = try JSON(#require(bench.files.contents("failed")))
        #expect(failed["event"]?.string == "failed" && failed["error"]?.string == "http_404")
        // A file that is there already runs nothing.
        let again = try await bench.get("--on-complete", "exit 3", origin.url("/a"), environment: path)
        #expect(again.status == 0, "\(again)")
        let wrong = try await bench.get("--on-complete", "exit 3", origin.url("/b"), environment: path)
        #expect(wrong.status == 1 && wrong.err.contains("--on-complete exit 3: it ended with status 3"), "\(wrong)")
    }

    @Test("lists that appear in a directory are downloaded, and a signal ends the command between two of them")
    func watch() async throws {
        let bench = GetBench()
        let origin = try OriginServer { $0.path == "/missing" ? OriginReply(404) : .file(Self.bytes, to: $0) }
        let lists = TemporaryDirectory()
        func write(_ name: String, _ text: String) throws {
            try Data(text.utf8).write(to: URL(filePath: lists.file(name)))
        }
        try write("first", origin.url("/a"))
        for signal in [SIGTERM, SIGINT] {
            let get = try bench.start(["--watch", lists.path])
            try write("second-\(signal)", origin.url("/b\(signal)"))
            try write("third-\(signal)", origin.url("/missing"))
            try await eventually("the lists") {
                lists.names.contains("first.done") && lists.names.contains("second-\(signal).done")
                    && lists.names.contains("third-\(signal).failed")
            }
            get.kill(signal)
            #expect(try await get.wait() == 0, "\(get.standardError)")
        }
        #expect(bench.files.holds("a", Self.bytes) && bench.files.holds("b\(SIGINT)", Self.bytes))
        #expect(origin.requests.count { $0.path == "/a" } == 1)
        let latch = Latch()
        let slow = try OriginServer { request in
            var reply = OriginReply.file(Self.bytes, to: request)
            reply.hold = (500, latch)
            return reply
        }
        try write("slow", slow.url("/slow"))
        let get = try bench.start(["--watch", lists.path])
        try await eventually("the request") { !slow.requests.isEmpty }
        get.kill(SIGTERM)
        #expect(try await get.wait() == 130, "\(get.standardError)")
        latch.open()
        #expect(lists.names.contains("slow"))
    }

    @Test("a line that is added to a list during its downloads is downloaded as well") func added() async throws {
        let (bench, lists, latch) = (GetBench(), TemporaryDirectory(), Latch())
        func write(_ text: String) throws { try Data(text.utf8).write(to: URL(filePath: lists.file("list"))) }
        let origin = try OriginServer { request in
            var reply = OriginReply.file(Self.bytes, to: request)
            if request.path == "/slow" { reply.hold = (500, latch) }
            return reply
        }
        try write(origin.url("/slow"))
        // The record of an earlier list of that name.
        try Data("earlier".utf8).write(to: URL(filePath: lists.file("list.done")))
        let get = try bench.start(["--watch", lists.path])
        try await eventually("the request") { !origin.requests.isEmpty }
        try write("\(origin.url("/slow"))\n\(origin.url("/added"))\n")
        latch.open()
        try await eventually("the list") { lists.names.sorted() == ["list.2.done", "list.done"] }
        #expect(lists.contents("list.done") == Array("earlier".utf8))
        get.kill(SIGTERM)
        #expect(try await get.wait() == 0, "\(get.standardError)")
        #expect(bench.files.holds("slow", Self.bytes) && bench.files.holds("added", Self.bytes))
    }

    @Test("a directory is not watched for lists if files arrive in it") func watchedFiles() async throws {
        let (bench, lists) = (GetBench(), TemporaryDirectory())
        let origin = try OriginServer { .file(Self.bytes, to: $0) }
        for (arguments, words) in [
            (["--watch", lists.path, origin.url("/a")], "give no URL"), (["--watch", "/no/such"], "No such file"),
            (["--watch", "."], "read as lists"), (["--watch", bench.files.path], "read as lists"),
            (["--watch", lists.path + "/", "-d", lists.path], "read as lists"),
        ] {
            let wrong = try bench.start(arguments)
            #expect(try await wrong.wait() == 2)
            #expect(wrong.standardError.contains(words), "\(wrong.standardError)")
        }
        let list = "\(origin.url("/a"))\n dir=\(lists.path)\n"
        try Data(list.utf8).write(to: URL(filePath: lists.file("list")))
        let get = try bench.start(["--watch", lists.path])
        try await eventually("the list to be refused") { lists.names == ["list.failed"] }
        get.kill(SIGTERM)
        #expect(try await get.wait() == 0 && origin.requests.isEmpty, "\(get.standardError)")
        #expect(get.standardError.contains("read as lists"))
    }
}
