import Foundation
import Glibc
import HaulBus
import HaulContract
import HaulFileStore
import HaulHTTPServer
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulWeb

@Suite("Files of completed downloads") struct FileTests {
    private let root = TemporaryDirectory()
    private static let path = WebFixture.jobs + "/film/file"

    /// A server that serves the files of `root`, and the job `film`, which has downloaded a file of these bytes.
    private func served(_ bytes: [UInt8], as name: String = "a film.mkv") async throws -> WebFixture {
        let hash = PasswordHash(password: "p", cost: 4).text
        let directory = try SourceDirectory(root.path)
        let accounts = try Accounts("v viewer \(hash)\no operator \(hash)")
        let fixture = try await WebFixture {
            $0.files = [.default: directory]
            $0.accounts = accounts
        }
        try Data(bytes).write(to: URL(filePath: root.file(name)))
        var status = stat()
        try #require(stat(root.file(name), &status) == 0)
        var file = WebFixture.file
        file.file = name
        file.bytes = Int64(bytes.count)
        file.inode = UInt64(status.st_ino)
        file.modified = Int64(status.st_mtim.tv_sec) * 1_000_000_000 + Int64(status.st_mtim.tv_nsec)
        _ = await fixture.send("POST", WebFixture.jobs, #"{"url":"http://h/f","id":"film"}"#, fields: Self.operator)
        let claim = try #require(try await fixture.claim())
        try await fixture.settle(claim, .completed(file, seconds: 1, unchanged: false))
        return fixture
    }

    private static let `operator` = [(name: "authorization", value: "Basic bzpw")]
    private static let viewer = [(name: "authorization", value: "Basic djpw")]

    /// What a client on a real connection receives.
    private func receive(_ fixture: WebFixture, _ method: String = "GET", _ fields: String = "") async throws
        -> (head: String, body: String)
    {
        let (places, found) = AsyncStream<ListenAddress>.makeStream()
        let run = Task { try await fixture.web.run { for place in $0 { found.yield(place) } } }
        defer { run.cancel() }
        let client = try RawClient(try #require(await places.first { _ in true }))
        await client.send(
            "\(method) \(Self.path) HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic bzpw\r\n\(fields)\r\n")
        let parts = await client.read().split(separator: "\r\n\r\n", maxSplits: 1).map(String.init)
        return (parts.first ?? "", parts.count > 1 ? parts[1] : "")
    }

    @Test("an operator saves the whole file, under its own name and as nothing that a browser would show")
    func whole() async throws {
        let text = String(repeating: "0123456789", count: 30_000)
        let fixture = try await served(Array(text.utf8))
        let response = try await receive(fixture)
        #expect(response.head.hasPrefix("HTTP/1.1 200 "))
        for field in [
            "Content-Length: 300000", "Content-Type: application/octet-stream", "X-Content-Type-Options: nosniff",
            "Content-Disposition: attachment; filename*=UTF-8''a%20film.mkv", "Accept-Ranges: bytes",
        ] { #expect(response.head.contains("\r\n\(field)"), "\(field) in \(response.head)") }
        #expect(response.body == text)
        let head = try await receive(try await served(Array(text.utf8)), "HEAD")
        #expect(head.head.contains("\r\nContent-Length: 300000") && head.body.isEmpty)
    }

    @Test(
        "one range of bytes is sent, and any other Range field is ignored",
        arguments: [
            ("bytes=2-4", 206, "234", "bytes 2-4/10"), ("bytes=7-", 206, "789", "bytes 7-9/10"),
            ("bytes=-2", 206, "89", "bytes 8-9/10"), ("bytes=-20", 206, "0123456789", "bytes 0-9/10"),
            ("bytes=8-900", 206, "89", "bytes 8-9/10"), ("bytes=10-", 416, "", "bytes */10"),
            ("bytes=-0", 416, "", "bytes */10"), ("bytes=4-2", 200, "0123456789", nil),
            ("bytes=0-1,4-5", 200, "0123456789", nil), ("lines=1-2", 200, "0123456789", nil),
            ("bytes=99999999999999999999-", 200, "0123456789", nil),
        ] as [(String, Int, String, String?)])
    func ranges(range: String, status: Int, body: String, contentRange: String?) async throws {
        let fixture = try await served(Array("0123456789".utf8))
        let response = try await receive(fixture, "GET", "Range: \(range)\r\n")
        #expect(response.head.hasPrefix("HTTP/1.1 \(status) ") && response.body == body, "\(response)")
        let sentRange = response.head.split(separator: "\r\n").first { $0.hasPrefix("Content-Range: ") }
        #expect(sentRange.map { String($0.dropFirst(15)) } == contentRange)
    }

    @Test("a range is sent only of the version that the client has a part of") func ifRange() async throws {
        let fixture = try await served(Array("0123456789".utf8))
        let tag = try #require(await fixture.send("GET", Self.path, fields: Self.operator)["ETag"])
        let same = await fixture.send(
            "GET", Self.path, fields: Self.operator + [("range", "bytes=2-4"), ("if-range", tag)])
        let other = await fixture.send(
            "GET", Self.path, fields: Self.operator + [("range", "bytes=2-4"), ("if-range", "\"other\"")])
        #expect(same.status == 206 && other.status == 200)
        #expect(await fixture.send("GET", Self.path, fields: Self.operator + [("if-none-match", tag)]).status == 304)
    }

    @Test("a viewer gets no file, and without --serve-files an operator gets none either") func rights() async throws {
        let fixture = try await served([1])
        #expect(await fixture.send("GET", Self.path, fields: Self.viewer).status == 403)
        #expect(await fixture.send("GET", "/api/session", fields: Self.viewer).json?["files"]?.array?.isEmpty == true)
        #expect(
            await fixture.send("GET", "/api/session", fields: Self.operator).json?["files"]?.array?.map(\.string)
                == ["default"])
        let closed = try await WebFixture()
        let response = await closed.get(Self.path)
        #expect(response.status == 404 && response.text.contains("--serve-files"))
    }

    @Test("a file that was replaced after its job, or whose path leads out of the directory, is not sent")
    func others() async throws {
        let fixture = try await served(Array("first".utf8))
        try FileManager.default.removeItem(atPath: root.file("a film.mkv"))
        try Data("other".utf8).write(to: URL(filePath: root.file("a film.mkv")))
        let replaced = await fixture.send("GET", Self.path, fields: Self.operator)
        #expect(replaced.status == 404 && replaced.text.contains("replaced"), "\(replaced)")
        let key = fixture.queue.keys.job("film")
        for path in ["../../etc/passwd", "/etc/passwd"] {
            try await fixture.queue.redis.send(Command("HSET", key, "file", path))
            let response = await fixture.send("GET", Self.path, fields: Self.operator)
            #expect(response.status == 404 && response.text.contains("cannot be sent"), "\(response)")
        }
        try FileManager.default.createSymbolicLink(atPath: root.file("link"), withDestinationPath: "/etc/passwd")
        try await fixture.queue.redis.send(Command("HSET", key, "file", "link"))
        #expect(await fixture.send("GET", Self.path, fields: Self.operator).status == 404)
    }
}
