import HaulTestSupport
import Testing

/// `haul get -N` from servers that do not say when their file was changed.
@Suite struct GetUndatedTests {
    private static let bytes = FileBytes(seed: 92, count: 100_000)

    @Test(
        "-N replaces no file of the user if the server gives no date, or one that cannot be read",
        arguments: [[], [("Last-Modified", "yesterday")]] as [[(String, String)]])
    func undated(_ headers: [(String, String)]) async throws {
        let bench = GetBench()
        let other = FileBytes(seed: 93, count: 100_000)
        let isOther = Shared(false)
        let origin = try OriginServer { request in
            .file(
                isOther.value ? other : Self.bytes, etag: isOther.value ? "\"v2\"" : "\"v1\"", headers: headers,
                to: request)
        }
        for text in ["mine", String(repeating: "m", count: 100_000), String(repeating: "m", count: 100_001)] {
            bench.write("x", text)
            let get = try await bench.get("-N", origin.url("/x"))
            #expect(get.status == 1 && get.err.contains("without a valid Last-Modified -N does not replace"), "\(get)")
            #expect(bench.files.contents("x") == Array(text.utf8) && bench.names == ["x"])
        }
        // A checksum still continues a part, and its own file is still fetched again.
        bench.write("x", Self.bytes.bytes(0..<1000))
        let checksum = "sha256:" + Self.bytes.sha256
        #expect(try await bench.get("-N", "--checksum", checksum, origin.url("/x")).status == 0)
        #expect(bench.files.holds("x", Self.bytes) && bench.names == ["x"])
        isOther.value = true
        #expect(try await bench.get("-N", origin.url("/x")).status == 0 && bench.files.holds("x", other))
    }

    @Test("-N replaces no file that was made while a file without a date was being downloaded")
    func undatedMeanwhile() async throws {
        let (bench, gate) = (GetBench(), Latch())
        let origin = try OriginServer { request in
            var reply = OriginReply.file(FileBytes(seed: 3, count: 900_000), etag: nil, to: request)
            reply.hold = (300_000, gate)
            return reply
        }
        let get = try bench.start(["-N", "-x1", origin.url("/x")])
        try await eventually("the partial file") { bench.names.contains { $0.hasPrefix(".haul-") } }
        bench.write("x", "mine")
        gate.open()
        #expect(try await get.wait() == 1 && get.standardError.contains("was made or changed"), "\(get.standardError)")
        #expect(bench.files.contents("x") == Array("mine".utf8))
    }
}
