import HaulContract
import HaulTestSupport
import Synchronization
import Testing

@testable import HaulActivities

/// Which bytes may be joined, and what is recorded about them.
@Suite struct JoinTests {
    static let bytes = FileBytes(seed: 81, count: 2_000_000)

    private func job(_ urls: [String], _ change: (inout Job) -> Void = { _ in }) -> Job {
        var job = Job(id: "j", urls: urls)
        (job.path, job.connections) = ("file", 1)
        change(&job)
        return job
    }

    @Test(
        "bytes of two mirrors that were joined under a checksum are not continued without it", arguments: [false, true])
    func mixed(_ isOtherURL: Bool) async throws {
        let bench = try DownloadBench()
        let other = FileBytes(seed: 82, count: Self.bytes.count)
        let latch = Latch()
        let origin = try OriginServer { request in
            var reply = OriginReply.file(request.path == "/a" ? Self.bytes : other, to: request)
            if request.number == 1 { reply.hold = (700_000, latch) }
            if request.path == "/b", request.number == 1 { reply.hold = (100_000, latch) }
            return reply
        }
        let checksum = Job.Checksum("sha256:" + Self.bytes.sha256)
        let first = try await bench.begin(job([origin.url("/a")]) { $0.checksum = checksum }, until: 700_000)
        var resume = try #require(first)
        // Another mirror adds some bytes.
        let second = bench.download(job([origin.url("/b")]) { $0.checksum = checksum }, resume: resume)
        let task = Task { await second.outcome() }
        try await eventually("bytes of the other mirror") { second.transferred >= 100_000 }
        task.cancel()
        _ = await task.value
        resume = try #require(await second.finalCheckpoint())
        #expect(resume.offsets.count >= 800_000)
        latch.open()
        let url = origin.url(isOtherURL ? "/b" : "/a")
        #expect(await bench.run(job([url]), resume: resume).file != nil)
        #expect(bench.directory.holds("file", isOtherURL ? other : Self.bytes))
    }

    @Test("under a checksum another URL continues where the first one stopped") func otherURL() async throws {
        let bench = try DownloadBench()
        let latch = Latch()
        let origin = try OriginServer { request in
            var reply = OriginReply.file(Self.bytes, etag: "\"\(request.path)\"", to: request)
            if request.number == 1, request.path == "/a" { reply.hold = (700_000, latch) }
            return reply
        }
        let checksum = Job.Checksum("sha256:" + Self.bytes.sha256)
        let resume = try #require(
            try await bench.begin(job([origin.url("/a")]) { $0.checksum = checksum }, until: 700_000))
        latch.open()
        #expect(await bench.run(job([origin.url("/b")]) { $0.checksum = checksum }, resume: resume).file != nil)
        #expect(bench.directory.holds("file", Self.bytes))
        #expect(origin.bytesSent("/b") == Self.bytes.count - resume.offsets.count)
    }

    @Test("under a checksum the bytes of a lost mirror are kept", arguments: [OriginReply.End.fin, .silence])
    func lostMirror(_ end: OriginReply.End) async throws {
        let bench = try DownloadBench()
        let lost = try OriginServer { request in
            var reply = OriginReply.file(Self.bytes, to: request)
            (reply.cut, reply.end) = (request.number == 1 ? 700_000 : 0, end)
            return reply
        }
        let good = try OriginServer { .file(Self.bytes, etag: "\"other\"", to: $0) }
        let checksum = Job.Checksum("sha256:" + Self.bytes.sha256)
        // Only silence needs a stall limit. On a busy machine a limit may expire while bytes are in flight, and lose
        // them.
        let outcome = await bench.run(
            job([lost.url("/a"), good.url("/b")]) {
                $0.checksum = checksum
                if case .silence = end { $0.stallTimeout = .seconds(3) }
            })
        #expect(outcome.file != nil)
        #expect(bench.directory.holds("file", Self.bytes))
        #expect(good.bytesSent("/b") == Self.bytes.count - 700_000)
        #expect(!bench.events.withLock { $0.contains("restarted") })
    }

    @Test(
        "an unrequested encoding is stored as it arrives, and another encoding is not joined",
        arguments: ["gzip", "", "br"])
    func encoding(_ encoding: String) async throws {
        let bench = try DownloadBench()
        let latch = Latch()
        let origin = try OriginServer { request in
            var reply = OriginReply.file(Self.bytes, to: request)
            let sent = request.headers["range"] == nil ? "gzip" : encoding
            if !sent.isEmpty { reply.headers.append(("Content-Encoding", sent)) }
            if request.number == 1 { reply.hold = (700_000, latch) }
            return reply
        }
        let resume = try #require(try await bench.begin(job([origin.url("/a")]), until: 700_000))
        #expect(resume.entity.encoding == "gzip")
        latch.open()
        #expect(await bench.run(job([origin.url("/a")]), resume: resume).file?.entity.encoding == "gzip")
        #expect(bench.directory.holds("file", Self.bytes))
        #expect(bench.events.withLock { $0.contains("restarted") } == (encoding != "gzip"))
    }

    @Test("a server that ends each extra connection at once gets few of them") func refusing() async throws {
        let bench = try DownloadBench()
        let isHealthy = Mutex(false)
        let origin = try OriginServer { request in
            var reply = OriginReply.file(Self.bytes, to: request)
            if request.number == 1 { reply.pace = 400_000 }
            if request.number > 1, !isHealthy.withLock(\.self) { (reply.cut, reply.end) = (0, .fin) }
            return reply
        }
        let job = job([origin.url("/a")]) { $0.connections = 8 }
        let download = bench.download(job)
        let outcome = await download.outcome()
        #expect(origin.requests.count < 10)
        // The first response was shortened if another connection was to fetch the rest.
        if outcome.file == nil {
            #expect(outcome.code == .incomplete)
            isHealthy.withLock { $0 = true }
            #expect(await bench.run(job, resume: await download.finalCheckpoint()).file != nil)
        }
        #expect(bench.directory.holds("file", Self.bytes))
    }

    @Test(
        "a part without a date is not joined to a dated start, and one response fetches the whole again",
        arguments: [1, 8])
    func datelessPart(_ connections: Int) async throws {
        let bench = try DownloadBench()
        let other = FileBytes(seed: 83, count: Self.bytes.count)
        let date = [("Date", "Sat, 21 Nov 2026 12:00:00 GMT"), ("Last-Modified", "Fri, 20 Nov 2026 12:00:00 GMT")]
        let latch = Latch()
        let origin = try OriginServer { request in
            if let range = request.range(of: other.count) {
                var reply = OriginReply(
                    206, headers: [("Content-Range", OriginReply.contentRange(range, of: other.count))])
                reply.body = .file(other, range)
                return reply
            }
            var reply = OriginReply.file(
                request.number == 1 ? Self.bytes : other, etag: nil, headers: date, to: request)
            if request.number == 1 { reply.hold = (700_000, latch) }
            return reply
        }
        let job = job([origin.url("/a")]) { $0.connections = connections }
        let resume = try #require(try await bench.begin(job, until: 700_000))
        latch.open()
        let asked = origin.requests.count
        #expect(await bench.run(job, resume: resume).file?.bytes == other.count)
        #expect(bench.directory.holds("file", other))
        #expect(origin.requests.dropFirst(asked).count { $0.headers["range"] == nil } == 1)
        #expect(bench.events.withLock { $0.count { $0 == "restarted" } } == 1)
    }

    @Test("only GET requests ranges, and another method starts over") func post() async throws {
        let bench = try DownloadBench()
        let latch = Latch()
        let origin = try OriginServer { request in
            var reply = OriginReply.file(Self.bytes, to: request)
            if request.number == 1 { reply.hold = (700_000, latch) }
            return reply
        }
        let post = job([origin.url("/a")]) { ($0.method, $0.body) = ("POST", "question") }
        let resume = try #require(try await bench.begin(post, until: 700_000))
        latch.open()
        #expect(await bench.run(post, resume: resume).file != nil)
        #expect(bench.directory.holds("file", Self.bytes))
        #expect(origin.requests.map(\.method) == ["POST", "POST"])
        #expect(origin.requests.allSatisfy { $0.headers["range"] == nil })
    }

    @Test("a multipart body is not a part, whatever range its head claims") func multipart() async throws {
        let bench = try DownloadBench()
        let latch = Latch()
        let origin = try OriginServer { request in
            guard let range = request.range(of: Self.bytes.count) else {
                var reply = OriginReply.file(Self.bytes, to: request)
                if request.number == 1 { reply.hold = (700_000, latch) }
                return reply
            }
            var reply = OriginReply.multipart(Self.bytes, [range], headers: [("ETag", "\"v1\"")])
            reply.headers.append(("Content-Range", OriginReply.contentRange(range, of: Self.bytes.count)))
            reply.framing = .chunked
            return reply
        }
        let resume = try #require(try await bench.begin(job([origin.url("/a")]), until: 700_000))
        latch.open()
        #expect(await bench.run(job([origin.url("/a")]), resume: resume).file != nil)
        #expect(bench.directory.holds("file", Self.bytes))
    }

    @Test("a body without a length is ended soon after its expected size") func endless() async throws {
        let bench = try DownloadBench()
        let origin = try OriginServer { _ in
            var reply = OriginReply(body: Self.bytes.all)
            reply.framing = .chunked
            return reply
        }
        let download = bench.download(job([origin.url("/a")]) { $0.size = 300_000 })
        #expect(await download.outcome().code == .sizeMismatch)
        #expect(download.transferred <= 300_001)
    }

    @Test("a server that sends the whole file again after each break is not said to change it")
    func wholeAgain() async throws {
        let bench = try DownloadBench()
        let bytes = FileBytes(seed: 31, count: 400_000)
        let origin = try OriginServer { _ in
            var reply = OriginReply(headers: [("ETag", "\"v1\"")])
            (reply.body, reply.cut, reply.end) = (.file(bytes, 0..<Int64(bytes.count)), 200_000, .reset)
            return reply
        }
        let outcome = await bench.run(job([origin.url("/a")]))
        #expect(outcome.code == .incomplete)
        #expect("\(outcome)".contains("sends the whole file again"), "\(outcome)")
        #expect(origin.requests.count <= 6, "\(origin.requests.count)")
    }

    @Test(
        "a server that has a file only compressed gets a request without Accept-Encoding, and the bytes stay compressed"
    )
    func notAcceptable() async throws {
        let bench = try DownloadBench()
        let bytes = FileBytes(seed: 32, count: 3_000_000)
        let origin = try OriginServer { request in
            guard request.headers["accept-encoding"] == nil else { return OriginReply(406, body: Array("no".utf8)) }
            var reply = OriginReply.file(bytes, to: request)
            reply.headers.append(("Content-Encoding", "gzip"))
            return reply
        }
        let outcome = await bench.run(job([origin.url("/a")]) { $0.connections = 3 })
        #expect(outcome.file?.bytes == bytes.count && outcome.file?.entity.encoding == "gzip", "\(outcome)")
        #expect(bench.directory.holds(try #require(outcome.file).file, bytes))
    }
}
