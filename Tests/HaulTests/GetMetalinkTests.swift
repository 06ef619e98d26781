import Glibc
import HaulTestSupport
import Testing

/// Where the files of a Metalink go that a server sends instead of a file.
@Suite struct GetMetalinkTests {
    private static let bytes = FileBytes(seed: 99, count: 100_000)

    /// Each URL is a Metalink of the file `disc`, except those below /f and /slow.
    private func origin(_ gate: Latch = Latch()) throws -> OriginServer {
        try OriginServer { request in
            if request.path.hasPrefix("/f") { return .file(Self.bytes, to: request) }
            if request.path == "/slow" {
                var reply = OriginReply.file(Self.bytes, to: request)
                reply.hold = (0, gate)
                return reply
            }
            let text = """
                <metalink xmlns="urn:ietf:params:xml:ns:metalink"><file name="disc">
                <url>http://\(request.headers["host"] ?? "")/f\(request.path)</url></file></metalink>
                """
            return OriginReply(headers: [("Content-Type", "application/metalink4+xml")], body: Array(text.utf8))
        }
    }

    @Test("they go to the directory that a list, or an -o of its own, gives the URL") func directories() async throws {
        let (bench, origin) = (GetBench(), try origin())
        let environment = ["TMPDIR": bench.home.path]
        let list = [("/a", "one"), ("/a", "two/deep"), ("/b", bench.home.file("away"))].map {
            "\(origin.url($0))\n dir=\($1)\n"
        }.joined()
        let listed = try await bench.get("-i", "-", input: list, environment: environment)
        #expect(listed.status == 0, "\(listed)")
        let named = try await bench.get(
            "-o", "three/", origin.url("/c"), "-o", "four/", origin.url("/d"), environment: environment)
        #expect(named.status == 0, "\(named)")
        for directory in ["one", "two/deep", "three", "four"] {
            #expect(bench.files.holds("\(directory)/disc", Self.bytes), "\(directory)")
        }
        #expect(bench.home.holds("away/disc", Self.bytes) && bench.names == ["four", "one", "three", "two"])
    }

    @Test("they go to the directory of the command that was interrupted before it reached the URL")
    func continued() async throws {
        let (bench, gate) = (GetBench(), Latch())
        let origin = try origin(gate)
        let first = try bench.start(
            ["-d", "deep", "-i", "-", "-j1", "-x1"], input: "\(origin.url("/slow"))\n\(origin.url("/a"))\n")
        try await eventually("the first request") { !origin.requests.isEmpty }
        first.kill(SIGINT)
        #expect(try await first.wait() == 130)
        gate.open()
        let rest = try await bench.get("--continue", environment: ["TMPDIR": bench.home.path])
        #expect(rest.status == 0 && bench.names == ["deep"], "\(rest)")
        #expect(bench.files.holds("deep/disc", Self.bytes) && bench.files.holds("deep/slow", Self.bytes))
    }
}
