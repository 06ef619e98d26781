import Foundation
import Glibc
import HaulTestSupport
import Testing

/// The options of `haul get` and `haul call` about how servers are reached.
@Suite(.timeLimit(.minutes(2))) struct NetworkOptionTests {
    private static let bytes = FileBytes(seed: 95, count: 1000)

    @Test("a name may be given an address or another server, and a family of addresses can be required")
    func names() async throws {
        let bench = GetBench()
        let origin = try OriginServer { .file(Self.bytes, to: $0) }
        let port = try #require(origin.url("/").split(separator: ":").last?.dropLast())
        let resolved = try await bench.get(
            "--resolve", "some.invalid:\(port):127.0.0.1", "http://some.invalid:\(port)/a")
        #expect(resolved.status == 0, "\(resolved)")
        #expect(origin.requests.last?.headers["host"] == "some.invalid:\(port)")
        let elsewhere = try await bench.get(
            "--connect-to", "some.invalid:80:127.0.0.1:\(port)", "http://some.invalid/b")
        #expect(elsewhere.status == 0 && bench.names == ["a", "b"], "\(elsewhere)")
        #expect(try await bench.get("-4", origin.url("/c")).status == 0)
        #expect(try await bench.get("-6", origin.url("/d")).status == 1)
        #expect(try await bench.get("--interface", "127.0.0.1", origin.url("/e")).status == 0)
        for (arguments, words) in [
            (["--resolve", "h:80"], "HOST:PORT:ADDRESS"), (["--resolve", "h:80:name"], "HOST:PORT:ADDRESS"),
            (["--connect-to", "a:b"], "HOST:PORT:HOST:PORT"), (["--pin", "sha256//x"], "44 characters"),
            (["-4", "-6"], "exclude each other"), (["--min-speed", "0"], "--min-speed"),
            (["-x", "65"], "from 1 to 64"),
        ] {
            let get = try bench.start(arguments + [origin.url("/f")])
            #expect(try await get.wait() == 2)
            #expect(get.standardError.contains(words), "\(get.standardError)")
        }
    }

    @Test("a pinned key proves a server with a self-signed certificate, and refuses another") func pin()
        async throws
    {
        let certificates = try await Certificates()
        let origin = try OriginServer(certificates: certificates) { .file(Self.bytes, to: $0) }
        let bench = GetBench()
        let digest = try ChildProcess(
            "sh",
            [
                "-c",
                "openssl x509 -in \"$1\" -pubkey -noout | openssl pkey -pubin -outform der | openssl dgst -sha256 -binary | base64",
                "sh", certificates.file("server.pem"),
            ])
        try #require(try await digest.wait() == 0)
        let pin = "sha256//" + digest.standardOutput.split(separator: "\n")[0]
        #expect(try await bench.get(origin.url("/a")).status == 1)
        let pinned = try await bench.get("--pin", pin, "-v", origin.url("/a"))
        #expect(pinned.status == 0 && pinned.err.contains("TLSv1.3"), "\(pinned)")
        let other = try await bench.get("--pin", "sha256//" + String(repeating: "A", count: 43) + "=", origin.url("/b"))
        #expect(other.status == 1 && (other.out + other.err).contains("not the one of --pin"), "\(other)")
    }

    @Test("a download ends with --max-time, and the same command continues it") func maxTime() async throws {
        let latch = Latch()
        let bench = GetBench()
        let origin = try OriginServer { request in
            var reply = OriginReply.file(FileBytes(seed: 3, count: 4 << 20), to: request)
            if request.number == 1 { reply.hold = (2 << 20, latch) }
            return reply
        }
        let slow = try await bench.get("-m", "1", "-x", "1", origin.url("/a"))
        latch.open()
        #expect(slow.status == 1 && (slow.out + slow.err).contains("within the 1 s of --max-time"), "\(slow)")
        let again = try await bench.get("-w", "%{http_code} %{filename_effective}\\n", origin.url("/a"))
        #expect(again.status == 0 && again.out.hasSuffix("206 \(bench.files.file("a"))\n"), "\(again)")
    }

    @Test("all requests go to a Unix socket") func unixSocket() async throws {
        let path = TemporaryDirectory()
        let server = try ChildProcess(
            "python3",
            [
                "-c",
                """
                import http.server, socketserver, sys
                class Handler(http.server.SimpleHTTPRequestHandler):
                    def address_string(self): return 'local'
                    def do_GET(self):
                        self.send_response(200); self.send_header('Content-Length', '5'); self.end_headers()
                        self.wfile.write(b'hello')
                    def log_message(self, *a): pass
                server = socketserver.UnixStreamServer(sys.argv[1], Handler)
                print('ready', flush=True)
                server.serve_forever()
                """, path.file("s"),
            ])
        defer { server.kill(SIGKILL) }
        try await eventually("the server") { server.standardOutput.contains("ready") }
        let call = try ChildProcess("haul", ["call", "--unix-socket", path.file("s"), "http://docker/version"])
        #expect(try await call.wait() == 0 && call.standardOutput == "hello", "\(call.standardError)")
    }
}
