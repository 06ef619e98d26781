import HaulContract
import HaulTestSupport
import Synchronization
import Testing

@testable import HaulActivities
@testable import HaulHTTP

/// How many connections a host gets from all downloads together, as the host sees it.
@Suite struct HostLimitTests {
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
        let downloads = (0..<10).map { index in
            var job = Job(id: "j\(index)", urls: [origin.url("/\(index)")])
            job.path = "file\(index)"
            return Download(
                job: job, token: "t\(index)", key: String(repeating: "\(index)", count: 40), resume: nil,
                completed: nil, clock: SharedClock(serverTime: UnixTime.milliseconds), context: context,
                mayCommit: { true }, report: { _ in })
        }
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
}
