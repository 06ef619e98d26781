import HaulContract
import HaulHTTP
import HaulTestSupport
import Testing

@testable import HaulActivities

/// A URL that leads to one resource first and to another one later, with the same size and validators. Validators
/// belong to one resource (RFC 9110 section 8.8.3), so bytes of the two must not be joined.
@Suite struct RedirectedEntityTests {
    private static let (old, new) = (FileBytes(seed: 91, count: 2_000_000), FileBytes(seed: 92, count: 2_000_000))
    private static let date = "Mon, 01 Jan 2024 00:00:00 GMT"

    /// The validators that the server sends.
    enum Validator: String, CaseIterable, Sendable {
        case etag, date, both

        var headers: [(String, String)] {
            [("ETag", "\"1\""), ("Last-Modified", RedirectedEntityTests.date)].filter {
                self == .both || ($0.0 == "ETag") == (self == .etag)
            }
        }
    }

    /// Responds as a server does that has only these validators.
    private static func serve(_ bytes: FileBytes, _ validator: Validator, _ request: OriginRequest) -> OriginReply {
        var reply = OriginReply(headers: validator.headers + [("Date", "Tue, 02 Jan 2024 00:00:00 GMT")])
        let known = validator.headers.map { $0.1 }
        if [request.headers["if-none-match"], request.headers["if-modified-since"]].contains(where: {
            $0.map(known.contains) ?? false
        }) {
            (reply.status, reply.framing) = (304, .none)
        } else if let range = request.range(of: bytes.count), request.headers["if-range"].map(known.contains) ?? true {
            reply.status = 206
            reply.headers.append(
                ("Content-Range", "bytes \(range.lowerBound)-\(range.upperBound - 1)/\(bytes.count)"))
            reply.body = .file(bytes, range)
        } else {
            reply.body = .file(bytes, 0..<bytes.count)
        }
        return reply
    }

    /// What distinguishes the second resource from the first one.
    enum Difference: String, CaseIterable, Sendable {
        case path, query, host
    }

    /// `/latest` leads to the old file before `isNew`, and to the new one after it.
    private final class Site: Sendable {
        let isNew = Shared(false)
        let latch = Latch()
        let other: OriginServer
        let origin: OriginServer

        init(_ validator: Validator, _ difference: Difference, isOldGone: Bool = true, isCut: Bool = false) throws {
            let (isNew, latch) = (isNew, latch)
            let other = try OriginServer { serve(new, validator, $0) }
            (self.other, origin) = (
                other,
                try OriginServer { request in
                    if request.path == "/latest" {
                        let target =
                            switch (isNew.value, difference) {
                            case (false, .query): "/get?build=1"
                            case (true, .query): "/get?build=2"
                            case (false, _): "/1.img"
                            case (true, .path): "/2.img"
                            case (true, .host): other.url("/1.img")
                            }
                        return OriginReply(302, headers: [("Location", target)])
                    }
                    let isOld = request.path == "/1.img" || request.path == "/get?build=1"
                    if isOld, isNew.value, isOldGone { return OriginReply(404) }
                    var reply = serve(isOld ? old : new, validator, request)
                    if isOld, !isNew.value, request.headers["if-none-match"] == nil {
                        if isCut { reply.cut = 700_000 } else { reply.hold = (700_000, latch) }
                    }
                    if isCut, isOld { isNew.change { $0 = true } }
                    return reply
                }
            )
        }
    }

    private func job(_ site: Site) -> Job {
        var job = Job(id: "j", urls: [site.origin.url("/latest")])
        (job.path, job.connections, job.stallTimeout) = ("file", 1, .seconds(20))
        return job
    }

    @Test("another run does not join bytes of two resources", arguments: Validator.allCases, Difference.allCases)
    func resumed(_ validator: Validator, _ difference: Difference) async throws {
        let site = try Site(validator, difference)
        let bench = try DownloadBench()
        let resume = try #require(try await bench.begin(job(site), until: 700_000))
        #expect(resume.offsets.count >= 700_000)
        site.isNew.change { $0 = true }
        site.latch.open()
        #expect(await bench.run(job(site), resume: resume).file?.bytes == Self.new.count)
        #expect(bench.directory.holds("file", Self.new))
    }

    @Test(
        "a replaced connection does not join bytes of two resources", arguments: Validator.allCases, Difference.allCases
    )
    func replaced(_ validator: Validator, _ difference: Difference) async throws {
        let site = try Site(validator, difference, isCut: true)
        let bench = try DownloadBench()
        let outcome = await bench.run(job(site))
        #expect(outcome.file?.bytes == Self.new.count, "\(outcome)")
        #expect(bench.directory.holds("file", Self.new))
    }

    @Test("another run continues with the old resource if it still exists") func kept() async throws {
        let site = try Site(.both, .path, isOldGone: false)
        let bench = try DownloadBench()
        let resume = try #require(try await bench.begin(job(site), until: 700_000))
        #expect(resume.finalURL == site.origin.url("/1.img"))
        site.isNew.change { $0 = true }
        site.latch.open()
        #expect(await bench.run(job(site), resume: resume).file != nil)
        #expect(bench.directory.holds("file", Self.old))
        let parts = site.origin.requests.filter { $0.path == "/1.img" }.compactMap { $0.headers["range"] }
        #expect(parts == ["bytes=\(resume.offsets.count)-"])
    }

    @Test(
        "a file of one resource is not reused for another, although the server responds with 304",
        arguments: Validator.allCases)
    func finished(_ validator: Validator) async throws {
        let site = try Site(validator, .path)
        site.latch.open()
        let bench = try DownloadBench()
        let completed = try #require(await bench.run(job(site)).file)
        #expect(bench.directory.holds("file", Self.old))
        site.isNew.change { $0 = true }
        #expect(await bench.run(job(site), completed: completed).file != nil)
        #expect(bench.directory.holds("file", Self.new))
    }

    @Test("a URL that is signed again names the same resource")
    func signed() async throws {
        for (one, other, isSame) in [
            ("https://h/a?X-Amz-Signature=1&X-Amz-Date=2", "https://h/a?X-Amz-Signature=3&X-Amz-Date=4", true),
            ("https://h/a?sig=1&se=2&sp=r", "https://h/a?sig=3&se=4&sp=r", true),
            (
                "https://h/a?Expires=1&Signature=2&Key-Pair-Id=3", "https://h/a?Expires=4&Signature=5&Key-Pair-Id=3",
                true
            ),
            ("https://u:p@h/a", "https://h/a", true), ("http://h/a", "http://h:80/a", true),
            ("https://h/a?build=1", "https://h/a?build=2", false), ("https://h/a", "https://h/b", false),
            ("https://h/a", "https://g/a", false), ("https://h/a?sp=1", "https://h/a?sp=2", false),
            ("https://h/a?build=1&sig=1", "https://h/a?build=2&sig=1", false), ("https://h/a?b", "https://h/a", false),
        ] {
            let (left, right) = (try #require(WebURL(one)), try #require(WebURL(other)))
            #expect((left.resource == right.resource) == isSame, "\(one) and \(other)")
        }
    }
}
