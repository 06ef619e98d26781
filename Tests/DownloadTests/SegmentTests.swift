import Foundation
import HaulContract
import HaulHTTP
import HaulTestSupport
import Synchronization
import Testing

@testable import HaulActivities

/// Several connections and several mirrors, against origins that limit the rate of each connection.
@Suite struct SegmentTests {
    static let bytes = FileBytes(seed: 21, count: 6_000_000)

    private func job(_ urls: [String], connections: Int = 8, _ change: (inout Job) -> Void = { _ in }) -> Job {
        var job = Job(id: "j", urls: urls)
        job.connections = connections
        change(&job)
        return job
    }

    /// An origin that sends at most `pace` bytes per second on each connection.
    private func slowOrigin(
        pace: Int = 1_000_000,
        _ change: @escaping @Sendable (OriginRequest, inout OriginReply) -> Void = { _, _ in }
    ) throws -> OriginServer {
        try OriginServer { request in
            var reply = OriginReply.file(Self.bytes, to: request)
            reply.pace = pace
            change(request, &reply)
            return reply
        }
    }

    @Test("eight connections fetch one file, and hardly any byte twice") func eight() async throws {
        let bench = try DownloadBench()
        let bytes = FileBytes(seed: 23, count: 12_000_000)
        let origin = try OriginServer { request in
            var reply = OriginReply.file(bytes, to: request)
            // So low that even on a slow machine eight connections get eight times as much.
            reply.pace = 200_000
            return reply
        }
        let download = bench.download(job([origin.url("/a")]))
        let task = Task { await download.outcome() }
        try await eventually("eight connections") { download.progress().connections == 8 }
        #expect(await task.value.file?.bytes == bytes.count)
        #expect(bench.directory.holds("a", bytes))
        #expect(origin.requests.dropFirst().allSatisfy { $0.headers["if-range"] == "\"v1\"" })
        #expect(origin.bytesSent("/a") - bytes.count < 8 * 512 << 10)
        await download.discard()
    }

    @Test(
        "a job below its minimum speed is too slow, with a length and without",
        arguments: [OriginReply.Framing.length, .chunked])
    func tooSlow(_ framing: OriginReply.Framing) async throws {
        let bench = try DownloadBench()
        let origin = try slowOrigin(pace: 100_000) { $1.framing = framing }
        var context = bench.context
        context.speedWindow = 1
        let download = Download(
            job: job([origin.url("/a")]) { ($0.minSpeed, $0.connections) = (1 << 40, 1) }, token: "t",
            key: String(repeating: "a", count: 40), resume: nil, completed: nil,
            clock: SharedClock(serverTime: UnixTime.milliseconds), context: context, mayCommit: { true },
            report: { _ in })
        #expect(await download.outcome().code == .tooSlow)
    }

    @Test("all connections of a job share its rate limit") func sharedLimit() throws {
        let download = try DownloadBench().download(job(["http://127.0.0.1/a"]) { $0.limitRate = 1_000_000 })
        let first = try #require(download.follower.template.limits.first)
        #expect(download.follower.template.limits.first === first)
    }

    @Test("each interval of a download that was stopped repeatedly is continued, on several connections")
    func continued() async throws {
        let bench = try DownloadBench()
        let gate = Latch()
        // No connection completes a part before it is stopped.
        let origin = try slowOrigin(pace: 300_000) { $1.hold = (150_000, gate) }
        var resume: ResumePoint?
        for _ in 0..<4 {
            let download = bench.download(job([origin.url("/a")]), resume: resume)
            let task = Task { await download.outcome() }
            try await eventually("some bytes") { download.transferred > 200_000 }
            task.cancel()
            _ = await task.value
            resume = await download.finalCheckpoint() ?? resume
        }
        #expect(resume?.offsets.intervals.count ?? 0 > 1)
        gate.open()
        #expect(await bench.run(job([origin.url("/a")]), resume: resume).file != nil)
        #expect(bench.directory.holds("a", Self.bytes))
        #expect(!bench.events.withLock { $0.contains("restarted") })
    }

    @Test(
        "a server that fails or refuses the extra connections still yields one file",
        arguments: ["ignored", "validators", "429", "404", "cut"])
    func extras(_ kind: String) async throws {
        let bench = try DownloadBench()
        let origin = try slowOrigin { request, reply in
            guard request.number > 1 else { return }
            switch kind {
            case "ignored":
                reply = OriginReply(headers: [("ETag", "\"v1\"")], body: Self.bytes.all)
            case "validators":
                reply.headers.removeAll { $0.0.lowercased() == "etag" }
                reply.headers.append(("ETag", "\"node\(request.number)\""))
            case "429": reply = OriginReply(429)
            case "404": reply = OriginReply(404)
            default:
                reply.cut = 150_000
                reply.end = .fin
            }
        }
        #expect(await bench.run(job([origin.url("/a")])).file != nil)
        #expect(bench.directory.holds("a", Self.bytes))
        #expect(!bench.events.withLock { $0.contains("restarted") })
    }

    @Test("a connection that hangs is replaced while others continue") func hanging() async throws {
        let bench = try DownloadBench()
        let origin = try slowOrigin { request, reply in
            if request.number == 2 {
                reply.cut = 10_000
                reply.end = .silence
            }
        }
        #expect(await bench.run(job([origin.url("/a")], connections: 2)).file != nil)
        #expect(bench.directory.holds("a", Self.bytes))
    }

    @Test("the last bytes of a connection that falls silent are fetched by another one") func straggler() async throws {
        let bench = try DownloadBench()
        let origin = try slowOrigin { request, reply in
            guard request.number == 2 else { return }
            reply.cut = Int(reply.body.count) - 2000
            reply.end = .silence
        }
        let begun = ContinuousClock.now
        #expect(await bench.run(job([origin.url("/a")], connections: 2)).file != nil)
        #expect(bench.directory.holds("a", Self.bytes))
        #expect(origin.requests.contains { $0.headers["range"] != nil && $0.number > 2 })
        // It would count as stalled after 30 s.
        #expect(ContinuousClock.now - begun < .seconds(25))
    }

    @Test("mirrors are used together if a checksum covers the whole") func mirrors() async throws {
        let bench = try DownloadBench()
        let (one, two) = (try slowOrigin(pace: 300_000), try slowOrigin(pace: 300_000))
        let outcome = await bench.run(
            job([one.url("/a"), two.url("/b")]) { $0.checksum = .init("sha256:" + Self.bytes.sha256) })
        #expect(outcome.file != nil)
        #expect(bench.directory.holds("a", Self.bytes))
        #expect(one.bytesSent("/a") > 1_000_000 && two.bytesSent("/b") > 1_000_000)
    }

    private static func field(_ digest: String) -> (String, String) {
        let bytes = stride(from: 0, to: 64, by: 2).map { UInt8(digest.dropFirst($0).prefix(2), radix: 16)! }
        return ("Repr-Digest", "sha-256=:\(Data(bytes).base64EncodedString()):")
    }

    @Test(
        "mirrors are used together only if they send the same digest of the whole",
        arguments: [bytes.sha256, SHA256.hexadecimal(SHA256.digest([])), nil])
    func digests(_ second: String?) async throws {
        let bench = try DownloadBench()
        let one = try slowOrigin(pace: 300_000) { $1.headers.append(Self.field(Self.bytes.sha256)) }
        let other = second == Self.bytes.sha256 ? Self.bytes : FileBytes(seed: 24, count: Self.bytes.count)
        let two = try OriginServer { request in
            var reply = OriginReply.file(
                other, etag: "\"two\"", headers: second.map { [Self.field($0)] } ?? [], to: request)
            reply.pace = 300_000
            return reply
        }
        #expect(await bench.run(job([one.url("/a"), two.url("/b")])).file != nil)
        #expect(bench.directory.holds("a", Self.bytes))
        #expect(!bench.events.withLock { $0.contains("restarted") })
        if second == Self.bytes.sha256 {
            #expect(two.bytesSent("/b") > 1_000_000)
        } else {
            #expect(two.requests.count == 1)
        }
    }

    @Test("a mirror with other bytes is detected by the checksum") func badMirror() async throws {
        let bench = try DownloadBench()
        let other = FileBytes(seed: 22, count: Self.bytes.count)
        let good = try slowOrigin(pace: 300_000)
        let bad = try OriginServer { request in
            var reply = OriginReply.file(other, to: request)
            reply.pace = 600_000
            return reply
        }
        let outcome = await bench.run(
            job([good.url("/a"), bad.url("/a")]) { $0.checksum = .init("sha256:" + Self.bytes.sha256) })
        #expect(outcome.file != nil)
        #expect(bench.directory.holds("a", Self.bytes))
        #expect(bench.events.withLock { $0.contains("restarted") })
    }

    @Test("without a checksum mirrors are alternatives", arguments: [404, 500, 200])
    func alternatives(_ status: Int) async throws {
        let bench = try DownloadBench()
        let first = try OriginServer { _ in
            var reply = status == 200 ? OriginReply(body: [1, 2, 3]) : OriginReply(status)
            if status == 200 {
                reply.cut = 2
                reply.end = .fin
            }
            return reply
        }
        let second = try slowOrigin()
        #expect(await bench.run(job([first.url("/a"), second.url("/a")])).file != nil)
        #expect(bench.directory.holds("a", Self.bytes))
        #expect(
            await bench.run(job([first.url("/c"), first.url("/c")])).code
                == (status == 200 ? .incomplete : .http(status)))
    }

    @Test("a body without a length is ended soon after the limit") func limit() async throws {
        let bench = try DownloadBench()
        let origin = try OriginServer { _ in
            var reply = OriginReply(body: Self.bytes.all)
            reply.framing = .chunked
            return reply
        }
        let download = bench.download(job([origin.url("/a")]) { $0.maxBytes = 300_000 })
        let outcome = await download.outcome()
        #expect(outcome.code == .tooLarge)
        #expect(download.transferred <= 300_001)
        #expect(bench.directory.contents("a") == nil)
    }
}
