import Foundation
import HaulContract
import HaulHTTP
import HaulTerminal
import HaulTestSupport
import Testing

@testable import HaulDirect

/// The file of `--save-cookies`.
@Suite struct CookieFileTests {
    private let directory = TemporaryDirectory()

    private var names: [String] { (try? FileManager.default.contentsOfDirectory(atPath: directory.path)) ?? [] }

    @Test("a link that another user has made beside the file is not followed") func link() throws {
        try Data("precious".utf8).write(to: URL(filePath: directory.file("victim")))
        let link = directory.file("jar.\(getpid())")
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: directory.file("victim"))
        try CookieFile(directory.file("jar"), known: []).save()
        #expect(directory.contents("victim") == Array("precious".utf8))
        #expect(directory.contents("jar")?.starts(with: Array("# Netscape".utf8)) == true)
        let mode = try FileManager.default.attributesOfItem(atPath: directory.file("jar"))[.posixPermissions]
        #expect(mode as? Int == 0o600)
    }

    @Test("a server adds at most 50 cookies, and the oldest go") func bounded() throws {
        let own = try #require(try StoredCookie(line: "other.test\tFALSE\t/\tFALSE\t0\ta\t1"))
        let file = CookieFile(directory.file("jar"), known: [own])
        for n in 0..<200 {
            file.record(
                ResponseHead(
                    status: 200, headers: HeaderFields([HeaderField("Set-Cookie", "c\(n)=1")]), url: "http://h.test/"))
        }
        try file.save()
        let lines = String(decoding: directory.contents("jar") ?? [], as: UTF8.self).split(separator: "\n").dropFirst()
        #expect(lines.count == 51 && lines.first?.hasPrefix("other.test") == true)
        #expect(lines.last?.contains("c199") == true && !lines.contains { $0.hasSuffix("c149\t1") })
    }

    @Test("a server without TLS replaces no cookie of https, and sets none")
    func secure() throws {
        let own = try #require(try StoredCookie(line: ".example.org\tTRUE\t/\tTRUE\t0\tsid\tgood"))
        let file = CookieFile(directory.file("jar"), known: [own])
        func record(_ url: String, _ fields: String...) {
            let headers = HeaderFields(fields.map { HeaderField("Set-Cookie", $0) })
            file.record(ResponseHead(status: 200, headers: headers, url: url))
        }
        record(
            "http://x.example.org/", "sid=evil; Domain=example.org; Path=/", "sid=; Max-Age=0; Domain=example.org",
            "sid=evil; Path=/a", "s=evil; Secure", "__Secure-s=evil", "ok=1")
        record(
            "https://x.example.org/", "__Host-s=evil; Secure; Domain=example.org; Path=/",
            "__Secure-s=evil", "__Host-t=good; Secure; Path=/", "__Secure-t=good; Secure")
        try file.save()
        let lines = String(decoding: directory.contents("jar") ?? [], as: UTF8.self)
        #expect(!lines.contains("evil"), "\(lines)")
        #expect(lines.split(separator: "\n").count == 5 && lines.contains("sid\tgood") && lines.contains("ok\t1"))
        // The server of https may.
        record("https://x.example.org/", "sid=new; Domain=example.org; Path=/; Secure")
        try file.save()
        let after = String(decoding: directory.contents("jar") ?? [], as: UTF8.self)
        #expect(after.contains("sid\tnew") && !after.contains("sid\tgood"))
    }

    @Test("a file that cannot be written leaves nothing") func failure() throws {
        try FileManager.default.createDirectory(
            atPath: directory.file("jar/full"), withIntermediateDirectories: true)
        #expect(throws: ExitStatus.self) { try CookieFile(directory.file("jar"), known: []).save() }
        #expect(names == ["jar"])
    }
}
