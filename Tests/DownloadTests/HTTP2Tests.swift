import HaulContract
import HaulHTTP
import HaulTestSupport
import Testing

@testable import HaulActivities

/// Downloads from servers that speak only HTTP/2.
@Suite(
    "Downloads over HTTP/2",
    .enabled(if: HTTP2Front.isInstalled && ChildProcess.path(of: "openssl") != nil, "nghttpx or openssl is missing"))
struct HTTP2DownloadTests {
    private let bytes = FileBytes(seed: 151, count: 6_000_000)

    @Test("several connections with ranges make the file, although one is cut") func parts() async throws {
        let certificates = try await Certificates()
        let bytes = bytes
        let origin = try OriginServer { request in
            var reply = OriginReply.file(bytes, to: request)
            reply.pace = 1_000_000
            if request.number == 2 { (reply.cut, reply.end) = (200_000, .reset) }
            return reply
        }
        let front = try await HTTP2Front(before: origin, certificates)
        let bench = try DownloadBench { $0.certificateAuthorities = certificates.file("ca.pem") }
        var job = Job(id: "j", urls: [front.url("/a")])
        job.connections = 4
        #expect(await bench.run(job).file?.bytes == bytes.count)
        #expect(bench.directory.holds("a", bytes))
        #expect(origin.requests.contains { $0.headers["range"] != nil && $0.headers["if-range"] == "\"v1\"" })
    }

    @Test("a stopped download continues where it stopped") func continued() async throws {
        let certificates = try await Certificates()
        let (latch, bytes) = (Latch(), bytes)
        let origin = try OriginServer { request in
            var reply = OriginReply.file(bytes, to: request)
            if request.number == 1 { reply.hold = (2_000_000, latch) }
            return reply
        }
        let front = try await HTTP2Front(before: origin, certificates)
        let bench = try DownloadBench { $0.certificateAuthorities = certificates.file("ca.pem") }
        var job = Job(id: "j", urls: [front.url("/a")])
        job.connections = 1
        let resume = try #require(try await bench.begin(job, until: 1_900_000))
        latch.open()
        #expect(await bench.run(job, resume: resume).file?.bytes == bytes.count)
        #expect(bench.directory.holds("a", bytes))
        let last = try #require(origin.requests.last)
        #expect(last.headers["range"] == "bytes=\(resume.offsets.count)-")
    }
}
