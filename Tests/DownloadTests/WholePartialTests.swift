import Foundation
import Glibc
import HaulContract
import HaulTestSupport
import Synchronization
import Testing

@testable import HaulActivities

/// A partial file that has all bytes, but whose name was taken when an earlier run wanted to give it the name.
@Suite struct WholePartialTests {
    private static let (old, new) = (FileBytes(seed: 73, count: 2_000_000), FileBytes(seed: 74, count: 2_000_000))

    @Test("a whole partial file of another size than the push has is fetched again", arguments: [true, false])
    func otherSize(hasSize: Bool) async throws {
        let bench = try DownloadBench()
        let larger = FileBytes(seed: 75, count: 2_100_000)
        let (latch, isNew) = (Latch(), Shared(false))
        let origin = try OriginServer { request in
            var reply = OriginReply.file(isNew.value ? larger : Self.old, etag: nil, to: request)
            if request.number == 1 { reply.hold = (700_000, latch) }
            return reply
        }
        var job = Job(id: "j", urls: [origin.url("/a")])
        (job.path, job.connections, job.ifExists) = ("file", 1, .fail)
        job.checksum = Job.Checksum("sha256:" + Self.old.sha256)
        let first = bench.download(job)
        let task = Task { await first.outcome() }
        try await eventually("the first bytes") { first.progress().received >= 700_000 }
        try Data("another's".utf8).write(to: URL(fileURLWithPath: bench.directory.file("file")))
        latch.open()
        #expect(await task.value.code == .fileExists)
        let resume = try #require(await first.finalCheckpoint())
        unlink(bench.directory.file("file"))
        isNew.value = true
        job.checksum = Job.Checksum("sha256:" + larger.sha256)
        if hasSize { job.size = larger.count }
        #expect(await bench.run(job, resume: resume).file?.bytes == larger.count)
        #expect(bench.directory.holds("file", larger) && bench.directory.names == ["file"])
    }

    /// What tells the versions apart.
    enum Proof: CaseIterable { case etag, serverDigest, jobChecksum }

    @Test(
        "a whole partial file gets its name only if the server still has this version, or if the job's checksum proves it",
        arguments: Proof.allCases, [false, true])
    func named(_ proof: Proof, _ isChanged: Bool) async throws {
        let bench = try DownloadBench()
        let latch = Latch()
        let isNew = Shared(false)
        let origin = try OriginServer { request in
            let bytes = isNew.value ? Self.new : Self.old
            let digest = Data(SHA256.digest(bytes.all)).base64EncodedString()
            var reply = OriginReply.file(
                bytes, etag: proof == .etag ? "\"\(isNew.value)\"" : nil,
                headers: proof == .serverDigest ? [("Repr-Digest", "sha-256=:\(digest):")] : [], to: request)
            if request.number == 1 { reply.hold = (700_000, latch) }
            return reply
        }
        var job = Job(id: "j", urls: [origin.url("/a")])
        (job.path, job.connections, job.ifExists) = ("file", 1, .fail)
        if proof == .jobChecksum { job.checksum = Job.Checksum("sha256:" + Self.old.sha256) }
        let first = bench.download(job)
        let task = Task { await first.outcome() }
        try await eventually("the first bytes") { first.progress().received >= 700_000 }
        try Data("another's".utf8).write(to: URL(fileURLWithPath: bench.directory.file("file")))
        latch.open()
        #expect(await task.value.code == .fileExists)
        let resume = try #require(await first.finalCheckpoint())
        #expect(resume.offsets.contains(0..<Self.old.count))
        unlink(bench.directory.file("file"))
        isNew.value = isChanged
        let requests = origin.requests.count
        #expect(await bench.run(job, resume: resume).file?.file == "file")
        let isRefetched = isChanged && proof != .jobChecksum
        #expect(bench.directory.holds("file", isRefetched ? Self.new : Self.old))
        #expect(bench.directory.names == ["file"])
        #expect(origin.requests.count - requests == (proof == .jobChecksum ? 0 : isRefetched ? 2 : 1))
        #expect(bench.events.withLock { $0.contains("restarted") } == isRefetched)
    }
}
