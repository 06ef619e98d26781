import Glibc
import HaulContract
import HaulHTTP
import HaulStorage
import HaulTestSupport
import Testing

@testable import HaulActivities

/// A completed job that is pushed again: when its file counts as the result, and where a new file goes.
@Suite struct PushedAgainTests {
    private static let bytes = FileBytes(seed: 81, count: 2000)

    private func job(_ url: String, _ change: (inout Job) -> Void = { _ in }) -> Job {
        var job = Job(id: "j", urls: [url])
        change(&job)
        return job
    }

    private static func origin(_ etag: Shared<String> = Shared("\"v1\"")) throws -> OriginServer {
        try OriginServer { request in
            if request.method == "POST" {
                return OriginReply(headers: [("ETag", "\"p\"")], body: Array("answer \(request.number)".utf8))
            }
            var reply = OriginReply.file(bytes, etag: etag.value, to: request)
            reply.headers.append(("Content-Type", "Text/HTML; charset=utf-8"))
            return reply
        }
    }

    @Test("a file whose mirror is gone is fetched from another one", arguments: [true, false]) func mirror(isDown: Bool)
        async throws
    {
        let bench = try DownloadBench()
        let isGone = Shared(false)
        let first = try OriginServer { request in
            isGone.value ? OriginReply(404) : .file(Self.bytes, etag: "\"v1\"", to: request)
        }
        let second = try OriginServer { .file(Self.bytes, etag: "\"other\"", to: $0) }
        let both = job(first.url("/a")) { $0.urls.append(second.url("/a")) }
        let completed = try #require(await bench.run(both).file)
        isGone.value = true
        if isDown { first.stop() }
        let file = try #require(await bench.run(both, completed: completed).file)
        #expect(file.source == second.url("/a") && bench.directory.holds("a", Self.bytes))
        #expect(second.requests.count == 1 && bench.directory.names == ["a"])
    }

    @Test(
        "the question whether a file has changed waits for its host, and for the host's pause", arguments: [200, 503])
    func host(_ status: Int) async throws {
        let bench = try DownloadBench()
        let isAsked = Shared(false)
        let origin = try OriginServer { request in
            isAsked.value && status != 200 ? OriginReply(status) : .file(Self.bytes, to: request)
        }
        let job = job(origin.url("/a"))
        let completed = try #require(await bench.run(job).file)
        isAsked.value = true
        var context = bench.context
        context.hosts = HostLimits(maxPerHost: 1)
        let again = Download(
            job: job, token: "t", key: String(repeating: "a", count: 40), resume: nil, completed: completed,
            clock: SharedClock(serverTime: UnixTime.milliseconds), context: context, mayCommit: { true },
            report: { _ in })
        let host = "127.0.0.1:\(origin.port)"
        #expect(await context.hosts.enter(host))
        let task = Task { await again.outcome() }
        try await eventually("the run to wait") { context.hosts.figures.waiting == 1 }
        #expect(origin.requests.count == 1)
        context.hosts.leave(host)
        let outcome = await task.value
        #expect(status == 200 ? outcome.file?.bytes == Self.bytes.count : outcome.code == .http(503))
        #expect(context.hosts.figures.backoffs == (status == 200 ? 0 : 1))
    }

    @Test(
        "a request is recorded before it is sent, and then sent, unless it is a GET", arguments: ["GET", "POST"],
        [true, false])
    func marked(method: String, mayBeSent: Bool) async throws {
        let bench = try DownloadBench()
        let origin = try OriginServer { .file(Self.bytes, to: $0) }
        let marks = Shared<[Int]>([])
        let host = TestHost(onMark: {
            marks.change { $0.append(origin.requests.count) }
            return mayBeSent
        })
        let assignment = Assignment(
            job: job(origin.url("/a")) { $0.method = method }, token: "t", key: String(repeating: "a", count: 40),
            clock: SharedClock(serverTime: UnixTime.milliseconds))
        let outcome = await Download(assignment, RunIO(host), context: bench.context).outcome()
        #expect((outcome.file != nil) == (mayBeSent || method == "GET"))
        #expect(marks.value == (method == "GET" ? [] : [0]))
        #expect(origin.requests.count == (outcome.file == nil ? 0 : 1))
    }

    enum Wish: CaseIterable {
        case nothing, samePath, directory, enough, sameType
        case otherPath, otherDirectory, tooFew, otherType, post, body

        var isMet: Bool { [.nothing, .samePath, .directory, .enough, .sameType].contains(self) }

        func apply(_ job: inout Job) {
            switch self {
            case .nothing: break
            case .samePath: job.path = "d/a"
            case .directory: job.path = "d/"
            case .enough: job.maxBytes = 2000
            case .sameType: job.contentType = "text/html;charset=ascii"
            case .otherPath: job.path = "d/b"
            case .otherDirectory: job.path = "e/"
            case .tooFew: job.maxBytes = 1999
            case .otherType: job.contentType = "text/plain"
            case .post: (job.method, job.body) = ("POST", "q1")
            case .body: job.body = "x"
            }
        }
    }

    @Test(
        "the file is reused only if it is what this push requests", arguments: Wish.allCases,
        [Job.IfExists.reuse, .overwrite, .rename, .fail])
    func wishes(_ wish: Wish, _ policy: Job.IfExists) async throws {
        let bench = try DownloadBench()
        let origin = try Self.origin()
        let url = origin.url("/a")
        let first = await bench.run(job(url) { ($0.path, $0.contentType) = ("d/a", "text/html") }).file
        let completed = try #require(first)
        #expect(completed.contentType == "text/html")
        for fresh in [nil, Duration.seconds(1000)] {
            let before = origin.requests.count
            let again = job(url) {
                wish.apply(&$0)
                ($0.freshFor, $0.ifExists) = (fresh, policy)
            }
            let outcome = await bench.run(again, completed: completed)
            let requests = origin.requests.count - before
            guard wish.isMet else {
                // One request, whatever the outcome.
                #expect(requests == 1, "\(origin.requests)")
                if case .completed(_, _, unchanged: true) = outcome { Issue.record("\(wish): unchanged") }
                switch wish {
                case .otherPath: #expect(outcome.file?.file == "d/b" || policy == .fail && fresh != nil)
                case .otherDirectory:
                    #expect(outcome.file?.file.hasPrefix("e/a") == true || policy == .fail && fresh != nil)
                case .tooFew: #expect(outcome.code == .tooLarge)
                case .otherType: #expect(outcome.code == .wrongContentType)
                default: break
                }
                if wish == .otherPath || wish == .otherDirectory { bench.directory.remove(outcome.file?.file) }
                if wish == .post || wish == .body { return }
                continue
            }
            guard case .completed(let file, _, unchanged: true) = outcome else {
                Issue.record("\(wish), \(policy): \(outcome)")
                return
            }
            #expect(file.file == "d/a" && requests == (fresh == nil ? 1 : 0))
        }
        #expect(bench.directory.contents("d/a")?.count == 2000)
    }

    @Test(
        "a run that reuses a file removes the proof that an earlier run has left",
        arguments: [nil, Duration.seconds(1000)])
    func proof(_ fresh: Duration?) async throws {
        let bench = try DownloadBench()
        let origin = try Self.origin()
        let job = job(origin.url("/a")) { $0.freshFor = fresh }
        // The first run was settled, and the job was pushed again before that run came to its end.
        let first = bench.download(job)
        let completed = try #require(await first.outcome().file)
        #expect(bench.directory.names.count == 2)
        guard case .completed(_, _, unchanged: true) = await bench.run(job, completed: completed) else {
            Issue.record("the file was fetched again")
            return
        }
        #expect(bench.directory.names == ["a"])
        await first.discard()
        #expect(bench.directory.names == ["a"])
    }

    @Test("a run removes the files of an earlier run even if it is stopped while it revalidates")
    func stoppedProof() async throws {
        let bench = try DownloadBench()
        let latch = Latch()
        let origin = try OriginServer { request in
            if request.number > 1 { latch.wait() }
            return .file(Self.bytes, etag: "\"v1\"", to: request)
        }
        defer { latch.open() }
        let completed = try #require(await bench.download(job(origin.url("/a"))).outcome().file)
        #expect(bench.directory.names.count == 2)
        let second = bench.download(job(origin.url("/a")), completed: completed)
        let task = Task { await second.outcome() }
        try await eventually("the second request") { origin.requests.count == 2 }
        task.cancel()
        #expect(await task.value.file == nil)
        await second.discard()
        #expect(bench.directory.names == ["a"])
    }

    @Test(
        "a file whose date was weak is fetched again, although the server says that nothing has changed",
        arguments: [0, 1, 59, 60], [nil, "W/\"v1\""])
    func weakDate(_ age: Int64, _ etag: String?) async throws {
        let bench = try DownloadBench()
        let modified: Int64 = 784_111_777
        let now = Shared(modified + age)
        let (old, new) = (Self.bytes, FileBytes(seed: 83, count: Self.bytes.count))
        let isNew = Shared(false)
        let origin = try OriginServer { request in
            let headers = [("Date", HTTPDate.text(now.value)), ("Last-Modified", HTTPDate.text(modified))]
            if request.headers["if-modified-since"] != nil { return OriginReply(304, headers: headers) }
            let tag = etag.map { isNew.value ? $0.replacing("1", with: "2") : $0 }
            return .file(isNew.value ? new : old, etag: tag, headers: headers, to: request)
        }
        let first = try #require(await bench.run(job(origin.url("/a"))).file)
        // Only the Date of the response that brought the bytes counts.
        isNew.value = true
        now.value = modified + 1000
        let again = await bench.run(job(origin.url("/a")), completed: first)
        guard age < 60 || etag != nil else {
            guard case .completed(_, _, unchanged: true) = again else { Issue.record("\(again)"); return }
            return
        }
        guard case .completed(let second, _, unchanged: false) = again else { Issue.record("\(again)"); return }
        #expect(bench.directory.holds("a", new))
        // This time the date was strong.
        guard case .completed(_, _, unchanged: true) = await bench.run(job(origin.url("/a")), completed: second) else {
            Issue.record("the file was fetched a third time")
            return
        }
    }

    @Test("a method other than GET is sent once per push, and its response is never reused") func post() async throws {
        let bench = try DownloadBench()
        let origin = try Self.origin()
        var completed: CompletedFile?
        for (number, text) in ["q1", "q2", "q2"].enumerated() {
            let job = job(origin.url("/a")) {
                ($0.method, $0.body, $0.freshFor, $0.path) = ("POST", text, .seconds(1000), "a")
            }
            completed = await bench.run(job, completed: completed).file
            #expect(bench.directory.contents("a") == Array("answer \(number + 1)".utf8))
        }
        #expect(origin.requests.count == 3)
        #expect(bench.directory.names == ["a"])
    }

    @Test(
        "a job with a numbered name keeps the name, whether its file has changed or not",
        arguments: [Job.IfExists.rename, .reuse])
    func numbered(_ policy: Job.IfExists) async throws {
        let bench = try DownloadBench()
        let etag = Shared("\"v1\"")
        let origin = try Self.origin(etag)
        close(open(bench.directory.file("a"), O_CREAT | O_WRONLY, 0o600))
        let job = job(origin.url("/a")) {
            $0.ifExists = policy
            if policy == .rename { $0.path = "a" }
        }
        var completed: CompletedFile?
        for round in 0..<6 {
            if round == 3 { etag.value = "\"v2\"" }
            // If the original name becomes free, the file still keeps its name.
            if round == 5 {
                unlink(bench.directory.file("a"))
                etag.value = "\"v3\""
            }
            guard case .completed(let file, _, let unchanged) = await bench.run(job, completed: completed) else {
                Issue.record("round \(round)")
                return
            }
            #expect(file.file == "a (1)" && unchanged == [1, 2, 4].contains(round), "round \(round)")
            completed = file
        }
        #expect(bench.directory.names == ["a (1)"])
    }

    @Test("with overwrite, a name that ends with a number in the URL is the file's own", arguments: [nil, "films/"])
    func ownNumber(_ path: String?) async throws {
        let bench = try DownloadBench()
        let latch = Latch()
        let bytes = FileBytes(seed: 83, count: 2_000_000)
        let origin = try OriginServer { request in
            var reply = OriginReply.file(bytes, to: request)
            if request.number == 1 { reply.hold = (700_000, latch) }
            return reply
        }
        let job = job(origin.url("/Film%20(2019).mkv")) { ($0.path, $0.ifExists) = (path, .overwrite) }
        let resume = try #require(try await bench.begin(job, until: 700_000))
        latch.open()
        let file = try #require(await bench.run(job, resume: resume).file)
        #expect(file.file == (path ?? "") + "Film (2019).mkv")
        #expect(origin.requests.dropFirst().allSatisfy { $0.headers["range"]?.hasPrefix("bytes=0-") == false })
        guard case .completed(_, _, let unchanged) = await bench.run(job, completed: file) else {
            Issue.record("the file was not found")
            return
        }
        #expect(unchanged)
    }

    @Test("with overwrite, a file that had got a number is not the one that is replaced") func gotNumber() async throws
    {
        let bench = try DownloadBench()
        let origin = try Self.origin()
        close(open(bench.directory.file("a"), O_CREAT | O_WRONLY, 0o600))
        let numbered = try #require(await bench.run(job(origin.url("/a"))).file)
        #expect(numbered.file == "a (1)")
        let outcome = await bench.run(job(origin.url("/a")) { $0.ifExists = .overwrite }, completed: numbered)
        #expect(outcome.file?.file == "a")
    }

    @Test("a failed job that is pushed with another path puts its file there") func elsewhere() async throws {
        let bench = try DownloadBench()
        let latch = Latch()
        let bytes = FileBytes(seed: 82, count: 2_000_000)
        let origin = try OriginServer { request in
            var reply = OriginReply.file(bytes, to: request)
            if request.number == 1 { reply.hold = (700_000, latch) }
            return reply
        }
        let resume = try #require(try await bench.begin(job(origin.url("/a")) { $0.path = "a" }, until: 700_000))
        latch.open()
        #expect(await bench.run(job(origin.url("/a")) { $0.path = "b" }, resume: resume).file?.file == "b")
        #expect(bench.directory.names == ["b"])
    }

    @Test("a numbered name is recognized as a variant of the original") func names() {
        for (name, original, isOne) in [
            ("a (1)", "a", true), ("a (12).txt", "a.txt", true), ("a (0)", "a", false), ("a (01)", "a", false),
            ("a", "a", false), ("a (1)", "b", false), ("a (x)", "a", false), ("(1)", "", false),
            ("a (1).txt", "a", false),
            (FileName.numbered(String(repeating: "é", count: 127), 7), String(repeating: "é", count: 127), true),
        ] {
            #expect(FileName.isNumbered(name, of: original) == isOne, "\(name)")
        }
    }

    @Test("a finished file is deleted only if it is the one that the job finished") func deletion() async throws {
        let bench = try DownloadBench()
        let origin = try Self.origin()
        let store = try #require(bench.context.store as? any DurableStore)
        func finish() async throws -> CompletedFile {
            try #require(await bench.run(job(origin.url("/a")) { ($0.path, $0.ifExists) = ("a", .overwrite) }).file)
        }
        func exists() -> Bool { bench.directory.contents("a") != nil }
        let path = bench.directory.file("a")
        // The file was edited in place.
        var file = try await finish()
        let edited = open(path, O_WRONLY)
        #expect(write(edited, "EDITED", 6) == 6 && close(edited) == 0)
        await store.delete("a", file.identity)
        #expect(exists())
        // A similar file, of another time, size or inode.
        file = try await finish()
        var other = file.identity
        other.modified! += 1
        await store.delete("a", other)
        other = file.identity
        other.bytes! += 1
        await store.delete("a", other)
        other = file.identity
        other.inode += 1
        await store.delete("a", other)
        #expect(exists())
        // An earlier version recorded only the inode.
        await store.delete("a", FinishedIdentity(inode: file.inode))
        #expect(!exists())
        file = try await finish()
        await store.delete("a", file.identity)
        #expect(!exists())
    }
}

extension TemporaryDirectory {
    fileprivate func remove(_ name: String?) { if let name { unlink(file(name)) } }
}
