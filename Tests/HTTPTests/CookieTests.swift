import HaulTestSupport
import Testing

@testable import HaulHTTP

@Suite struct CookieTests {
    private func header(_ lines: String...) throws -> String? {
        let url = try #require(WebURL("http://h/a"))
        var jar = CookieJar()
        for line in lines { jar.set(line, from: url) }
        return jar.header(for: url)
    }

    @Test("a cookie is sent without attributes and blanks, and the last value of a name counts")
    func pairs() throws {
        #expect(try header("a=1; Path=/; HttpOnly", " b = 2=3 ;Secure", "a=4") == "b=2=3; a=4")
        #expect(try header("no pair", "=without a name") == nil)
    }

    @Test("a cookie with control characters is dropped", arguments: ["a=\u{1}", "a\u{7F}=1", "a=b\u{1F}c"])
    func control(_ line: String) throws { #expect(try header(line, "b=1") == "b=1") }

    @Test("a cookie of more than 4 KiB is dropped, and so is an origin's fifty-first") func limits() throws {
        #expect(try header("a=\(String(repeating: "v", count: 4095))") != nil)
        #expect(try header("a=\(String(repeating: "v", count: 4096))") == nil)
        let url = try #require(WebURL("http://h/a"))
        var jar = CookieJar()
        for number in 0..<60 { jar.set("c\(number)=\(number)", from: url) }
        jar.set("c3=new", from: url)
        let sent = jar.header(for: url)?.split(separator: "; ")
        #expect(sent?.count == 50 && sent?.last == "c3=new")
    }

    @Test("the cookies of all origins are bounded, and the oldest go") func all() throws {
        var jar = CookieJar()
        let urls = try (0..<200).map { try #require(WebURL("http://h\($0)/")) }
        for url in urls { for n in 0..<10 { jar.set("c\(n)=\(String(repeating: "v", count: 1000))", from: url) } }
        let kept = urls.compactMap { jar.header(for: $0)?.utf8.count }
        #expect(kept.reduce(0, +) < 70_000 && kept.count < 10)
        #expect(jar.header(for: urls[199])?.split(separator: "; ").count == 10)
        #expect(jar.header(for: urls[0]) == nil)
        for url in urls { for n in 0..<10 { jar.set("c\(n)=", from: url) } }
        let count = urls.compactMap { jar.header(for: $0)?.split(separator: "; ").count }.reduce(0, +)
        #expect(count == CookieJar.maxCountOfAll)
    }

    @Test("cookies of a file are sent only to their domain, path and scheme")
    func file() throws {
        let lines = [
            "# Netscape HTTP Cookie File", "", ".h.test\tTRUE\t/\tFALSE\t0\ta\t1",
            "h.test\tFALSE\t/sub\tFALSE\t0\tb\t2",
            "#HttpOnly_h.test\tFALSE\t/\tTRUE\t99999999999\tc\t3", "h.test\tFALSE\t/\tFALSE\t1\told\t4",
        ]
        let cookies = try lines.compactMap { try StoredCookie(line: $0) }
        #expect(cookies.filter { $0.isPast(at: 2) }.map(\.name) == ["old"])
        var jar = CookieJar(cookies.filter { !$0.isPast(at: 2) })
        func header(_ url: String) throws -> String? { jar.header(for: try #require(WebURL(url))) }
        #expect(try header("http://h.test/") == "a=1")
        #expect(try header("http://www.h.test/sub/x") == "a=1")
        #expect(try header("http://h.test/sub/x") == "a=1; b=2")
        #expect(try header("http://h.test/subway") == "a=1")
        #expect(try header("https://h.test/") == "a=1; c=3")
        #expect(try header("http://xh.test/") == nil)
        jar.set("a=5", from: try #require(WebURL("http://h.test/")))
        #expect(try header("http://h.test/") == "a=5")
        #expect(throws: StoredCookie.Unreadable.self) { try StoredCookie(line: "no cookie") }
    }

    @Test(
        "a cookie for a part of an IP address is refused, and one for the whole address goes only there",
        arguments: [
            ("127.0.0.1", "127.9.0.1", ["0.1", ".0.1", "0.0.1"]),
            ("[::ffff:10.0.0.1]", "[::ffff:10.9.0.1]", [".0.1]", "0.0.1]"]),
        ])
    func address(_ own: String, _ foreign: String, _ parts: [String]) throws {
        let (own, foreign) = (try #require(WebURL("http://\(own)/a")), try #require(WebURL("http://\(foreign)/a")))
        for part in parts {
            #expect(StoredCookie(field: "a=1; Domain=\(part); Path=/", from: own, at: 1) == nil)
            let read = try #require(try StoredCookie(line: ".\(part)\tTRUE\t/\tFALSE\t0\ta\t1"))
            #expect(!read.isFor(own) && !read.isFor(foreign))
        }
        for attribute in ["", "; Domain=\(own.host)", "; Domain=.\(own.host)"] {
            let cookie = try #require(StoredCookie(field: "a=1; Path=/\(attribute)", from: own, at: 1))
            #expect(cookie.isFor(own) && !cookie.isFor(foreign))
            #expect(cookie.line == "\(own.host)\tFALSE\t/\tFALSE\t0\ta\t1")
        }
        let read = try #require(try StoredCookie(line: ".\(own.host)\tTRUE\t/\tFALSE\t0\ta\t1"))
        #expect(read.isFor(own) && !read.isFor(foreign))
    }

    @Test("a path with a control character counts as none, so that a file with the cookie can be read")
    func path() throws {
        let url = try #require(WebURL("http://h.test/in/a"))
        for path in ["/\tx", "/\u{1}", "/ x", "x"] {
            let cookie = try #require(StoredCookie(field: "a=1; Path=\(path)", from: url, at: 1))
            #expect(cookie.line == "h.test\tFALSE\t/in\tFALSE\t0\ta\t1")
            #expect(try StoredCookie(line: cookie.line) == cookie)
        }
    }

    @Test("a cookie for a domain is accepted from a host beneath it, but not for a top-level domain")
    func domain() throws {
        func isAccepted(_ domain: String, from host: String) throws -> Bool {
            StoredCookie(field: "a=1; Domain=\(domain)", from: try #require(WebURL("http://\(host)/")), at: 1) != nil
        }
        #expect(try isAccepted("h.test", from: "www.h.test"))
        #expect(try isAccepted("1.test", from: "0.0.1.test"))
        #expect(try !isAccepted("test", from: "www.h.test"))
        #expect(try !isAccepted("test.", from: "www.h.test."))
        #expect(try !isAccepted("other.test", from: "www.h.test"))
    }
}
