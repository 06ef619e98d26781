import Foundation
import Glibc
import HaulContract
import HaulHTTP
import HaulStorage
import HaulTestSupport
import Synchronization
import Testing

@testable import HaulActivities

/// What an earlier push has left is used only if it is what the new push requests.
@Suite struct EarlierPushTests {
    private static let (one, two) = (FileBytes(seed: 85, count: 2_000_000), FileBytes(seed: 86, count: 2_000_000))

    private func job(_ url: String, _ change: (inout Job) -> Void = { _ in }) -> Job {
        var job = Job(id: "j", urls: [url])
        (job.path, job.connections) = ("a", 1)
        change(&job)
        return job
    }

    /// `/a?v=1` and `/a?v=2` are two files. `/to?v=N` redirects to `/N`.
    private static func origin(_ hold: Latch? = nil, type: Shared<String?> = Shared(nil)) throws -> OriginServer {
        try OriginServer { request in
            let isTwo = request.path.contains("v=2") || request.path == "/2"
            if request.path.hasPrefix("/to") { return OriginReply(302, headers: [("Location", isTwo ? "/2" : "/1")]) }
            var reply = OriginReply.file(isTwo ? two : one, to: request)
            if let type = type.value { reply.headers.append(("Content-Type", type)) }
            if let hold, request.number == 1 { reply.hold = (700_000, hold) }
            return reply
        }
    }

    // MARK: fresh_for

    @Test(
        "a fresh file is reused for its own URL, however that is signed, and not for another query",
        arguments: ["/a", "/to"], [false, true])
    func fresh(_ path: String, _ isOlder: Bool) async throws {
        let bench = try DownloadBench()
        let origin = try Self.origin()
        func run(_ query: String, _ completed: CompletedFile? = nil) async -> (outcome: ActivityOutcome, requests: Int)
        {
            let before = origin.requests.count
            let job = job(origin.url(path + query)) { $0.freshFor = .seconds(1000) }
            return (await bench.run(job, completed: completed), origin.requests.count - before)
        }
        var completed = try #require(await run("?v=1").outcome.file)
        // Version 0.2 did not record the query. Where redirects have led elsewhere, the server is asked.
        if isOlder { completed.sourceResource = "" }
        let signed = await run("?v=1&Expires=9&Signature=x", completed)
        guard case .completed(_, _, unchanged: true) = signed.outcome else {
            Issue.record("\(signed)")
            return
        }
        #expect(signed.requests == (isOlder && path == "/to" ? 2 : 0))
        let other = await run("?v=2", completed)
        guard case .completed(_, _, unchanged: false) = other.outcome else {
            Issue.record("\(other)")
            return
        }
        #expect(bench.directory.holds("a", Self.two) && bench.directory.names == ["a"])
    }

    // MARK: A file that was named and not settled

    /// A run that has named its file, and whose end was not settled, with its last checkpoint.
    private func named(_ bench: DownloadBench, _ job: Job, _ latch: Latch) async throws -> ResumePoint {
        let download = bench.download(job)
        let task = Task { await download.outcome() }
        try await eventually("the first bytes") { download.progress().received >= 700_000 }
        let point = try #require(await download.checkpoint().point)
        latch.open()
        #expect(await task.value.file?.file == "a")
        #expect(bench.directory.names.count == 2, "the proof of the name")
        return point
    }

    /// What the next push requests.
    enum Next: CaseIterable {
        case same, rightChecksum, sameType
        case otherChecksum, otherQuery, otherType, otherSize

        var isMet: Bool { [.same, .rightChecksum, .sameType].contains(self) }
    }

    @Test(
        "a file that an earlier run has named is the result only if it is what this push requests",
        arguments: Next.allCases)
    func placed(_ next: Next) async throws {
        let bench = try DownloadBench()
        let latch = Latch()
        let type = Shared<String?>("text/html")
        let origin = try Self.origin(latch, type: type)
        let first = job(origin.url("/to?v=1")) { if next == .sameType { $0.contentType = "text/html" } }
        let point = try await named(bench, first, latch)
        var second = first
        switch next {
        case .same: break
        case .sameType: second.contentType = "Text/HTML; charset=utf-8"
        case .rightChecksum: second.checksum = Job.Checksum("sha256:" + Self.one.sha256)
        case .otherChecksum:
            // The file has been replaced on the server.
            second.urls = [origin.url("/to?v=2")]
            second.checksum = Job.Checksum("sha256:" + Self.two.sha256)
        case .otherQuery: second.urls = [origin.url("/to?v=2")]
        case .otherType:
            type.value = "text/plain"
            second.contentType = "text/plain"
        case .otherSize: second.size = 1
        }
        let before = origin.requests.count
        let download = bench.download(second, resume: point)
        let outcome = await download.outcome()
        #expect((origin.requests.count == before) == next.isMet)
        if next == .otherSize {
            #expect(outcome.code == .sizeMismatch)
            #expect(await !download.discardUseless())
            // The file is still known as the job's own, and becomes the result of a push that it fits.
            #expect(await bench.run(first, resume: point).file?.bytes == Self.one.count)
        } else {
            #expect(outcome.file?.bytes == Self.one.count, "\(outcome)")
            #expect(outcome.file?.checksum == second.checksum?.description)
            await download.discard()
        }
        #expect(bench.directory.holds("a", [.otherChecksum, .otherQuery].contains(next) ? Self.two : Self.one))
        #expect(bench.directory.names == ["a"])
    }

    @Test("the server decides about a named file of which version 0.2 did not record the query", arguments: [1, 2])
    func placedByOlder(_ version: Int) async throws {
        let bench = try DownloadBench()
        let latch = Latch()
        let origin = try Self.origin(latch)
        var point = try await named(bench, job(origin.url("/to?v=1")), latch)
        point.sourceResource = ""
        let before = origin.requests.filter { !$0.path.hasPrefix("/to") }.count
        #expect(await bench.run(job(origin.url("/to?v=\(version)")), resume: point).file?.file == "a")
        #expect(origin.requests.filter { !$0.path.hasPrefix("/to") }.count - before == version)
        #expect(bench.directory.holds("a", version == 1 ? Self.one : Self.two))
        #expect(bench.directory.names == ["a"])
    }

    // MARK: Partial files

    @Test("bytes of another query are not joined, although a digest of the server verifies the file")
    func otherQuery() async throws {
        let bench = try DownloadBench()
        let latch = Latch()
        let digest = Data(SHA256.digest(Self.one.all)).base64EncodedString()
        let origin = try OriginServer { request in
            // The same tag for both, and a digest that is not repeated with a part.
            var reply = OriginReply.file(request.path.contains("v=2") ? Self.two : Self.one, to: request)
            if request.number == 1, request.path.contains("v=1") {
                reply.headers.append(("Repr-Digest", "sha-256=:\(digest):"))
                reply.hold = (700_000, latch)
            }
            return reply
        }
        let point = try #require(try await bench.begin(job(origin.url("/a?v=1")), until: 700_000))
        latch.open()
        let before = origin.requests.count
        #expect(await bench.run(job(origin.url("/a?v=2")), resume: point).file?.file == "a")
        #expect(origin.requests.count - before == 1)
        #expect(bench.directory.holds("a", Self.two))
    }

    @Test(
        "a content_type that is pushed after the download began is compared with the part",
        arguments: ["application/pdf", "text/html", nil], [false, true])
    func lateType(_ sent: String?, _ isConfirmed: Bool) async throws {
        let bench = try DownloadBench()
        let latch = Latch()
        let type = Shared<String?>("application/pdf")
        let origin = try Self.origin(latch, type: type)
        let first = job(origin.url("/a")) { if isConfirmed { $0.contentType = "application/pdf" } }
        let point = try #require(try await bench.begin(first, until: 700_000))
        #expect(point.contentType == (isConfirmed ? "application/pdf" : nil))
        latch.open()
        type.value = sent
        let before = origin.requests.count
        let outcome = await bench.run(job(origin.url("/a")) { $0.contentType = "application/pdf" }, resume: point)
        let requests = origin.requests.count - before
        if isConfirmed || sent == "application/pdf" {
            // A part need not repeat what is known.
            #expect(outcome.file?.contentType == "application/pdf" && requests == 1, "\(outcome)")
            #expect(bench.directory.holds("a", Self.one))
        } else {
            // A part without a type shows nothing, so the whole is requested.
            #expect(outcome.code == .wrongContentType && requests == (sent == nil ? 2 : 1), "\(outcome)")
            #expect(bench.directory.contents("a") == nil)
        }
    }

    @Test(
        "a whole partial file whose content type is not known is fetched again if a push requires one",
        arguments: [false, true])
    func wholeType(_ isConfirmed: Bool) async throws {
        let bench = try DownloadBench()
        let latch = Latch()
        let origin = try Self.origin(latch, type: Shared("application/pdf"))
        let first = bench.download(
            job(origin.url("/a")) {
                $0.ifExists = .fail
                if isConfirmed { $0.contentType = "application/pdf" }
            })
        let task = Task { await first.outcome() }
        try await eventually("the first bytes") { first.progress().received >= 700_000 }
        try Data("another's".utf8).write(to: URL(fileURLWithPath: bench.directory.file("a")))
        latch.open()
        #expect(await task.value.code == .fileExists)
        let point = try #require(await first.finalCheckpoint())
        unlink(bench.directory.file("a"))
        let outcome = await bench.run(job(origin.url("/a")) { $0.contentType = "application/pdf" }, resume: point)
        #expect(outcome.file?.contentType == "application/pdf")
        #expect(bench.events.withLock { $0.contains("restarted") } == !isConfirmed)
        #expect(bench.directory.holds("a", Self.one))
    }

    @Test(
        "what an earlier push has named without an end is asked for again by the next push, and never counts for a POST",
        arguments: ["GET", "POST"], [false, true])
    func pushedAgain(_ method: String, _ isPushedAgain: Bool) async throws {
        let bench = try DownloadBench()
        let first = job("http://127.0.0.1:1/a") { $0.method = method }
        var policy = bench.download(first).reusePolicy
        policy.isPushedAgain = isPushedAgain
        let file = StoredFile(file: "a", bytes: 9, identity: 1, modified: 1, checksum: nil)
        let resume = ResumePoint(
            generation: "g", store: "s", file: "a", entity: Entity(etag: "\"e\""), source: "http://127.0.0.1:1/a")
        let expected: ReusePolicy.Proof = !isPushedAgain ? .nothing : method == "GET" ? .server : .impossible
        #expect(policy.proof(for: file, of: resume) == expected)
    }

    @Test("a finished file of another length than the server's is not a result", arguments: [4, 5, nil] as [Int64?])
    func length(_ total: Int64?) {
        let job = job("http://h/a")
        let policy = ReusePolicy(
            job: job, mirrors: Mirrors(urls: job.urls, record: nil, mayMix: false).all, maxBytes: nil)
        let file = StoredFile(file: "a", bytes: 5, identity: 1, modified: 1, checksum: nil)
        let resume = ResumePoint(
            generation: "1", store: "s", file: "a", entity: Entity(total: total), source: "http://h/a")
        #expect(policy.proof(for: file, of: resume) == (total == 4 ? .impossible : .nothing))
    }
}
