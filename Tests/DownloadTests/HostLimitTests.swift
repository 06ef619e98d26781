import Foundation
import HaulContract
import HaulExecutors
import HaulFileStore
import HaulTestSupport
import Synchronization
import Testing

@testable import HaulActivities
@testable import HaulHTTP

/// How many connections a host gets from all downloads together, as the host sees it.
@Suite struct HostLimitTests {
    /// As many downloads, at most sixteen, each of a file of its own.
    private static func downloads(_ count: Int, of origin: OriginServer, _ context: ActivityContext) -> [Download] {
        (0..<count).map { index in
            var job = Job(id: "j\(index)", urls: [origin.url("/\(index)")])
            job.path = "file\(index)"
            return Download(
                job: job, token: "t\(index)", key: String(repeating: String(index, radix: 16), count: 40), resume: nil,
                completed: nil, clock: SharedClock(serverTime: UnixTime.milliseconds), context: context,
                mayCommit: { true }, report: { _ in })
        }
    }

    @Test("many downloads share a host's few connections, and all of them end") func shared() async throws {
        let bytes = FileBytes(seed: 111, count: 100_000)
        let bench = try DownloadBench()
        let latch = Latch()
        let inside = Shared((now: 0, max: 0))
        let origin = try OriginServer { request in
            inside.change { $0 = ($0.now + 1, max($0.max, $0.now + 1)) }
            latch.wait()
            inside.change { $0.now -= 1 }
            return .file(bytes, to: request)
        }
        var context = bench.context
        context.hosts = HostLimits(maxPerHost: 3)
        let downloads = Self.downloads(10, of: origin, context)
        let running = downloads.map { download in Task { await download.outcome() } }
        try await eventually("three requests to arrive") { inside.value.now == 3 }
        latch.open()
        for task in running { #expect(await task.value.file?.bytes == bytes.count) }
        #expect(inside.value.max == 3)
        for index in 0..<10 { #expect(bench.directory.holds("file\(index)", bytes)) }
    }

    @Test("a download that is cancelled while it waits for its host does not free the connection of another download")
    func waitCancelled() async throws {
        let bytes = FileBytes(seed: 112, count: 2_000_000)
        let bench = try DownloadBench()
        let latch = Latch()
        let origin = try OriginServer { request in
            var reply = OriginReply.file(bytes, to: request)
            reply.hold = (700_000, latch)
            return reply
        }
        let job = Job(id: "j", urls: [origin.url("/a")])
        let resume = try #require(try await bench.begin(job, until: 700_000))
        latch.open()
        // The first run may also have opened an extra connection while the server held the body.
        let asked = origin.requests.count
        let (hosts, host) = (bench.context.hosts, try #require(WebURL(origin.url("/a"))).hostAndPort)
        while hosts.tryEnter(host) {}
        let running = Task { await bench.download(job, resume: resume).outcome() }
        try await eventually("the resumption") { bench.events.withLock { $0.contains { $0.hasPrefix("resumed") } } }
        running.cancel()
        guard case .stopped = await running.value else {
            Issue.record("the download was not stopped")
            return
        }
        #expect(!hosts.tryEnter(host))
        #expect(origin.requests.count == asked)
    }

    @Test("downloads that wait for a host do not take the places of those that it refuses") func refused() async throws
    {
        let bytes = FileBytes(seed: 113, count: 1000)
        let bench = try DownloadBench()
        let latch = Latch()
        defer { latch.open() }
        let inside = Shared(0)
        let origin = try OriginServer { request in
            var isAccepted = false
            inside.change {
                isAccepted = $0 < 2
                $0 += isAccepted ? 1 : 0
            }
            guard isAccepted else { return OriginReply(503) }
            latch.wait()
            inside.change { $0 -= 1 }
            return .file(bytes, to: request)
        }
        var context = bench.context
        // Its clock stands still, because a limit recovers with time.
        context.hosts = HostLimits(maxPerHost: 4, clock: { 1 })
        let downloads = Self.downloads(12, of: origin, context)
        let failed = Shared(0)
        let running = downloads.map { download in
            Task {
                let outcome = await download.outcome()
                if outcome.code == .http(503) { failed.change { $0 += 1 } }
                return outcome.file != nil
            }
        }
        try await eventually("the server to refuse two requests") { failed.value >= 2 }
        latch.open()
        var completed = 0
        for task in running { completed += await task.value ? 1 : 0 }
        #expect(completed == 10 && failed.value == 2)
    }

    @Test("a continued download that waits for its host is not too slow") func waitIsNotSlow() async throws {
        let bytes = FileBytes(seed: 114, count: 2_000_000)
        let bench = try DownloadBench()
        let latch = Latch()
        let origin = try OriginServer { request in
            var reply = OriginReply.file(bytes, to: request)
            reply.hold = (700_000, latch)
            return reply
        }
        var job = Job(id: "j", urls: [origin.url("/a")])
        job.connections = 1
        let resume = try #require(try await bench.begin(job, until: 700_000))
        latch.open()
        var context = bench.context
        (context.speedWindow, context.hosts) = (1, HostLimits(maxPerHost: 1))
        job.minSpeed = 1000
        let host = try #require(WebURL(origin.url("/a"))).hostAndPort
        #expect(context.hosts.tryEnter(host))
        let download = Download(
            job: job, token: "t2", key: String(repeating: "a", count: 40), resume: resume, completed: nil,
            clock: SharedClock(serverTime: UnixTime.milliseconds), context: context, mayCommit: { true },
            report: { _ in })
        let running = Task { await download.outcome() }
        try await eventually("a wait of three times the window in which a download may be slow") {
            download.io.wait.map { monotonicNanoseconds() > $0.since + 3_000_000_000 } ?? false
        }
        context.hosts.leave(host)
        #expect(await running.value.file?.bytes == bytes.count)
    }

    @Test("an upload of many files takes no more from its host's limit than its one connection") func upload()
        async throws
    {
        let bench = try DownloadBench()
        let origin = try OriginServer { _ in OriginReply(503) }
        var context = bench.context
        context.hosts = HostLimits(maxPerHost: 2, clock: { 1 })
        context.sources = try SourceDirectory(bench.directory.path)
        let names = (0..<8).map { "f\($0)" }
        for name in names { try Data("x".utf8).write(to: URL(filePath: bench.directory.file(name))) }
        let files = names.map { #"{"file":"\#($0)"}"# }.joined(separator: ",")
        let job = try Job(
            json: JSON(#"{"kind":"upload","id":"u","url":"\#(origin.url("/"))","each":true,"files":[\#(files)]}"#))
        let run = Upload(
            Assignment(job: job, token: "t", key: "k", clock: SharedClock(serverTime: 0)), RunIO(TestHost()),
            context: context)
        guard case .failed = await run.run().outcome else {
            Issue.record("the upload did not fail")
            return
        }
        #expect(origin.requests.count == 8 && context.hosts.figures.active == 0)
        let host = try #require(WebURL(origin.url("/"))).hostAndPort
        // The host has refused, so it gets one connection for now.
        #expect((0..<10).count { _ in context.hosts.tryEnter(host) } == 1)
    }

    @Test("a file that has changed before it is sent is not said to be without a response") func unsent() async throws {
        let bench = try DownloadBench()
        let second = bench.directory.file("b")
        let origin = try OriginServer { _ in
            try? Data("changed".utf8).write(to: URL(filePath: second))
            return OriginReply(500)
        }
        var context = bench.context
        context.sources = try SourceDirectory(bench.directory.path)
        for name in ["a", "b", "c"] { try Data("x".utf8).write(to: URL(filePath: bench.directory.file(name))) }
        let job = try Job(
            json: JSON(
                #"{"kind":"upload","id":"u","url":"\#(origin.url("/"))","method":"POST","each":true,"#
                    + #""content_digest":"sha-256","files":[{"file":"a"},{"file":"b"},{"file":"c"}]}"#))
        let run = Upload(
            Assignment(job: job, token: "t", key: "k", clock: SharedClock(serverTime: 0)), RunIO(TestHost()),
            context: context)
        guard case .failed(let failure) = await run.run().outcome else {
            Issue.record("the upload did not fail")
            return
        }
        #expect(origin.requests.count == 1 && failure.code != .outcomeUnknown, "\(failure)")
        #expect(!failure.message.contains("got no response"), "\(failure)")
    }

    @Test("a run that is not allowed to send was stopped", arguments: ["request", "upload"])
    func unmarked(_ kind: String) async throws {
        let bench = try DownloadBench()
        let origin = try OriginServer { _ in OriginReply(200) }
        var context = bench.context
        context.sources = try SourceDirectory(bench.directory.path)
        try Data("x".utf8).write(to: URL(filePath: bench.directory.file("a")))
        let file = kind == "upload" ? #","file":"a""# : ""
        let job = try Job(
            json: JSON(#"{"kind":"\#(kind)","id":"u","url":"\#(origin.url("/"))","method":"POST"\#(file)}"#))
        let assignment = Assignment(job: job, token: "t", key: "k", clock: SharedClock(serverTime: 0))
        let io = RunIO(TestHost(onMark: { false }))
        let run: any Activity =
            kind == "upload" ? Upload(assignment, io, context: context) : Call(assignment, io, context: context)
        // Only `Attempt` knows whether it is fenced or was cancelled at the same moment.
        guard case .stopped = await run.run().outcome else {
            Issue.record("the run was not stopped")
            return
        }
        #expect(origin.requests.isEmpty)
    }
}
