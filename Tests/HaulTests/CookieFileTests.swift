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

    @Test("a file that cannot be written leaves nothing") func failure() throws {
        try FileManager.default.createDirectory(
            atPath: directory.file("jar/full"), withIntermediateDirectories: true)
        #expect(throws: ExitStatus.self) { try CookieFile(directory.file("jar"), known: []).save() }
        #expect(names == ["jar"])
    }
}
