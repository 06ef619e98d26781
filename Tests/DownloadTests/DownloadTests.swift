import Glibc
import HaulContract
import HaulFileStore
import HaulHTTP
import HaulTestSupport
import Synchronization
import Testing

@testable import HaulActivities

/// Runs downloads one after the other, as workers with a shared directory do.
final class DownloadBench: Sendable {
    let directory = TemporaryDirectory()
    let context: ActivityContext
    let events = Mutex<[String]>([])

    /// - Parameter write: Replaces `pwrite`.
    init(
        _ change: (inout TransferEngine.Configuration) -> Void = { _ in },
        attributes: FileAttributes = FileAttributes(),
        write: @escaping DiskWriter.Write = { pwrite($0, $1, $2, Int($3)) }
    ) throws {
        var configuration = TransferEngine.Configuration()
        configuration.policy = .unrestricted
        change(&configuration)
        var options = FileStore.Options()
        options.attributes = attributes
        let store = try FileStore(
            root: directory.path, options: options, diskWriter: DiskWriter(blocks: 4, write: write))
        context = ActivityContext(store: store, engine: TransferEngine(configuration: configuration))
    }

    func download(
        _ job: Job, resume: ResumePoint? = nil, completed: CompletedFile? = nil, mayCommit: Bool = true,
        clock: SharedClock = SharedClock(serverTime: UnixTime.milliseconds)
    ) -> Download {
        Download(
            job: job, token: String(UInt64.random(in: 0...(.max)), radix: 16), key: String(repeating: "a", count: 40),
            resume: resume,
            completed: completed, clock: clock, context: context, mayCommit: { mayCommit },
            report: { event in
                self.events.withLock {
                    switch event {
                    case .started(_, let resumable): $0.append("started \(resumable)")
                    case .resumed(let offset, _): $0.append("resumed \(offset)")
                    case .restarted: $0.append("restarted")
                    case .warning: $0.append("warning")
                    }
                }
            })
    }

    func run(_ job: Job, resume: ResumePoint? = nil, completed: CompletedFile? = nil) async -> ActivityOutcome {
        let download = download(job, resume: resume, completed: completed)
        let outcome = await download.outcome()
        if case .completed = outcome { await download.discard() }
        return outcome
    }

    /// Runs a job whose first response is held at `latch`. Opens the latch once the origin has received a request for a
    /// part.
    func run(_ job: Job, resume: ResumePoint? = nil, holding latch: Latch, of origin: OriginServer) async throws
        -> ActivityOutcome
    {
        let before = origin.requests.count
        let task = Task { await run(job, resume: resume) }
        try await eventually("a request for a part") {
            origin.requests.dropFirst(before + 1).contains { $0.headers["range"] != nil }
        }
        latch.open()
        return await task.value
    }

    /// Runs a job until `enough` bytes have arrived, and stops it. Returns where another worker may continue.
    func begin(_ job: Job, until enough: Int64) async throws -> ResumePoint? {
        let download = download(job)
        let task = Task { await download.outcome() }
        try await eventually("\(enough) bytes") { download.progress().received >= enough }
        task.cancel()
        _ = await task.value
        return await download.finalCheckpoint()
    }
}

extension ActivityOutcome {
    var file: CompletedFile? { if case .completed(let file, _, _) = self { file } else { nil } }
    var code: ErrorCode? { if case .failed(let failure) = self { failure.code } else { nil } }
}

@Suite struct DownloadRunTests {
    static let bytes = FileBytes(seed: 11, count: 3_000_000)

    private func job(_ url: String, _ change: (inout Job) -> Void = { _ in }) -> Job {
        var job = Job(id: "j", urls: [url])
        change(&job)
        return job
    }

    @Test("a download is placed under its name, and leaves no partial file") func simple() async throws {
        let bench = try DownloadBench()
        let origin = try OriginServer { .file(Self.bytes, to: $0) }
        let file = await bench.run(job(origin.url("/x/a.bin?secret"))).file
        #expect(file?.file == "a.bin" && file?.bytes == Self.bytes.count)
        #expect(bench.directory.names == ["a.bin"])
        #expect(bench.directory.holds("a.bin", Self.bytes))
    }

    @Test("an empty file, a file without a length, and a file that ends with the connection are complete")
    func unusual() async throws {
        for framing in [OriginReply.Framing.length, .chunked, .close] {
            for count in [0, 100_000] {
                let bench = try DownloadBench()
                let bytes = FileBytes(seed: 5, count: Int64(count))
                let origin = try OriginServer { _ in
                    var reply = OriginReply(body: bytes.all)
                    reply.framing = framing
                    return reply
                }
                #expect(await bench.run(job(origin.url("/a"))).file?.bytes == bytes.count)
                #expect(bench.directory.holds("a", bytes))
                #expect(bench.events.withLock { $0.contains("warning") } == (framing == .close))
            }
        }
    }

    @Test("a download continues on another worker, and fetches only the missing bytes") func continued() async throws {
        let bench = try DownloadBench()
        let latch = Latch()
        let origin = try OriginServer { request in
            var reply = OriginReply.file(Self.bytes, to: request)
            if request.number == 1 { reply.hold = (300_000, latch) }
            return reply
        }
        let resume = try #require(try await bench.begin(job(origin.url("/a")) { $0.connections = 1 }, until: 300_000))
        latch.open()
        #expect(resume.offsets.intervals == [0..<300_000])
        #expect(await bench.run(job(origin.url("/a")) { $0.connections = 1 }, resume: resume).file != nil)
        #expect(bench.directory.holds("a", Self.bytes))
        let asked = origin.requests.last?.headers
        #expect(asked?["if-range"] == "\"v1\"" && asked?["range"] == "bytes=\(resume.offsets.count)-")
    }

    @Test("lost connections are replaced within a run") func reconnects() async throws {
        let bench = try DownloadBench()
        let origin = try OriginServer { request in
            var reply = OriginReply.file(Self.bytes, to: request)
            if request.number < 4 {
                reply.cut = 700_000
                reply.end = .fin
            }
            return reply
        }
        #expect(await bench.run(job(origin.url("/a"))).file != nil)
        #expect(bench.directory.holds("a", Self.bytes))
    }

    @Test("a checksum is verified, and a wrong one leaves no file") func checksum() async throws {
        let bench = try DownloadBench()
        let origin = try OriginServer { _ in OriginReply(body: Array("abc".utf8)) }
        let right = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        #expect(
            await bench.run(job(origin.url("/a")) { $0.checksum = .init("sha256:" + String(right.reversed())) }).code
                == .checksumMismatch)
        #expect(bench.directory.names.isEmpty)
        #expect(
            await bench.run(job(origin.url("/a")) { $0.checksum = .init("sha256:" + right) }).file?.checksum
                == "sha256:" + right)
    }

    @Test("a wrong size, a wrong content type or a limit fails the job before the body")
    func expectations() async throws {
        let bench = try DownloadBench()
        let origin = try OriginServer { _ in
            OriginReply(headers: [("Content-Type", "text/html; charset=x")], body: [1, 2, 3])
        }
        let url = origin.url("/a")
        #expect(await bench.run(job(url) { $0.size = 4 }).code == .sizeMismatch)
        #expect(await bench.run(job(url) { $0.contentType = "application/zip" }).code == .wrongContentType)
        #expect(await bench.run(job(url) { $0.maxBytes = 2 }).code == .tooLarge)
        #expect(await bench.run(job(url) { $0.contentType = "Text/HTML" }).file != nil)
    }

    @Test("each status has its error code", arguments: [204, 404, 403, 500, 503])
    func statuses(_ status: Int) async throws {
        let bench = try DownloadBench()
        let origin = try OriginServer { _ in
            var reply = OriginReply(status)
            if status == 204 { reply.framing = .none }
            return reply
        }
        #expect(await bench.run(job(origin.url("/a"))).code == (status == 204 ? .badResponse : .http(status)))
    }

    @Test("redirects are followed, and custom headers and credentials stay with their origin")
    func redirects() async throws {
        let bench = try DownloadBench()
        let other = try OriginServer { _ in OriginReply(body: [1]) }
        let origin = try OriginServer { request in
            switch request.path {
            case "/a": OriginReply(302, headers: [("Location", "b"), ("Set-Cookie", "k=v; Path=/")])
            case "/b": OriginReply(307, headers: [("Location", other.url("/c"))])
            case "/loop": OriginReply(302, headers: [("Location", "/loop")])
            default: OriginReply(302, headers: [("Location", "file:///etc/passwd")])
            }
        }
        let headers = [HeaderField("X-Key", "secret")]
        #expect(await bench.run(job(origin.url("/a")) { $0.headers = headers }).file?.file == "a")
        #expect(origin.requests.last?.headers["cookie"] == "k=v" && origin.requests.last?.headers["x-key"] == "secret")
        #expect(other.requests.last?.headers["x-key"] == nil && other.requests.last?.headers["cookie"] == nil)
        #expect(await bench.run(job(origin.url("/loop"))).code == .tooManyRedirects)
        #expect(await bench.run(job(origin.url("/file"))).code == .redirectForbidden)
    }

    @Test("a hostile name stays beneath the root") func names() async throws {
        let bench = try DownloadBench()
        let origin = try OriginServer { _ in
            OriginReply(headers: [("Content-Disposition", "attachment; filename=\"../../evil\"")], body: [1])
        }
        #expect(await bench.run(job(origin.url("/a"))).file?.file == "evil")
        symlink("/tmp", bench.directory.file("out"))
        #expect(await bench.run(job(origin.url("/a")) { $0.path = "out/x" }).code == .pathForbidden)
        #expect(await bench.run(job(origin.url("/a")) { $0.path = "d/e/" }).file?.file == "d/e/evil")
    }

    @Test("another job's file is never replaced unless the job allows that") func ifExists() async throws {
        let bench = try DownloadBench()
        let origin = try OriginServer { _ in OriginReply(body: [1, 2]) }
        func plant() { close(open(bench.directory.file("a"), O_CREAT | O_WRONLY | O_TRUNC, 0o600)) }
        plant()
        #expect(await bench.run(job(origin.url("/a"))).file?.file == "a (1)")
        #expect(await bench.run(job(origin.url("/a")) { $0.path = "a" }).code == .fileExists)
        #expect(await bench.run(job(origin.url("/a")) { $0.ifExists = .fail }).code == .fileExists)
        #expect(
            await bench.run(
                job(origin.url("/a")) {
                    $0.ifExists = .rename; $0.path = "a"
                }
            ).file?.file == "a (2)")
        #expect(bench.directory.contents("a") == [])
        #expect(await bench.run(job(origin.url("/a")) { $0.ifExists = .overwrite }).file?.file == "a")
        #expect(bench.directory.contents("a") == [1, 2])
    }

    @Test("a known file is revalidated, and a changed one is fetched again") func reuse() async throws {
        let bench = try DownloadBench()
        let etag = Mutex("\"v1\"")
        let origin = try OriginServer { .file(FileBytes(seed: 1, count: 1000), etag: etag.withLock { $0 }, to: $0) }
        let first = try #require(await bench.run(job(origin.url("/a"))).file)
        guard case .completed(_, _, unchanged: true) = await bench.run(job(origin.url("/a")), completed: first) else {
            return #expect(Bool(false))
        }
        #expect(origin.bytesSent("/a") == 1000)
        // The worker's own wall clock does not count. The clock that all workers share does.
        for (age, requests) in [(59_000, 2), (61_000, 3)] as [(Int64, Int)] {
            let download = bench.download(
                job(origin.url("/a")) { $0.freshFor = .seconds(60) }, completed: first,
                clock: SharedClock(serverTime: first.validated + age))
            guard case .completed(_, _, unchanged: true) = await download.outcome() else { return #expect(Bool(false)) }
            #expect(origin.requests.count == requests)
        }
        etag.withLock { $0 = "\"v2\"" }
        guard
            case .completed(let second, _, unchanged: false) = await bench.run(job(origin.url("/a")), completed: first)
        else { return #expect(Bool(false)) }
        #expect(second.file == "a")
        #expect(bench.directory.names == ["a"])
    }

    @Test(
        "a known file is revalidated by its ETag and its date, since an ETag may repeat",
        arguments: [false, true])
    func repeatedETag(_ sendsDate: Bool) async throws {
        let bench = try DownloadBench()
        let file = FileBytes(seed: 1, count: 1000)
        let date = Mutex("Sun, 06 Nov 1994 08:49:37 GMT")
        let origin = try OriginServer { request in
            let now = date.withLock(\.self)
            var reply = OriginReply.file(file, headers: [("Last-Modified", now)], to: request)
            if request.headers["if-modified-since"] == now { (reply.status, reply.framing) = (304, .none) }
            if reply.status == 304, !sendsDate { reply.headers.removeAll { $0.0 == "Last-Modified" } }
            return reply
        }
        let first = try #require(await bench.run(job(origin.url("/a"))).file)
        guard case .completed(_, _, unchanged: true) = await bench.run(job(origin.url("/a")), completed: first) else {
            return #expect(Bool(false))
        }
        #expect(origin.bytesSent("/a") == 1000)
        date.withLock { $0 = "Sun, 06 Nov 1994 08:49:38 GMT" }
        guard case .completed(_, _, unchanged: false) = await bench.run(job(origin.url("/a")), completed: first) else {
            return #expect(Bool(false))
        }
    }

    @Test("a run without a lease names no file, and the next run removes its partial file") func fenced() async throws {
        let bench = try DownloadBench()
        let origin = try OriginServer { .file(FileBytes(seed: 1, count: 1000), to: $0) }
        guard case .fenced = await bench.download(job(origin.url("/a")), mayCommit: false).outcome() else {
            return #expect(Bool(false))
        }
        #expect(bench.directory.contents("a") == nil)
        #expect(await bench.run(job(origin.url("/a"))).file != nil)
        #expect(bench.directory.names == ["a"])
    }

    @Test("a file that was finished but not settled is recognized by the next run") func unsettled() async throws {
        let bench = try DownloadBench()
        let origin = try OriginServer { .file(FileBytes(seed: 1, count: 200_000), to: $0) }
        let download = bench.download(job(origin.url("/a")))
        #expect(await download.outcome().file != nil)
        let resume = try #require(await download.finalCheckpoint())
        #expect(await bench.run(job(origin.url("/a")), resume: resume).file?.file == "a")
        #expect(origin.requests.count == 1)
    }
}
