import Glibc
import HaulContract
import HaulTestSupport
import Synchronization
import Testing

@testable import HaulFileStore
@testable import HaulHTTP

@Suite("Proxies")
struct ProxyTests {
    /// Responds as a proxy that fetched the file, and refuses to tunnel.
    private let proxy = RawServer { connection in
        guard let request = connection.readRequest() else { return }
        if request.hasPrefix("CONNECT") {
            connection.send("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
        } else {
            let line = request.split(separator: "\r\n")[0]
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: \(line.utf8.count)\r\n\r\n\(line)")
        }
    }

    private func engine(_ policy: AddressPolicy, proxy: String? = nil) -> TransferEngine {
        var configuration = TransferEngine.Configuration()
        configuration.policy = policy
        configuration.proxy = proxy ?? "http://127.0.0.1:\(self.proxy.port)"
        return TransferEngine(configuration: configuration)
    }

    @Test("the operator's proxy is used, and the address policy does not apply to its address")
    func used() async throws {
        let engine = engine(.restricted(allowPrivate: true))
        #expect(
            try await fetch(engine, localRequest("http://10.1.2.3/file"))
                == Array("GET http://10.1.2.3/file HTTP/1.1".utf8))
    }

    @Test(
        "the address policy applies to the target behind a proxy, too",
        arguments: ["169.254.169.254", "localhost", "[::1]"])
    func judged(_ host: String) async throws {
        let engine = engine(.restricted())
        let error = await thrown { () async throws(TransferError) in
            try await engine.start(localRequest("http://\(host)/file"))
        }
        #expect(error?.code == .addressForbidden)
        #expect(proxy.connections == 0)
    }

    @Test("a proxy that refuses to tunnel, or is not there, is a proxy error")
    func refused() async throws {
        let request = localRequest("https://10.1.2.3/file")
        let tunnel = engine(.unrestricted)
        let refused = await thrown { () async throws(TransferError) in try await tunnel.start(request) }
        #expect(refused?.code == .proxy)
        let (descriptor, port) = try LoopbackSocket.bind()
        defer { close(descriptor) }
        let nowhere = engine(.unrestricted, proxy: "http://127.0.0.1:\(port)")
        let absent = await thrown { () async throws(TransferError) in try await nowhere.start(request) }
        #expect(absent?.code == .proxy)
    }

    @Test("the proxy gets the address that was checked, so that it cannot resolve the name to another one")
    func pinned() async throws {
        let asked = Mutex("")
        let recorder = RawServer { connection in
            let request = connection.readRequest() ?? ""
            asked.withLock { $0 = String(request.prefix { $0 != "\r\n" }) }
        }
        defer { recorder.stop() }
        let networks = ["127.0.0.0/8", "::1"].map { Network($0)! }
        let engine = engine(.restricted(allowed: networks), proxy: "http://127.0.0.1:\(recorder.port)")
        _ = await thrown { () async throws(TransferError) in
            try await engine.start(localRequest("https://localhost:444/"))
        }
        let line = asked.withLock(\.self)
        #expect(line == "CONNECT 127.0.0.1:444 HTTP/1.1" || line == "CONNECT [::1]:444 HTTP/1.1")
    }

    @Test("the environment's proxy is not used by default")
    func environment() async throws {
        // In a process of its own, because all tests share the environment, and it must not change while others read
        // it.
        await #expect(processExitsWith: .success) {
            setenv("http_proxy", "http://127.0.0.1:1", 1)
            setenv("ALL_PROXY", "http://127.0.0.1:1", 1)
            let server = RawServer { connection in
                _ = connection.readRequest()
                connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            }
            defer { server.stop() }
            let body = try await fetch(localEngine(), localRequest(server.url))
            #expect(body == Array("ok".utf8))
        }
    }
}
