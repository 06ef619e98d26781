import HaulHTTPServer
import Testing

@testable import HaulWeb

@Suite struct AdmissionTests {
    private func admission(_ hosts: Set<String> = []) -> Admission { Admission(hosts: hosts, accounts: nil) }

    @Test(
        "a request is accepted only for a host name that certainly means this server",
        arguments: [
            ("localhost:8484", true), ("127.0.0.1", true), ("[::1]:8484", true), ("10.1.2.3:80", true),
            ("LOCALHOST", true), ("haul.example.org", true), ("evil.example.org:8484", false),
            ("127.0.0.1.evil.org", false), ("evil.org:127.0.0.1", false), ("1.2.3.4.5", false), ("", false),
            ("localhost:evil", false), ("[::1]evil.example", false), ("[::1", false), ("localhost:80:80", false),
            ("[::1]", true), ("localhost:", true),
        ])
    func hosts(host: String, isKnown: Bool) {
        let request = ServerRequest(method: "GET", path: "/", fields: [("host", host)])
        let refusal = admission(["haul.example.org"]).refusal(ofHost: request)
        #expect((refusal == nil) == isKnown)
        if let refusal { #expect(refusal.status == 421) }
    }

    private func status(_ method: String, _ fields: [(name: String, value: String)]) -> Int? {
        let all = [("host", "localhost:8484"), ("content-type", "application/json; charset=utf-8")] + fields
        return admission(["haul.example.org"])
            .refusal(ofOrigin: ServerRequest(method: method, path: "/api/x", fields: all))?.status
    }

    @Test("another site's page cannot change anything") func changes() {
        #expect(status("POST", []) == nil)
        #expect(status("POST", [("origin", "http://localhost:8484")]) == nil)
        #expect(status("POST", [("origin", "https://haul.example.org")]) == nil)
        #expect(status("POST", [("sec-fetch-site", "same-origin"), ("origin", "http://localhost:8484")]) == nil)
        for origin in [
            "http://localhost:1", "http://evil.org", "null", "", "https://haul.example.org.evil.org",
            "http://localhost:8484/", "file://", "http://localhost:8484@evil.org",
        ] {
            #expect(status("POST", [("origin", origin)]) == 403, "\(origin)")
            #expect(status("PATCH", [("origin", origin), ("sec-fetch-site", "same-origin")]) == 403, "\(origin)")
        }
        for site in ["cross-site", "same-site", "none", ""] {
            #expect(status("POST", [("sec-fetch-site", site)]) == 403, "\(site)")
        }
    }

    @Test("another site's page cannot read the API") func reads() {
        #expect(status("GET", [("sec-fetch-site", "cross-site")]) == 403)
        #expect(status("GET", [("sec-fetch-site", "same-site")]) == 403)
        #expect(status("GET", [("sec-fetch-site", "none")]) == nil)
        #expect(status("GET", [("sec-fetch-site", "same-origin")]) == nil)
    }

    @Test("a change requires a JSON body") func json() {
        for type in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"] {
            let request = ServerRequest(
                method: "POST", path: "/api/x", fields: [("host", "localhost"), ("content-type", type)])
            #expect(admission().refusal(ofOrigin: request)?.status == 415)
        }
    }
}
