import Foundation
import Glibc
import HaulTestSupport
import Testing

/// What `haul get --watch` makes of lists, beside what any command makes of them.
@Suite(.timeLimit(.minutes(2))) struct GetWatchTests {
    private static let bytes = FileBytes(seed: 98, count: 1000)

    private func write(_ text: String, to file: String) throws {
        // A list appears as a whole.
        try Data(text.utf8).write(to: URL(filePath: file), options: .atomic)
    }

    @Test("the files of a followed Metalink do not arrive in the watched directory, where they would be lists")
    func metalink() async throws {
        let bench = GetBench()
        let origin = try OriginServer { request in
            guard request.path == "/release" else { return .file(Self.bytes, to: request) }
            let text = """
                <metalink xmlns="urn:ietf:params:xml:ns:metalink"><file name="in/x">
                <url>http://\(request.headers["host"] ?? "")/f</url></file></metalink>
                """
            return OriginReply(headers: [("Content-Type", "application/metalink4+xml")], body: Array(text.utf8))
        }
        try FileManager.default.createDirectory(atPath: bench.files.file("in"), withIntermediateDirectories: true)
        let get = try bench.start(["--watch", "in"], environment: ["TMPDIR": bench.home.path])
        try write(origin.url("/release"), to: bench.files.file("in/list"))
        func lists() throws -> [String] {
            try FileManager.default.contentsOfDirectory(atPath: bench.files.file("in")).filter { !$0.hasPrefix(".") }
        }
        try await eventually("the list to be renamed") { try lists() == ["list.failed"] }
        get.kill(SIGTERM)
        #expect(try await get.wait() == 0, "\(get.standardError)")
        #expect(get.standardError.contains("read as lists") && !origin.requests.contains { $0.path == "/f" })
    }

    @Test("one signal ends the downloads of a list as it ends any others, and keeps what has arrived")
    func oneSignal() async throws {
        let latch = Latch()
        let origin = try OriginServer { request in
            var reply = OriginReply.file(Self.bytes, to: request)
            reply.hold = (500, latch)
            return reply
        }
        let benches = (0..<8).map { _ in (bench: GetBench(), lists: TemporaryDirectory()) }
        let gets = try benches.map { bench, lists in
            try write(origin.url("/slow"), to: lists.file("list"))
            return try bench.start(["--watch", lists.path])
        }
        try await eventually("all requests") { origin.requests.count == gets.count }
        for get in gets { get.kill(SIGTERM) }
        for get in gets {
            #expect(try await get.wait() == 130)
            #expect(get.standardError.contains("interrupted: run the same command again"), "\(get.standardError)")
        }
        latch.open()
    }

    @Test("what options name is read once, so that a file that is gone later fails no list") func options() async throws
    {
        let (bench, lists) = (GetBench(), TemporaryDirectory())
        let origin = try OriginServer { .file(Self.bytes, to: $0) }
        bench.write("fields", "X-Own: mine\n")
        let get = try bench.start(["--watch", lists.path, "-H", "@fields"])
        for name in ["first", "second"] {
            try write(origin.url("/\(name)"), to: lists.file(name))
            try await eventually("the list") { lists.names.contains { $0.hasPrefix("\(name).") } }
            try? FileManager.default.removeItem(atPath: bench.files.file("fields"))
        }
        get.kill(SIGTERM)
        #expect(try await get.wait() == 0, "\(get.standardError)")
        #expect(lists.names == ["first.done", "second.done"], "\(get.standardError)")
        #expect(origin.requests.allSatisfy { $0.headers["x-own"] == "mine" })
        let wrong = try bench.start(["--watch", lists.path, "--checksum", "sha256:" + Self.bytes.sha256])
        #expect(try await wrong.wait() == 2, "\(wrong.standardError)")
    }

    @Test("the cookies of all lists are saved") func cookies() async throws {
        let (bench, lists) = (GetBench(), TemporaryDirectory())
        let origin = try OriginServer { request in
            var reply = OriginReply.file(Self.bytes, to: request)
            if request.path == "/first" { reply.headers.append(("Set-Cookie", "session=7; Path=/")) }
            return reply
        }
        let get = try bench.start(["--watch", lists.path, "--save-cookies", "jar"])
        for name in ["first", "second"] {
            try write(origin.url("/\(name)"), to: lists.file(name))
            try await eventually("the list") { lists.names.contains("\(name).done") }
        }
        get.kill(SIGTERM)
        #expect(try await get.wait() == 0, "\(get.standardError)")
        let jar = String(decoding: bench.files.contents("jar") ?? [], as: UTF8.self)
        #expect(jar.contains("session\t7"), "\(jar)")
    }

    @Test(
        "an option that is wrong for all lists ends the command before the first list",
        arguments: [["-w", "%{http_cod}"], ["-w", "@gone"], ["--checksum-file", "gone"], ["-d", "s3://F/p/"]])
    func wrongOptions(_ words: [String]) async throws {
        let (bench, lists) = (GetBench(), TemporaryDirectory())
        let origin = try OriginServer { .file(Self.bytes, to: $0) }
        try write(origin.url("/f"), to: lists.file("list"))
        let get = try bench.start(["--watch", lists.path] + words)
        try await eventually("the command to end, or to rename the list") {
            !get.standardError.isEmpty || lists.names != ["list"]
        }
        // A command that has said what is wrong ends by itself.
        if lists.names != ["list"] { get.kill(SIGTERM) }
        #expect(try await get.wait() == 2, "\(get.standardError)")
        #expect(lists.names == ["list"] && origin.requests.isEmpty, "\(get.standardError)")
    }
}
