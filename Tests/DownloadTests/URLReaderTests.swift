import HaulContract
import HaulTestSupport
import Testing

@testable import HaulHTTP

/// A worker parses a URL itself and by libcurl. Both parsers must accept every URL that the claim accepts.
@Suite struct URLReaderTests {
    /// The reason why a URL that the claim accepts cannot be requested. nil if it can be.
    private static func wrong(_ url: String) -> String? {
        guard (try? Job(element: Array(#"{"url":\#(JSON.quoted(url))}"#.utf8))) != nil else { return nil }
        if URLRule.isObject(url) {
            return WebURL.object(url)?.unmasked == url && WebURL(url) == nil ? nil : "no worker reads \(url)"
        }
        guard let own = WebURL(url) else { return "no worker reads \(url)" }
        guard let read = Authority(own.unmasked) else { return "libcurl does not read \(own.unmasked)" }
        let host = own.host.hasPrefix("[") ? String(own.host.dropFirst().prefix { $0 != "%" && $0 != "]" }) : own.host
        guard read.host.prefix(while: { $0 != "%" }).lowercased() == host else {
            return "libcurl asks \(read.host) for \(own.host)"
        }
        return nil
    }

    @Test("every valid ASCII URL of the table is parsed") func table() throws {
        for element in ValidElements.all {
            for url in try Job(element: Array(element.utf8)).urls where url.utf8.allSatisfy({ $0 < 128 }) {
                #expect(Self.wrong(url) == nil, "\(url)")
            }
        }
    }

    @Test("every random URL that the claim accepts is parsed") func random() {
        var generator = SystemRandomNumberGenerator()
        let scraps = [
            "a", "b.c", "0", "1", "255", "256", "0x", "0xf", "x", "f", ".", "-", "_", ":", "::", "[", "]", "%", "%25",
            "%00",
            "%41", "@", ":80", ":0", "fe80::1", "1.2.3.4", "ffff", "~", "!", "$", "&", "'", "(", "*", "+", ",", ";",
            "=", "\\",
            "^", "`", "{", "|", "}", "\"", "<", "#", "?", "/", "é@", "user",
        ]
        for _ in 0..<50_000 {
            let authority = (0...Int.random(in: 0..<6, using: &generator)).map { _ in
                scraps.randomElement(using: &generator)!
            }
            let url = "http://\(authority.joined())/"
            if let wrong = Self.wrong(url) {
                Issue.record("\(wrong)")
                return
            }
        }
    }

    @Test(
        "a URL that libcurl parses differently, or not at all, is invalid",
        arguments: ["http://0x7f.1/", "http://2130706433/", "http://127.1/", "http://h:99999/", "http://[::1/"])
    func readDifferently(_ url: String) {
        #expect(WebURL(url) == nil)
        #expect(WebURL("http://h/")?.resolve(url) == nil)
    }

    @Test(
        "an IPv6 address is parsed in any notation, with a zone",
        arguments: ["[0:0:0:0:0:ffff:7f00:0001]", "[::1]", "[FE80::1%25eth0]", "[::ffff:127.0.0.1]"])
    func sixth(_ host: String) {
        #expect(WebURL("http://\(host):8080/a")?.hostAndPort == host.lowercased() + ":8080")
    }

    @Test("the port is the number that libcurl parses", arguments: ["http://h:080/", "http://h:/", "http://h/"])
    func port(_ url: String) throws {
        let url = try #require(WebURL(url))
        #expect(url.hostAndPort == "h:80" && url.hasSameOrigin(as: WebURL("http://h:80/")!))
    }

    @Test("the URL of an object has the bucket as its host, a decoded key and perhaps a version; it is not an http URL")
    func object() throws {
        let url = try #require(WebURL.object("s3://My.films/a%20b/%25ü+c%3Fd?versionId=x%2Fy"))
        #expect(url.bucket == "My.films" && url.host == "my.films" && url.hostAndPort == "my.films")
        #expect(url.key == "a b/%ü+c?d" && url.version == "x/y" && url.lastComponent == "%ü+c?d")
        #expect(url.pinned(to: "z") == url)
        let newest = try #require(WebURL.object("s3://films/k"))
        #expect(newest.version == nil && newest.pinned(to: "null") == newest && newest.pinned(to: "") == newest)
        #expect(newest.pinned(to: "a b/ü").unmasked == "s3://films/k?versionId=a%20b%2F%C3%BC")
        #expect(newest.pinned(to: "a b/ü").version == "a b/ü")
        #expect(WebURL.object("http://films/k") == nil && WebURL.object("s3://films") == nil)
        #expect(WebURL("http://h/")?.resolve("s3://films/k") == nil && WebURL("http://h/")?.resolve("s3:k") == nil)
    }

    @Test("the last @ ends user and password") func login() {
        let url = WebURL("http://u@x:p@ss@h:8/a@b")
        #expect(url?.login == WebURL.Login(user: "u@x", password: "p@ss") && url?.hostAndPort == "h:8")
        #expect(url?.unmasked == "http://u%40x:p%40ss@h:8/a@b" && url?.withoutCredentials.unmasked == "http://h:8/a@b")
        #expect(WebURL("http://@h/")?.login == WebURL.Login(user: "", password: ""))
    }

    @Test(
        "a host that only a worker can recognize as invalid is reported",
        arguments: ["\u{2100}.invalid", "\u{301}a.invalid"])
    func names(_ host: String) throws {
        let job = try Job(element: Array(#"{"urls":["http://h/","http://u:p@\#(host)/x?secret"]}"#.utf8))
        #expect(job.unreadableURL == "http://\(host)/x?[masked]")
        #expect(Job(id: nil, urls: ["http://h/", "http://bücher.example/"]).unreadableURL == nil)
    }
}
