import HaulTestSupport
import Testing

@testable import HaulDirect

/// How much memory the texts of a Metalink may take, which any server may send.
@Suite struct MetalinkTextTests {
    private func metalink(_ content: String, declaration: String = "") -> [UInt8] {
        Array(
            """
            <?xml version="1.0"?>\(declaration)
            <metalink xmlns="urn:ietf:params:xml:ns:metalink"><file name="a">\(content)</file></metalink>
            """.utf8)
    }

    private func refusal(_ bytes: [UInt8]) async -> String? {
        await thrown { () throws(Metalink.Malformed) in try Metalink.read(bytes) }?.why
    }

    @Test("entities of a document type are not expanded") func entities() async throws {
        let declaration = "<!DOCTYPE metalink [<!ENTITY e \"\(String(repeating: "x", count: 10_000))\">]>"
        let bytes = metalink("<url>http://a/\(String(repeating: "&e;", count: 5000))</url>", declaration: declaration)
        #expect(await refusal(bytes)?.contains("document type") == true)
        #expect(await refusal(metalink("<url>http://a/</url>", declaration: "<!DOCTYPE metalink>")) != nil)
    }

    @Test("a URL of more than 64 KiB is refused, and a long description is skipped") func texts() async throws {
        let long = String(repeating: "x", count: 100_000)
        #expect(await refusal(metalink("<url>http://a/\(long)</url>"))?.contains("url") == true)
        #expect(await refusal(metalink("<hash type=\"md5\">\(long)</hash>"))?.contains("hash") == true)
        let files = try Metalink.read(metalink("<description>\(long)</description><url>http://a/&amp;</url>"))
        #expect(files.map { $0.urls.map(\.url) } == [["http://a/&"]])
    }

    @Test("elements that are nested too deep are refused") func deep() async throws {
        let nested = String(repeating: "<a>", count: 40) + String(repeating: "</a>", count: 40)
        #expect(await refusal(metalink(nested))?.contains("nested deeper than 32") == true)
    }
}
