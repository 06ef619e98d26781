import HaulContract
import HaulTestSupport
import Synchronization
import Testing

@testable import HaulActivities

/// Responses to range requests that cannot continue the file: the bytes so far are dropped, and the file is still
/// right.
@Suite struct ContinuationTests {
    static let bytes = FileBytes(seed: 71, count: 2_000_000)

    enum Lie: CaseIterable { case multipart, multipartOfOne, unknownTotal, noRange, otherUnit, twoRanges }

    private static func answer(_ lie: Lie, _ range: Range<Int64>) -> OriginReply {
        let etag = [("ETag", "\"v1\"")]
        if lie == .multipart {
            let middle = (range.lowerBound + range.upperBound) / 2
            return .multipart(bytes, [range.lowerBound..<middle, middle..<range.upperBound], headers: etag)
        }
        if lie == .multipartOfOne { return .multipart(bytes, [range], headers: etag) }
        var reply = OriginReply(206, headers: etag)
        reply.body = .file(bytes, range)
        let right = OriginReply.contentRange(range, of: bytes.count)
        switch lie {
        case .unknownTotal: reply.headers.append(("Content-Range", OriginReply.contentRange(range, of: nil)))
        case .otherUnit: reply.headers.append(("Content-Range", right.replacing("bytes", with: "items")))
        case .twoRanges: reply.headers += [("Content-Range", right), ("Content-Range", right)]
        default: break
        }
        return reply
    }

    @Test("an invalid part makes a continued download start over", arguments: Lie.allCases, [1, 4])
    func restarts(_ lie: Lie, _ connections: Int) async throws {
        let bench = try DownloadBench()
        let latch = Latch()
        let origin = try OriginServer { request in
            if let range = request.range(of: Self.bytes.count) { return Self.answer(lie, range) }
            var reply = OriginReply.file(Self.bytes, to: request)
            if request.number == 1 { reply.hold = (700_000, latch) }
            return reply
        }
        var job = Job(id: "j", urls: [origin.url("/a")])
        job.connections = connections
        let resume = try #require(try await bench.begin(job, until: 700_000))
        latch.open()
        #expect(await bench.run(job, resume: resume).file?.bytes == Self.bytes.count)
        #expect(bench.directory.holds("a", Self.bytes))
        #expect(bench.directory.names == ["a"])
        let isRestarted = bench.events.withLock { $0.contains("restarted") }
        #expect(isRestarted)
    }

    /// The excess of a chunk, and the length of the file. With 6 and 65,545 the chunk also has the framing of the next
    /// one, and all that follows is right.
    static let wrongSizes: [(excess: Int, count: Int64)] = [
        (1, 765_537), (2, 765_537), (3, 765_537), (6, 765_537), (3, 2_000_000), (65_545, 2_000_000),
    ]

    @Test("a part whose chunks have wrong sizes leaves no byte", arguments: wrongSizes, [1, 4])
    func wrongChunk(_ wrong: (excess: Int, count: Int64), _ connections: Int) async throws {
        let bench = try DownloadBench()
        let latch = Latch()
        let bytes = FileBytes(seed: 75, count: wrong.count)
        let origin = try OriginServer { request in
            var reply = OriginReply.file(bytes, to: request)
            if request.number == 1 { reply.hold = (700_000, latch) }
            if reply.status == 206 { reply.framing = .chunked }
            if request.number == 2 { reply.chunkExcess = wrong.excess }
            return reply
        }
        var job = Job(id: "j", urls: [origin.url("/a")])
        job.connections = connections
        let resume = try #require(try await bench.begin(job, until: 700_000))
        #expect(resume.offsets.count == 700_000)
        latch.open()
        #expect(await bench.run(job, resume: resume).file?.bytes == bytes.count)
        #expect(bench.directory.holds("a", bytes))
        #expect(bench.directory.names == ["a"])
    }

    @Test("if each part has a wrong chunk, the download fails, and later runs do not continue from such bytes")
    func wrongChunks() async throws {
        let bench = try DownloadBench()
        let isRepaired = Shared(false)
        let origin = try OriginServer { request in
            var reply = OriginReply.file(Self.bytes, to: request)
            if isRepaired.value { return reply }
            if reply.status == 206 {
                // Slowly, so that the bytes of a chunk reach the file before the next chunk shows the error.
                (reply.framing, reply.chunkExcess, reply.pace) = (.chunked, 3, 2_000_000)
            } else {
                (reply.cut, reply.end) = (700_000, .fin)
            }
            return reply
        }
        var job = Job(id: "j", urls: [origin.url("/a")])
        job.connections = 1
        let first = bench.download(job)
        let outcome = await first.outcome()
        guard case .failed(let failure) = outcome else { Issue.record("\(outcome)"); return }
        #expect(failure.message.contains("chunk"), "\(failure)")
        isRepaired.value = true
        #expect(await bench.run(job, resume: await first.finalCheckpoint()).file != nil)
        #expect(bench.directory.holds("a", Self.bytes))
    }

    @Test(
        "the ETag of one URL does not identify another URL's file, unless a checksum covers the whole",
        arguments: [false, true])
    func otherURL(_ isProven: Bool) async throws {
        let bench = try DownloadBench()
        let other = FileBytes(seed: 72, count: Self.bytes.count)
        let latch = Latch()
        let origin = try OriginServer { request in
            var reply = OriginReply.file(request.path == "/a" ? Self.bytes : other, to: request)
            if request.number == 1 { reply.hold = (700_000, latch) }
            return reply
        }
        var job = Job(id: "j", urls: [origin.url("/a")])
        (job.connections, job.path) = (1, "file")
        let resume = try #require(try await bench.begin(job, until: 700_000))
        latch.open()
        job.urls = [origin.url("/b")]
        if isProven { job.checksum = Job.Checksum("sha256:" + SHA256.hexadecimal(SHA256.digest(other.all))) }
        #expect(await bench.run(job, resume: resume).file?.bytes == other.count)
        #expect(bench.directory.holds("file", other))
    }

    @Test(
        "of two URLs that differ in their query alone, the bytes of one are never used for the other",
        arguments: ["/a?id=1", "/a?file=x", "/a?v", "/a"], ["/a?id=2", "/a?file=y&file=x"])
    func otherQuery(_ first: String, _ second: String) async throws {
        let bench = try DownloadBench()
        let other = FileBytes(seed: 74, count: Self.bytes.count)
        let latch = Latch()
        // Both have the same length, ETag and date, as nginx makes them for files of one deployment.
        let origin = try OriginServer { request in
            var reply = OriginReply.file(request.path == first ? Self.bytes : other, to: request)
            if request.number == 1 { reply.hold = (700_000, latch) }
            return reply
        }
        var job = Job(id: "j", urls: [origin.url(first)])
        (job.connections, job.path) = (1, "file")
        let resume = try #require(try await bench.begin(job, until: 700_000))
        latch.open()
        job.urls = [origin.url(second)]
        let completed = await bench.run(job, resume: resume).file
        #expect(bench.directory.holds("file", other))
        job.urls = [origin.url(first)]
        _ = await bench.run(job, completed: completed).file
        #expect(bench.directory.holds("file", Self.bytes))
    }

    @Test(
        "a file of one URL is not reused for another URL, whatever its ETag or its age",
        arguments: [nil, Duration.seconds(3600)])
    func otherFile(_ freshFor: Duration?) async throws {
        let bench = try DownloadBench()
        let other = FileBytes(seed: 73, count: Self.bytes.count)
        let origin = try OriginServer { .file($0.path == "/a" ? Self.bytes : other, to: $0) }
        var job = Job(id: "j", urls: [origin.url("/a")])
        (job.path, job.freshFor) = ("file", freshFor)
        let completed = await bench.run(job).file
        job.urls = [origin.url("/b")]
        #expect(await bench.run(job, completed: completed).file?.bytes == other.count)
        #expect(bench.directory.holds("file", other))
    }

    @Test("a newly signed URL continues where the old one stopped") func newQuery() async throws {
        let bench = try DownloadBench()
        let latch = Latch()
        let origin = try OriginServer { request in
            var reply = OriginReply.file(Self.bytes, to: request)
            if request.number == 1 { reply.hold = (700_000, latch) }
            return reply
        }
        var job = Job(id: "j", urls: [origin.url("/a?sign=1")])
        job.connections = 1
        let resume = try #require(try await bench.begin(job, until: 700_000))
        latch.open()
        job.urls = [origin.url("/a?sign=2")]
        #expect(await bench.run(job, resume: resume).file != nil)
        #expect(bench.directory.holds("a", Self.bytes))
        #expect(origin.requests.last?.headers["range"] == "bytes=700000-")
    }

    @Test("early hints and trailers do not identify the file") func aroundTheHead() async throws {
        let bench = try DownloadBench()
        let origin = try OriginServer { request in
            var reply = OriginReply.file(Self.bytes, to: request)
            reply.preamble = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nETag: \"early\"\r\n\r\n"
            if request.number > 1 {
                reply.framing = .chunked
                reply.trailers = "ETag: \"late\"\r\nContent-Range: bytes 0-0/1\r\n"
            } else {
                reply.cut = 700_000
                reply.end = .fin
            }
            return reply
        }
        var job = Job(id: "j", urls: [origin.url("/a")])
        job.connections = 1
        let file = await bench.run(job).file
        #expect(file?.entity.etag == "\"v1\"")
        #expect(bench.directory.holds("a", Self.bytes))
        #expect(origin.requests.map { $0.headers["if-range"] } == [nil, "\"v1\""])
        #expect(origin.bytesSent("/a") == Self.bytes.count)
    }

    @Test("a server that sends one byte for each range gets few requests in an attempt", arguments: [1, 4])
    func singleBytes(_ connections: Int) async throws {
        let bench = try DownloadBench()
        let origin = try OriginServer { request in
            guard let range = request.range(of: Self.bytes.count) else {
                var reply = OriginReply.file(Self.bytes, to: request)
                reply.cut = 100_000
                return reply
            }
            let first = range.lowerBound..<range.lowerBound + 1
            var reply = OriginReply(
                206,
                headers: [("ETag", "\"v1\""), ("Content-Range", OriginReply.contentRange(first, of: Self.bytes.count))])
            reply.body = .file(Self.bytes, first)
            return reply
        }
        var job = Job(id: "j", urls: [origin.url("/a")])
        job.connections = connections
        #expect(await bench.run(job).code == .incomplete)
        #expect(origin.requests.count < 20, "\(origin.requests.count)")
    }
}
