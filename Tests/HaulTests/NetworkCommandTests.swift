import Foundation
import Glibc
import HaulTestSupport
import Testing

/// Network options of the operator, on real processes.
@Suite struct NetworkCommandTests {
    static let bytes = FileBytes(seed: 81, count: 300_000)

    private func push(_ url: String, _ id: String, to fleet: ProcessFleet) async throws {
        try await fleet.server.cli(
            "LPUSH", "haul:{default}:jobs", #"{"url":"\#(url)","id":"\#(id)","retries":0,"connect_timeout":1}"#)
    }

    @Test("--ca adds an authority, which https needs, and a file without one is refused at the start")
    func authorities() async throws {
        let fleet = try await ProcessFleet()
        let certificates = try await Certificates()
        let origin = try OriginServer(certificates: certificates) { .file(Self.bytes, to: $0) }
        let bare = try fleet.worker("bare")
        try await push(origin.url("/a"), "a", to: fleet)
        try await fleet.wait("a", for: "failed")
        #expect(try await fleet.field("error", of: "a") == "tls")
        try await fleet.end(bare)
        let trusting = try ChildProcess("haul", fleet.arguments("trusting") + ["--ca", certificates.file("ca.pem")])
        try await push(origin.url("/b"), "b", to: fleet)
        try await fleet.wait("b", for: "completed")
        #expect(fleet.root.holds("b", Self.bytes))
        try await fleet.end(trusting)
        for file in [certificates.file("ca.key"), "/no/such/file"] {
            let refused = try ChildProcess("haul", fleet.arguments("refused") + ["--ca", file])
            #expect(try await refused.wait() == 2)
            #expect(refused.standardError.contains(file))
        }
    }

    @Test("a worker ignores the environment's proxies and exceptions, and uses the operator's proxy")
    func proxies() async throws {
        let fleet = try await ProcessFleet()
        let certificates = try await Certificates()
        let plain = try OriginServer { .file(Self.bytes, to: $0) }
        let secure = try OriginServer(certificates: certificates) { .file(Self.bytes, to: $0) }
        let (wrong, right) = (try ProxyServer(), try ProxyServer())
        var environment = ["no_proxy": "*", "NO_PROXY": "*"]
        for name in ["http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"] {
            environment[name] = wrong.url("http")
        }
        let trust = ["--ca", certificates.file("ca.pem")]
        var without = environment
        for name in ["no_proxy", "NO_PROXY"] { without[name] = "" }
        let direct = try ChildProcess("haul", fleet.arguments("direct") + trust, environment: without)
        try await push(plain.url("/a"), "a", to: fleet)
        try await push(secure.url("/b"), "b", to: fleet)
        for id in ["a", "b"] { try await fleet.wait(id, for: "completed") }
        try await fleet.end(direct)
        #expect(wrong.connections == 0)
        let proxied = try ChildProcess(
            "haul", fleet.arguments("proxied") + trust + ["--proxy", right.url("http")], environment: environment)
        try await push(plain.url("/c"), "c", to: fleet)
        try await push(secure.url("/d"), "d", to: fleet)
        for id in ["c", "d"] { try await fleet.wait(id, for: "completed") }
        try await fleet.end(proxied)
        #expect(wrong.connections == 0)
        #expect(Set(right.targets) == ["GET \(plain.url("/c"))", "CONNECT 127.0.0.1:\(secure.port)"])
        for name in ["a", "b", "c", "d"] { #expect(fleet.root.holds(name, Self.bytes)) }
    }

    @Test(
        "HAUL_PROXY names the operator's proxy, and --proxy overrides it"
    )
    func proxyOfEnvironment() async throws {
        let fleet = try await ProcessFleet()
        let origin = try OriginServer { .file(Self.bytes, to: $0) }
        let (first, second) = (try ProxyServer(), try ProxyServer())
        let state = TemporaryDirectory()
        let environment = ["HAUL_PROXY": first.url("http"), "XDG_STATE_HOME": state.path]
        let worker = try ChildProcess("haul", fleet.arguments("w"), environment: environment)
        try await push(origin.url("/a"), "a", to: fleet)
        try await fleet.wait("a", for: "completed")
        try await fleet.end(worker)
        #expect(first.targets == ["GET \(origin.url("/a"))"])
        let target = TemporaryDirectory()
        let calls: [(String, [String])] = [("/b", []), ("/c", ["--proxy", second.url("http")])]
        for (path, options) in calls {
            let get = try ChildProcess(
                "haul", ["get", origin.url(path), "-o", target.path + path] + options, environment: environment)
            #expect(try await get.wait() == 0, "\(get.standardError)")
        }
        #expect(first.targets.last == "GET \(origin.url("/b"))")
        #expect(second.targets == ["GET \(origin.url("/c"))"])
    }

    @Test("a worker sets the mode and the server's time, and haul get takes a time, a proxy and an authority")
    func attributes() async throws {
        let fleet = try await ProcessFleet()
        let certificates = try await Certificates()
        let proxy = try ProxyServer()
        let origin = try OriginServer(certificates: certificates) {
            .file(Self.bytes, headers: [("Last-Modified", "Sun, 06 Nov 1994 08:49:37 GMT")], to: $0)
        }
        let options = ["--remote-time", "--file-mode", "0640", "--ca", certificates.file("ca.pem")]
        let worker = try ChildProcess("haul", fleet.arguments("w") + options)
        // The second push only revalidates: the record identifies the file by the time that it was given.
        for number in 1...2 {
            try await push(origin.url("/a"), "a", to: fleet)
            try await eventually(every: .milliseconds(50)) {
                try await fleet.field("state", of: "a") == "completed" && origin.requests.count >= number
            }
        }
        try await fleet.end(worker)
        #expect(origin.bytesSent("/a") == Self.bytes.count)
        let get = try ChildProcess(
            "haul",
            [
                "get", "-R", "-o", fleet.root.path + "/b", "--ca", certificates.file("ca.pem"), "--proxy",
                proxy.url("http"), origin.url("/b"),
            ], environment: ["XDG_STATE_HOME": fleet.root.file("state")])
        #expect(try await get.wait() == 0, "\(get.standardError)")
        #expect(!proxy.targets.isEmpty && proxy.targets.allSatisfy { $0 == "CONNECT 127.0.0.1:\(origin.port)" })
        for name in ["a", "b"] {
            var status = stat()
            lstat(fleet.root.file(name), &status)
            #expect(status.st_mtim.tv_sec == 784_111_777 && fleet.root.holds(name, Self.bytes))
            if name == "a" { #expect(status.st_mode & 0o777 == 0o640) }
        }
    }

    @Test("a certificate error fails the job at once, whatever its retries")
    func finalCertificates() async throws {
        let fleet = try await ProcessFleet()
        let certificates = try await Certificates()
        let origin = try OriginServer(certificates: certificates) { .file(Self.bytes, to: $0) }
        let other = try ChildProcess(
            "haul", fleet.arguments("w") + ["--allow-address", "::1", "--ca", certificates.file("ca.pem")])
        let bare = try await ProcessFleet()
        let untrusting = try bare.worker("w")
        try await fleet.push("https://localhost:\(origin.port)/a", as: "name")
        try await bare.push(origin.url("/a"), as: "authority")
        for (fleet, id) in [(fleet, "name"), (bare, "authority")] {
            try await fleet.wait(id, for: "failed")
            #expect(try await fleet.field("error", of: id) == "tls")
            #expect(try await fleet.field("attempt", of: id).isEmpty)
        }
        try await fleet.end(other, untrusting)
    }

    @Test(
        "a name that does not exist fails the job at once, and a resolver failure is retried",
        .enabled("needs root") { await canBeDeaf() },
        arguments: [Nameserver.Answer.noSuchName, .serverFailure], [false, true])
    func names(_ answer: Nameserver.Answer, _ hasProxy: Bool) async throws {
        let fleet = try await ProcessFleet()
        let nameserver = try #require(Nameserver(answer))
        let proxy = try ProxyServer()
        let worker = try PrivateMounts.start(
            nameserver.setup, "haul", fleet.arguments("w") + (hasProxy ? ["--proxy", proxy.url("socks5h")] : []))
        try await fleet.push("http://lost.test/a", as: "lost")
        try await fleet.wait("lost", for: answer == .noSuchName ? "failed" : "scheduled")
        #expect(try await fleet.field("error", of: "lost") == "dns")
        #expect(try await fleet.field("attempt", of: "lost").isEmpty == (answer == .noSuchName))
        let says = try await fleet.field("message", of: "lost").contains("the host lost.test does not exist")
        #expect(says == (answer == .noSuchName))
        try await fleet.end(worker)
    }

    @Test("--client-cert is presented by workers and haul get, and an invalid one is refused at the start")
    func clientCertificates() async throws {
        let fleet = try await ProcessFleet()
        let certificates = try await Certificates()
        let origin = try OriginServer(certificates: certificates, requiresCertificate: true) {
            .file(Self.bytes, to: $0)
        }
        let client = ["--client-cert", certificates.file("client.pem")]
        let options =
            ["--ca", certificates.file("ca.pem")] + client + ["--client-key", certificates.file("client.key")]
        let host = ["--client-cert-host", "127.0.0.1"]
        let worker = try ChildProcess("haul", fleet.arguments("w") + options + host)
        try await fleet.push(origin.url("/a"), as: "a")
        try await fleet.wait("a", for: "completed")
        try await fleet.end(worker)
        let environment = ["XDG_STATE_HOME": fleet.root.file("state")]
        let get = try ChildProcess(
            "haul", ["get", "-o", fleet.root.path + "/b", origin.url("/b")] + options, environment: environment)
        #expect(try await get.wait() == 0, "\(get.standardError)")
        for name in ["a", "b"] { #expect(fleet.root.holds(name, Self.bytes)) }
        for wrong in [client, client + ["--client-key", "/no/such/file"], ["--client-cert", "/no/such/file"]] {
            let refused = try ChildProcess("haul", fleet.arguments("refused") + wrong + host)
            #expect(try await refused.wait() == 2)
            #expect(refused.standardError.contains("client's certificate"))
        }
        // Whoever may push a job could see the certificate with a server of their own.
        let open = try ChildProcess("haul", fleet.arguments("refused") + options)
        #expect(try await open.wait() == 2)
        #expect(open.standardError.contains("--client-cert-host"))
    }

    @Test(
        "a host with an international name is reached", .enabled("needs mounts") { await PrivateMounts.arePossible() })
    func internationalHost() async throws {
        let fleet = try await ProcessFleet()
        let origin = try OriginServer { .file(Self.bytes, to: $0) }
        try Data("127.0.0.1 xn--bcher-kva.test\n".utf8).write(to: URL(fileURLWithPath: fleet.root.file("hosts")))
        let worker = try PrivateMounts.start(
            "mount --bind \(fleet.root.file("hosts")) /etc/hosts", "haul", fleet.arguments("w"))
        try await fleet.push("http://b\u{FC}cher.test:\(origin.port)/a", as: "a")
        try await fleet.wait("a", for: "completed")
        #expect(origin.requests.first?.headers["host"] == "xn--bcher-kva.test:\(origin.port)")
        try await fleet.end(worker)
    }

    @Test("workers and haul get send their own User-Agent, unless the job has one") func userAgent() async throws {
        let fleet = try await ProcessFleet()
        let elsewhere = try OriginServer { .file(Self.bytes, to: $0) }
        let origin = try OriginServer { request in
            request.path == "/moved"
                ? OriginReply(302, headers: [("Location", elsewhere.url("/there"))]) : .file(Self.bytes, to: request)
        }
        let worker = try fleet.worker("w")
        try await fleet.push(origin.url("/a"), as: "a")
        try await fleet.push(origin.url("/moved"), as: "b", more: #","headers":{"user-agent":"Mine/1"}"#)
        for id in ["a", "b"] { try await fleet.wait(id, for: "completed") }
        try await fleet.end(worker)
        let get = try ChildProcess(
            "haul", ["get", "-o", fleet.root.path + "/c", origin.url("/c")],
            environment: ["XDG_STATE_HOME": fleet.root.file("state")])
        #expect(try await get.wait() == 0, "\(get.standardError)")
        for request in origin.requests + elsewhere.requests {
            let agent = request.headers["user-agent"] ?? ""
            let isMine = request.path == "/moved" || request.path == "/there"
            #expect(isMine ? agent == "Mine/1" : agent.wholeMatch(of: #/Haul/[0-9.]+/#) != nil, "\(request.path)")
        }
    }

    static func canBeDeaf() async -> Bool {
        guard await PrivateMounts.arePossible() else { return false }
        return Nameserver() != nil
    }

    @Test(
        "a silent nameserver stops only the jobs that need it",
        .enabled("needs root") { await canBeDeaf() },
        arguments: [false, true])
    func silentNameserver(_ hasProxy: Bool) async throws {
        let fleet = try await ProcessFleet(held: nil)
        let nameserver = try #require(Nameserver())
        let proxy = try ProxyServer()
        let worker = try PrivateMounts.start(
            nameserver.setup, "haul", fleet.arguments("w") + (hasProxy ? ["--proxy", proxy.url("socks5h")] : []))
        for index in 0..<3 { try await push("http://lost.test/\(index)", "lost\(index)", to: fleet) }
        for index in 0..<3 {
            try await fleet.wait("lost\(index)", for: "failed")
            #expect(try await fleet.field("error", of: "lost\(index)") == "dns")
            #expect(
                try await fleet.field("message", of: "lost\(index)").contains("lost.test was not resolved within 1 s"))
        }
        #expect(nameserver.questions > 0)
        // The threads that asked it wait for 30 s. Jobs that do not need them continue.
        try await fleet.server.cli(
            "LPUSH", "haul:{default}:jobs", #"{"url":"http://lost.test/x","id":"waiting","connect_timeout":60}"#)
        try await fleet.wait("waiting", for: "running")
        try await eventually("other jobs to be done", within: .seconds(15), every: .milliseconds(50)) {
            try await fleet.push("good")
            return try await fleet.field("state", of: "good") == "completed"
        }
        try await fleet.server.cli("HSET", "haul:{default}:want", "waiting", "cancelled")
        try await eventually("the waiting job to be cancelled", within: .seconds(15), every: .milliseconds(50)) {
            try await fleet.field("state", of: "waiting") == "cancelled"
        }
        worker.kill(SIGTERM)
        #expect(try await worker.wait(within: .seconds(15)) == 0)
    }
}
