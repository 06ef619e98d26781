import HaulContract
import HaulHTTP
import HaulTestSupport
import Synchronization
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

    /// libcurl 7.88 does not report such a reset, so the download requests what follows.
    @Test(
        "a stream that is reset without an error, in the middle of a file of unknown length, is not a whole file",
        arguments: [
            ("206", "bytes 100000-299999/300000", ErrorCode.incomplete, false),
            ("416", "bytes */300000", .incomplete, false),
            ("416", "bytes */100000", nil, false), ("200", "", nil, true),
        ] as [(String, String, ErrorCode?, Bool)])
    func resetWithoutError(_ status: String, _ range: String, _ expected: ErrorCode?, _ isWarned: Bool) async throws {
        let certificates = try await Certificates()
        let body = [UInt8](repeating: 7, count: 100_000)
        let (requests, received) = (Shared(0), Latch())
        let server = RawServer(certificates: certificates) { connection in
            // A client that does not speak HTTP/2 gets no response.
            guard connection.readBody(24)?.starts(with: "PRI".utf8) == true else { return }
            func send(_ type: UInt8, _ flags: UInt8, _ stream: [UInt8], _ payload: [UInt8]) {
                let count = payload.count
                let size = [UInt8(count >> 16), UInt8(count >> 8 & 255), UInt8(count & 255)]
                connection.send(size + [type, flags] + stream + payload)
            }
            send(4, 0, [0, 0, 0, 0], [])
            while let head = connection.readBody(9) {
                let count = Int(head[0]) << 16 | Int(head[1]) << 8 | Int(head[2])
                guard connection.readBody(count) != nil else { return }
                let stream = Array(head[5...])
                if head[3] == 4, head[4] & 1 == 0 { send(4, 1, [0, 0, 0, 0], []) }
                guard head[3] == 1 else { continue }
                requests.change { $0 += 1 }
                if requests.value == 1 {
                    // ":status: 200" of HPACK's table (RFC 7541 appendix A), the body, and RST_STREAM with NO_ERROR, for
                    // which libcurl drops what the download has not received yet.
                    send(1, 4, stream, [0x88])
                    for start in stride(from: 0, to: body.count, by: 10_000) {
                        send(0, 0, stream, Array(body[start..<(start + 10_000)]))
                    }
                    received.wait()
                    send(3, 0, stream, [0, 0, 0, 0])
                } else {
                    // Literal fields: the name is an entry of the table, the value has its length before it.
                    let field = range.isEmpty ? [] : [0x0F, 0x0F, UInt8(range.utf8.count)] + Array(range.utf8)
                    send(1, 5, stream, [0x08, 3] + Array(status.utf8) + field)
                }
            }
        }
        defer { server.stop() }
        let bench = try DownloadBench { $0.certificateAuthorities = certificates.file("ca.pem") }
        let download = bench.download(Job(id: "j", urls: ["https://127.0.0.1:\(server.port)/a"]))
        let run = Task { await download.outcome() }
        defer { received.open() }
        try await eventually("the whole body") { download.progress().received == body.count }
        received.open()
        let outcome = await run.value
        if outcome.file != nil { await download.discard() }
        #expect(outcome.code == expected && (outcome.file?.bytes == 100_000) == (expected == nil), "\(outcome)")
        #expect(bench.directory.contents("a") == (expected == nil ? body : nil))
        #expect(bench.events.withLock { $0.contains("warning") } == isWarned)
    }
}
