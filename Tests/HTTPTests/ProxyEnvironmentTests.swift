import HaulTestSupport
import Testing

@testable import HaulHTTP

@Suite struct ProxyEnvironmentTests {
    private func proxy(_ url: String, _ variables: [String: String]) throws -> String? {
        ProxyEnvironment { variables[$0] }.proxy(for: try #require(WebURL(url)))
    }

    @Test("each scheme has its own proxy variable, and all_proxy is for the rest") func schemes() throws {
        let variables = ["http_proxy": "p:1", "HTTPS_PROXY": "q:2", "all_proxy": "r:3"]
        #expect(try proxy("http://h/", variables) == "p:1")
        #expect(try proxy("https://h/", variables) == "q:2")
        #expect(try proxy("http://h/", ["ALL_PROXY": "r:3"]) == "r:3")
        #expect(try proxy("http://h/", ["HTTP_PROXY": "p:1"]) == nil, "HTTP_PROXY may be a header of a CGI request")
        #expect(try proxy("https://h/", ["https_proxy": "", "HTTPS_PROXY": "q:2"]) == "q:2")
    }

    @Test(
        "no_proxy names hosts, domains and networks",
        arguments: [
            ("*", "h.test", false), ("h.test", "h.test", false), (".test", "h.test", false), ("test", "h.test", false),
            ("other,h.test", "H.TEST", false), ("h.test", "xh.test", true), ("h.test.", "h.test", false),
            ("10.0.0.0/8", "10.1.2.3", false), ("10.0.0.0/8", "11.1.2.3", true), ("127.0.0.1", "127.0.0.1", false),
            ("::1", "[::1]", false), ("a b, c", "b", false), ("", "h", true),
        ])
    func exceptions(_ list: String, _ host: String, _ isProxied: Bool) throws {
        #expect(try (proxy("http://\(host)/", ["http_proxy": "p", "no_proxy": list]) != nil) == isProxied)
    }

    @Test("a request uses the proxy of its URL's scheme, unless no_proxy names the host") func used() async throws {
        let origin = try OriginServer { _ in OriginReply(body: [1]) }
        let proxy = try ProxyServer()
        for (exceptions, count) in [("", 1), ("127.0.0.0/8", 1)] {
            var configuration = TransferEngine.Configuration()
            configuration.policy = .unrestricted
            configuration.proxyEnvironment = ProxyEnvironment {
                ["http_proxy": proxy.url("http"), "no_proxy": exceptions][$0]
            }
            let engine = TransferEngine(configuration: configuration)
            let transfer = try await engine.start(HTTPRequest(url: origin.url("/a")))
            #expect(try await transfer.collect(limit: 10) == [1])
            #expect(proxy.targets.count == count)
        }
        #expect(origin.requests.count == 2)
    }
}
