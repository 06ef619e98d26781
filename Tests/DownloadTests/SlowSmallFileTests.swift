import HaulContract
import HaulTestSupport
import Synchronization
import Testing

@testable import HaulActivities

/// Small files, which are collected in memory, from servers so slow that a checkpoint is due before the file is
/// complete.
@Suite struct SlowSmallFileTests {
    static let bytes = FileBytes(seed: 81, count: 40_000)

    /// An origin that stops after 10,000 bytes until `latch` is opened. `change` alters the first response.
    private func origin(_ latch: Latch, _ change: @escaping @Sendable (inout OriginReply) -> Void = { _ in }) throws
        -> OriginServer
    {
        try OriginServer { request in
            var reply = OriginReply.file(Self.bytes, to: request)
            if request.number == 1 {
                reply.hold = (10_000, latch)
                change(&reply)
            }
            return reply
        }
    }

    private func checkpoint(_ download: Download) async throws -> ResumePoint {
        var point: ResumePoint?
        try await eventually("10,000 bytes") { download.progress().received == 10_000 }
        try await eventually("a checkpoint") {
            point = await download.checkpoint().point
            return point != nil
        }
        return point!
    }

    @Test("a small file is only in memory until it is complete or a checkpoint is due") func inMemory() async throws {
        let (bench, latch) = (try DownloadBench(), Latch())
        let origin = try origin(latch)
        let download = bench.download(Job(id: "j", urls: [origin.url("/a")]))
        let running = Task { await download.outcome() }
        try await eventually("10,000 bytes") { download.progress().received == 10_000 }
        #expect(bench.directory.names.isEmpty)
        latch.open()
        #expect(await running.value.file?.bytes == Self.bytes.count)
        #expect(bench.directory.holds("a", Self.bytes))
    }

    @Test(
        "a small file has checkpoints from then on, and is completed by the same response",
        arguments: [true, false])
    func checkpointed(_ hasChecksum: Bool) async throws {
        let (bench, latch) = (try DownloadBench(), Latch())
        let origin = try origin(latch)
        var job = Job(id: "j", urls: [origin.url("/a")])
        if hasChecksum {
            let digest = SHA256.hexadecimal(SHA256.digest(Self.bytes.all))
            job.checksum = Job.Checksum(algorithm: .sha256, digest: digest)
        }
        let download = bench.download(job)
        let running = Task { await download.outcome() }
        let point = try await checkpoint(download)
        #expect(point.offsets.intervals == [0..<10_000])
        #expect(download.progress().received == 10_000 && download.progress().connections == 1)
        latch.open()
        #expect(await running.value.file?.bytes == Self.bytes.count)
        #expect(bench.directory.holds("a", Self.bytes))
        #expect(origin.requests.count == 1)
        let events = bench.events.withLock { $0 }
        #expect(events == ["started true"])
        #expect(download.transferred == Self.bytes.count)
    }

    @Test(
        "a small file is continued from its checkpoint by another worker, or after its connection was cut",
        arguments: [true, false])
    func continued(_ isCut: Bool) async throws {
        let (bench, latch) = (try DownloadBench(), Latch())
        let origin = try origin(latch) {
            $0.cut = isCut ? 10_001 : 10_000
            $0.end = isCut ? .reset : .silence
        }
        let job = Job(id: "j", urls: [origin.url("/a")])
        let download = bench.download(job)
        let running = Task { await download.outcome() }
        let point = try await checkpoint(download)
        if isCut {
            latch.open()
            #expect(await running.value.code == .incomplete)
        } else {
            running.cancel()
            _ = await running.value
        }
        #expect(await bench.run(job, resume: point).file?.bytes == Self.bytes.count)
        #expect(bench.directory.holds("a", Self.bytes))
        #expect(bench.directory.names == ["a"])
        #expect(origin.requests.last?.headers["range"] == "bytes=10000-")
        latch.open()
    }
}
