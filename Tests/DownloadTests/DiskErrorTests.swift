import Glibc
import HaulContract
import HaulFileStore
import HaulHTTP
import HaulTestSupport
import Synchronization
import Testing

@testable import HaulActivities

/// A disk that refuses a write in the middle of a download, and works again later.
@Suite struct DiskErrorTests {
    static let bytes = FileBytes(seed: 101, count: 4_000_000)

    struct Refusal: Sendable {
        let systemError: Int32
        /// nil: the job waits for disk space.
        let code: ErrorCode?
    }

    @Test(
        "a disk error has its own code, keeps the synced bytes, and is continued from them",
        arguments: [
            Refusal(systemError: ENOSPC, code: nil), Refusal(systemError: EDQUOT, code: nil),
            Refusal(systemError: EIO, code: .io), Refusal(systemError: ESTALE, code: .io),
            Refusal(systemError: EROFS, code: .permission), Refusal(systemError: EFBIG, code: .tooLarge),
        ], [1, 4])
    func write(_ refusal: Refusal, _ connections: Int) async throws {
        let isBroken = Atomic(true)
        let bench = try DownloadBench(write: { descriptor, bytes, count, offset in
            if offset + Int64(count) > 2_000_000, isBroken.load(ordering: .relaxed) {
                errno = refusal.systemError
                return -1
            }
            return pwrite(descriptor, bytes, count, Int(offset))
        })
        let latch = Latch()
        let origin = try OriginServer { request in
            var reply = OriginReply.file(Self.bytes, to: request)
            if request.number == 1 { reply.hold = (1_000_000, latch) }
            return reply
        }
        var job = Job(id: "j", urls: [origin.url("/a")])
        job.connections = connections
        let download = bench.download(job)
        let task = Task { await download.outcome() }
        try await eventually { download.transferred >= 1_000_000 }
        let before = try #require(await download.checkpoint().point)
        #expect(before.offsets.count >= 1_000_000)
        latch.open()
        switch await task.value {
        case .parked(let why): #expect(refusal.code == nil && why == "disk")
        case .failed(let failure): #expect(failure.code == refusal.code, "\(failure)")
        case let other: Issue.record("\(other)")
        }
        #expect(bench.directory.contents("a") == nil)
        // Bytes after the error do not count as durable.
        #expect(await download.finalCheckpoint() == nil)
        isBroken.store(false, ordering: .relaxed)
        let asked = origin.requests.count
        #expect(await bench.run(job, resume: before).file?.bytes == Self.bytes.count)
        #expect(bench.directory.holds("a", Self.bytes))
        #expect(origin.requests.dropFirst(asked).allSatisfy { $0.headers["range"] != nil })
    }

    @Test("a full disk under a body of unknown length fails, and the message says what the number counts")
    func unknownLength() async throws {
        let bench = try DownloadBench(write: { descriptor, bytes, count, offset in
            if offset + Int64(count) > 2_000_000 {
                errno = ENOSPC
                return -1
            }
            return pwrite(descriptor, bytes, count, Int(offset))
        })
        let origin = try OriginServer { _ in
            var reply = OriginReply(body: Self.bytes.all)
            reply.framing = .chunked
            return reply
        }
        let outcome = await bench.run(Job(id: "j", urls: [origin.url("/a")]))
        guard case .failed(let failure) = outcome else {
            Issue.record("\(outcome)")
            return
        }
        #expect(failure.code == .io && failure.message.contains("bytes that have arrived so far"), "\(failure)")
        #expect(!failure.message.contains("is full after") && bench.directory.contents("a") == nil)
    }

    @Test("a continued download leaves the reserved space free, and waits with all its bytes")
    func minFree() async throws {
        let bench = try DownloadBench()
        let latch = Latch()
        let origin = try OriginServer { request in
            var reply = OriginReply.file(Self.bytes, to: request)
            if request.number == 1 { reply.hold = (1_000_000, latch) }
            return reply
        }
        var job = Job(id: "j", urls: [origin.url("/a")])
        job.connections = 1
        let resume = try #require(try await bench.begin(job, until: 1_000_000))
        latch.open()
        var options = FileStore.Options()
        options.minFree = 1 << 60
        let full = ActivityContext(
            store: try FileStore(root: bench.directory.path, options: options), engine: bench.context.engine)
        let download = Download(
            job: job, token: "t", key: String(repeating: "a", count: 40), resume: resume, completed: nil,
            clock: SharedClock(serverTime: UnixTime.milliseconds), context: full, mayCommit: { true }, report: { _ in })
        let isParked = if case .parked("disk") = await download.outcome() { true } else { false }
        #expect(isParked)
        #expect(origin.requests.count == 1)
        #expect(await bench.run(job, resume: resume).file != nil)
        #expect(bench.directory.holds("a", Self.bytes))
        #expect(origin.requests.last?.headers["range"] == "bytes=\(resume.offsets.count)-")
    }

    @Test(
        "a download that fills the disk and cannot be continued frees its space",
        arguments: [OriginReply.Framing.chunked, .length])
    func notResumable(_ framing: OriginReply.Framing) async throws {
        let bench = try DownloadBench(write: { descriptor, bytes, count, offset in
            guard offset + Int64(count) > 2_000_000 else { return pwrite(descriptor, bytes, count, Int(offset)) }
            errno = ENOSPC
            return -1
        })
        let origin = try OriginServer { request in
            var reply = OriginReply.file(Self.bytes, etag: nil, to: request)
            reply.framing = framing
            return reply
        }
        let outcome = await bench.run(Job(id: "j", urls: [origin.url("/a")]))
        if framing == .chunked {
            // Each attempt would fill the disk again, so this counts as a failed attempt.
            #expect(outcome.code == .io)
        } else {
            let isParked = if case .parked("disk") = outcome { true } else { false }
            #expect(isParked)
        }
        #expect(bench.directory.names.isEmpty)
    }
}
