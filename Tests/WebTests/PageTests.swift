import Foundation
import HaulBus
import HaulContract
import HaulHTTPServer
import HaulRedis
import HaulTestSupport
import Testing

@testable import HaulWeb

@Suite struct PageTests {
    @Test("the page loads and runs only its own files") func contentSecurity() async throws {
        let fixture = try await WebFixture()
        for (name, bytes) in PageFiles.all {
            let response = await fixture.get("/" + name)
            #expect(response.status == 200 && response.text == String(decoding: bytes, as: UTF8.self))
            let policy = response["Content-Security-Policy"] ?? ""
            #expect(policy.contains("default-src 'none'") && !policy.contains("unsafe"))
            let tag = try #require(response["ETag"])
            #expect(await fixture.send("GET", "/" + name, fields: [("if-none-match", tag)]).status == 304)
            // A file of another server would be named by its URL.
            let others = response.text.replacing("https://example.org/", with: "").replacing("\"https://\"", with: "")
            if !name.hasSuffix("json") { #expect(!others.contains("https://"), "\(name)") }
        }
        #expect(await fixture.get("/").text.contains("<html lang=\"en\">"))
        #expect(await fixture.get("/../../etc/passwd").status == 404)
        #expect(await fixture.get("/main.js.map").status == 404)
    }

    /// The server would answer 404 for a file that CPage does not list, and only a browser would show it.
    @Test("each file of the page is served unchanged") func files() throws {
        let folder = SchemaValidator.repository.appending(path: "Sources/Web/Page")
        let names = try FileManager.default.contentsOfDirectory(atPath: folder.path)
        #expect(Set(PageFiles.all.map { $0.name.split(separator: "/").last.map(String.init) }) == Set(names))
        for (name, bytes) in PageFiles.all {
            let file = try Data(contentsOf: folder.appending(path: name.split(separator: "/").last ?? ""))
            #expect(bytes == Array(file), "\(name)")
        }
    }

    @Test("a phone can install the page, and share URLs with it") func manifest() async throws {
        let fixture = try await WebFixture()
        let response = await fixture.get("/manifest.webmanifest")
        #expect(response["Content-Type"] == "application/manifest+json")
        #expect(response["Content-Security-Policy"]?.contains("manifest-src 'self'") == true)
        let icon = try #require(response.json?["icons"]?.array?.first?["src"]?.string)
        #expect(await fixture.get("/" + icon)["Content-Type"] == "image/svg+xml")
        let target = try #require(response.json?["share_target"])
        // A share opens this path with the members of `params` in its query, which Page/main.js reads.
        #expect(target["action"]?.string == "./" && target["method"]?.string == "GET")
        #expect(target.at("params", "url")?.string == "url" && target.at("params", "text")?.string == "text")
    }

    @Test("the page works behind a prefix") func prefix() async throws {
        let fixture = try await WebFixture { $0.prefix = "/haul" }
        #expect(await fixture.get("/haul")["Location"] == "/haul/")
        #expect(await fixture.get("/haul/").status == 200)
        #expect(await fixture.get("/haul/api/session").status == 200)
        #expect(await fixture.get("/api/session").status == 404)
        #expect(await fixture.get("/hauler/").status == 404)
    }

    @Test("an address that others can reach requires accounts") func openAddresses() throws {
        let url = try RedisURL("redis://127.0.0.1")
        for (text, isOpen) in [("127.0.0.1:1", false), ("[::1]:1", false), ("0.0.0.0:1", true), ("[::]:1", true)] {
            let address = try #require(ListenAddress(text))
            var configuration = WebConfiguration(redis: url, queues: [.default], addresses: [address])
            #expect((configuration.problem != nil) == isOpen, "\(text)")
            configuration.accounts = try Accounts("a viewer \(Accounts.hash(token: "t"))")
            #expect(configuration.problem == nil)
        }
        for text in ["", "x", "host:1", "1.2.3.4:70000", "1.2.3:4", "[::1:1", "127.0.0.1:", "127.0.0.1:-1"] {
            #expect(ListenAddress(text) == nil, "\(text)")
        }
    }
}
