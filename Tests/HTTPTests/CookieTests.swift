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

    @Test("a pair goes back without its attributes and the blanks around it, the last one of a name counts")
    func pairs() throws {
        #expect(try header("a=1; Path=/; HttpOnly", " b = 2=3 ;Secure", "a=4") == "b=2=3; a=4")
        #expect(try header("no pair", "=without a name") == nil)
    }

    @Test("what no request could carry is dropped", arguments: ["a=\u{1}", "a\u{7F}=1", "a=b\u{1F}c"])
    func control(_ line: String) throws { #expect(try header(line, "b=1") == "b=1") }
}
