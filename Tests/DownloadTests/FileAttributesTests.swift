import Glibc
import HaulContract
import HaulTestSupport
import Testing

@testable import HaulActivities
@testable import HaulFileStore

/// The mode and the modification time of finished files.
@Suite struct FileAttributesTests {
    static let modified = ("Last-Modified", "Sun, 06 Nov 1994 08:49:37 GMT")
    static let time = 784_111_777
    /// A file that is written at once from memory, and one that is not.
    static let sizes: [Int64] = [1000, 3_000_000]

    private func bench(mode: mode_t? = nil, keepsRemoteTime: Bool = false) throws -> DownloadBench {
        var attributes = FileAttributes()
        (attributes.mode, attributes.keepsRemoteTime) = (mode, keepsRemoteTime)
        return try DownloadBench(attributes: attributes)
    }

    private func status(_ name: String, in bench: DownloadBench) -> stat {
        var status = stat()
        lstat(bench.directory.file(name), &status)
        return status
    }

    private func origin(_ size: Int64, _ header: (String, String)? = modified) throws -> OriginServer {
        try OriginServer { .file(FileBytes(seed: 7, count: size), headers: header.map { [$0] } ?? [], to: $0) }
    }

    @Test("the server's time is kept, and still identifies the file", arguments: sizes)
    func remoteTime(_ size: Int64) async throws {
        let bench = try bench(keepsRemoteTime: true)
        let origin = try origin(size)
        let job = Job(id: "j", urls: [origin.url("/a")])
        let file = try #require(await bench.run(job).file)
        #expect(status("a", in: bench).st_mtim.tv_sec == Self.time && status("a", in: bench).st_mtim.tv_nsec == 0)
        #expect(file.modified == Int64(Self.time) * 1_000_000_000)
        let sent = origin.bytesSent("/a")
        guard case .completed(_, _, unchanged: true) = await bench.run(job, completed: file) else {
            return #expect(Bool(false))
        }
        #expect(origin.bytesSent("/a") == sent)
        // Changed by another program, so the file is no longer recognized, although its length is the same.
        let descriptor = open(bench.directory.file("a"), O_WRONLY)
        #expect(pwrite(descriptor, "x", 1, 0) == 1)
        close(descriptor)
        guard case .completed(let second, _, unchanged: false) = await bench.run(job, completed: file) else {
            return #expect(Bool(false))
        }
        #expect(second.file == "a (1)" && status("a (1)", in: bench).st_mtim.tv_sec == Self.time)
    }

    @Test("a file gets the time of its download by default, and if the server sends no valid time")
    func downloadTime() async throws {
        let before = Int(UnixTime.seconds)
        for (keeps, header) in [(false, Self.modified), (true, nil), (true, ("Last-Modified", "yesterday"))] {
            let bench = try bench(keepsRemoteTime: keeps)
            let origin = try origin(1000, header)
            #expect(await bench.run(Job(id: "j", urls: [origin.url("/a")])).file != nil)
            #expect(status("a", in: bench).st_mtim.tv_sec >= before)
        }
    }

    @Test("no file gets a time in the future") func future() async throws {
        let bench = try bench(keepsRemoteTime: true)
        let origin = try origin(1000, ("Last-Modified", "Fri, 06 Nov 2099 08:49:37 GMT"))
        #expect(await bench.run(Job(id: "j", urls: [origin.url("/a")])).file != nil)
        #expect(status("a", in: bench).st_mtim.tv_sec <= Int(UnixTime.seconds))
    }

    @Test("a continued file that replaces another gets the server's time and the mode") func continued() async throws {
        let bench = try bench(mode: 0o640, keepsRemoteTime: true)
        let latch = Latch()
        let origin = try OriginServer { request in
            var reply = OriginReply.file(FileBytes(seed: 7, count: 3_000_000), headers: [Self.modified], to: request)
            if request.number == 1 { reply.hold = (1_000_000, latch) }
            return reply
        }
        close(open(bench.directory.file("a"), O_CREAT | O_WRONLY, 0o600))
        var job = Job(id: "j", urls: [origin.url("/a")])
        (job.connections, job.ifExists) = (1, .overwrite)
        let resume = try #require(try await bench.begin(job, until: 1_000_000))
        latch.open()
        #expect(await bench.run(job, resume: resume).file?.file == "a")
        #expect(status("a", in: bench).st_mtim.tv_sec == Self.time)
        #expect(status("a", in: bench).st_mode & 0o777 == 0o640)
        #expect(origin.requests.last?.headers["range"] == "bytes=1000000-")
    }

    @Test("the run that takes over a finished, unsettled file records the server's time")
    func unsettled() async throws {
        let bench = try bench(keepsRemoteTime: true)
        let origin = try origin(3_000_000)
        let job = Job(id: "j", urls: [origin.url("/a")])
        let download = bench.download(job)
        let first = try #require(await download.outcome().file)
        let resume = try #require(await download.finalCheckpoint())
        let second = try #require(await bench.run(job, resume: resume).file)
        #expect(second.modified == first.modified && first.modified == Int64(Self.time) * 1_000_000_000)
    }

    @Test(
        "a mode is applied exactly, and without one the umask decides",
        arguments: [0o600, 0o640, 0o755, 0o444, nil], sizes)
    func mode(_ mode: Int?, _ size: Int64) async throws {
        let bench = try bench(mode: mode.map { mode_t($0) })
        let origin = try origin(size)
        #expect(await bench.run(Job(id: "j", urls: [origin.url("/a")])).file != nil)
        let plain = bench.directory.file("plain")
        close(open(plain, O_CREAT | O_WRONLY, 0o666))
        let expected = mode.map { mode_t($0) } ?? status("plain", in: bench).st_mode & 0o777
        #expect(status("a", in: bench).st_mode & 0o777 == expected)
    }

    @Test("a partial file is hidden from all users that may not read the finished file") func whileWriting()
        async throws
    {
        let bench = try bench(mode: 0o400)
        let latch = Latch()
        let origin = try OriginServer { request in
            var reply = OriginReply.file(FileBytes(seed: 7, count: 3_000_000), to: request)
            reply.hold = (1_000_000, latch)
            return reply
        }
        let task = Task { await bench.run(Job(id: "j", urls: [origin.url("/a")])) }
        try await eventually { origin.bytesSent("/a") == 1_000_000 && !bench.directory.names.isEmpty }
        let partial = try #require(bench.directory.names.first)
        #expect(status(partial, in: bench).st_mode & 0o777 == 0o600)
        latch.open()
        #expect(await task.value.file != nil)
        #expect(status("a", in: bench).st_mode & 0o777 == 0o400)
    }

    @Test("a server's time long ago is 1970, and a file of any time has an identity") func farTimes() async throws {
        let bench = try bench(keepsRemoteTime: true)
        let origin = try origin(1000, ("Last-Modified", "Mon, 01 Jan 1500 00:00:00 GMT"))
        let job = Job(id: "j", urls: [origin.url("/a")])
        let file = try #require(await bench.run(job).file)
        #expect(file.modified == 0)
        for time in [-20_000_000_000, 20_000_000_000] {
            var status = stat()
            status.st_mtim.tv_sec = time
            #expect(status.hasIdentity(0) && !status.hasIdentity(7))
        }
    }
}
