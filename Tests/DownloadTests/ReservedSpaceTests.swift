import Glibc
import HaulContract
import HaulHTTP
import HaulTestSupport
import Testing

@testable import HaulActivities

/// What a run that ends without its file has reserved is free for others, however long the job waits or is kept.
@Suite struct ReservedSpaceTests {
    private static let bytes = FileBytes(seed: 41, count: 40_000_000)

    private func download(_ job: Job, in bench: DownloadBench) -> Download {
        Download(
            job: job, token: "t", key: String(repeating: "a", count: 40), resume: nil, completed: nil,
            clock: SharedClock(serverTime: UnixTime.milliseconds), context: bench.context, isLeaseHeld: { true },
            mayCommit: { true }, report: { _ in })
    }

    /// The bytes that the only file occupies.
    private func allocated(_ bench: DownloadBench) -> Int64? {
        var status = stat()
        guard let name = bench.directory.names.first, stat(bench.directory.file(name), &status) == 0 else { return nil }
        return Int64(status.st_blocks) * 512
    }

    @Test("a file of which no byte has arrived is removed, although it could be continued") func nothing() async throws
    {
        let bench = try DownloadBench()
        let origin = try OriginServer { request in
            var reply = OriginReply.file(FileBytes(seed: 1, count: 1 << 30), to: request)
            (reply.cut, reply.end) = (0, .fin)
            return reply
        }
        let download = download(Job(id: "j", urls: [origin.url("/a")]), in: bench)
        #expect(await download.outcome().code != nil)
        #expect(allocated(bench) ?? 0 >= 256 << 20, "no space was reserved")
        guard case .nothing = await download.retain(until: {}) else {
            Issue.record("the file is kept")
            return
        }
        #expect(bench.directory.names.isEmpty)
    }

    /// Sends 3 MB of each range, and the rest when the latch opens.
    private func origin(holding latch: Latch) throws -> OriginServer {
        try OriginServer { request in
            var reply = OriginReply.file(Self.bytes, to: request)
            reply.hold = (3_000_000, latch)
            return reply
        }
    }

    @Test("the bytes that have arrived stay, and occupy no more space than that") func some() async throws {
        let bench = try DownloadBench()
        let latch = Latch()
        let origin = try origin(holding: latch)
        var job = Job(id: "j", urls: [origin.url("/a")])
        // Both halves of the file have bytes, and what follows them is reserved.
        job.connections = 2
        let download = download(job, in: bench)
        let task = Task { await download.outcome() }
        try await eventually("the bytes of two connections") { download.transferred >= 6_000_000 }
        #expect(allocated(bench) ?? 0 >= Self.bytes.count, "no space was reserved")
        task.cancel()
        _ = await task.value
        guard case .checkpoint(let point?) = await download.retain(until: {}) else {
            Issue.record("the bytes are lost")
            return
        }
        #expect(point.offsets.count >= 6_000_000 && point.offsets.intervals.count == 2)
        #expect(try #require(allocated(bench)) < 8_000_000)
        latch.open()
        #expect(await bench.run(job, resume: point).file?.bytes == Self.bytes.count)
        #expect(bench.directory.holds("a", Self.bytes))
    }

    @Test("a run that may have lost its job releases nothing in a file that another run may be writing")
    func lost() async throws {
        let bench = try DownloadBench()
        let latch = Latch()
        let origin = try origin(holding: latch)
        var job = Job(id: "j", urls: [origin.url("/a")])
        job.connections = 1
        // The lease of this download is never certain.
        let download = bench.download(job)
        let task = Task { await download.outcome() }
        try await eventually("bytes") { download.transferred >= 3_000_000 }
        task.cancel()
        _ = await task.value
        guard case .checkpoint(_?) = await download.retain(until: {}) else {
            Issue.record("the bytes are lost")
            return
        }
        #expect(try #require(allocated(bench)) >= Self.bytes.count)
        latch.open()
    }
}
