import HaulTestSupport
import Testing

@testable import HaulStorage

/// The names that `haul get` gives to files.
@Suite(.timeLimit(.minutes(2))) struct GetArgumentTests {
    private static let bytes = FileBytes(seed: 96, count: 300_000)

    @Test("the name of a file after a redirect is used if only that one has an extension") func finalNames()
        async throws
    {
        let bench = GetBench()
        let origin = try OriginServer { request in
            switch request.path {
            case "/latest": OriginReply(302, headers: [("Location", "/prog-1.2.zip")])
            case "/film.mkv": OriginReply(302, headers: [("Location", "/objects/8f3a.bin")])
            case "/get.php?id=1": OriginReply(302, headers: [("Location", "/disc.iso")])
            case "/plain": OriginReply(302, headers: [("Location", "/other")])
            default: .file(Self.bytes, to: request)
            }
        }
        for path in ["/latest", "/film.mkv", "/get.php?id=1", "/plain"] {
            #expect(try await bench.get(origin.url(path)).status == 0)
        }
        #expect(bench.names == ["disc.iso", "film.mkv", "plain", "prog-1.2.zip"])
        #expect(try await bench.get(origin.url("/latest")).out.contains("unchanged  prog-1.2.zip"))
        for (name, has) in [("a.zip", true), ("v1.2", false), (".profile", false), ("a.", false), ("x.tar.gz", true)] {
            #expect(FileName.hasExtension(name) == has, "\(name)")
        }
    }
}
