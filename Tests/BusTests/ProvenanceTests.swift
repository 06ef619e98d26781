import HaulContract
import HaulTestSupport
import Testing

@testable import HaulBus

/// Where bytes came from, in hashes that workers of several versions write.
@Suite struct ProvenanceTests {
    private static let (point, file) = {
        var point = ResumePoint(
            generation: "g1", store: "s", file: "a", entity: Entity(total: 9), source: "http://h/a?[masked]")
        (point.sourceResource, point.contentType) = ("0123456789abcdef", "text/html")
        var file = CompletedFile(
            file: "a", bytes: 9, store: "s", inode: 7, modified: 8, entity: Entity(total: 9),
            source: "http://h/a?[masked]", validated: 5, contentType: "text/html")
        file.sourceResource = "0123456789abcdef"
        return (point, file)
    }()

    /// A hash after these fields were written in turn: an empty text removes its field.
    private func hash(_ writes: [(String, String)]...) -> [String: String] {
        writes.joined().reduce(into: [:]) { $0[$1.0] = $1.1.isEmpty ? nil : $1.1 }
    }

    private func old(_ fields: [(String, String)]) -> [(String, String)] { fields.filter { $0.0 != "provenance" } }

    @Test("what was known of the bytes is read again") func read() {
        #expect(ResumePoint(hash: hash(Self.point.fields), offsets: [:]) == Self.point)
        #expect(CompletedFile(hash: hash(Self.file.fields)) == Self.file)
        var plain = Self.point
        (plain.sourceResource, plain.contentType) = ("", nil)
        #expect(ResumePoint(hash: hash(plain.fields), offsets: [:]) == plain)
        plain.contentType = "text/html"
        #expect(ResumePoint(hash: hash(plain.fields), offsets: [:]) == plain)
    }

    @Test("what an older worker has written beside it is not mistaken for it") func older() {
        var other = Self.point
        other.generation = "g2"
        let point = ResumePoint(hash: hash(Self.point.fields, old(other.fields)), offsets: [:])
        #expect(point?.generation == "g2" && point?.sourceResource == "" && point?.contentType == nil)
        var replaced = Self.file
        replaced.inode = 70
        let file = CompletedFile(hash: hash(Self.file.fields, old(replaced.fields)))
        #expect(file?.inode == 70 && file?.sourceResource == "")
        // A run of this version had begun to fetch another file, and was cancelled.
        let begun = CompletedFile(hash: hash(Self.file.fields, Self.point.fields, [("generation", "")]))
        #expect(begun?.entity == Entity() && begun?.source == "" && begun?.inode == Self.file.inode)
        // The same file, which the older worker has only confirmed.
        var confirmed = Self.file
        confirmed.validated = 6
        #expect(CompletedFile(hash: hash(Self.file.fields, old(confirmed.fields))) == confirmed)
        var response = StoredResponse(
            status: 200, headers: [], body: [1], requestDigest: "d", method: "GET", validated: 5)
        response.resource = "0123456789abcdef"
        #expect(StoredResponse(hash: hash(response.fields)) == response)
        var newer = response
        newer.validated = 6
        #expect(StoredResponse(hash: hash(response.fields, old(newer.fields)))?.resource == "")
    }

    @Test("a text that is not valid says nothing", arguments: ["", "g1", "g1 x", "g2 x y", "g1  "])
    func invalid(_ text: String) {
        var fields = hash(Self.point.fields)
        fields["provenance"] = text
        let point = ResumePoint(hash: fields, offsets: [:])
        #expect(point != nil && point?.sourceResource == "" && point?.contentType == nil)
    }

    @Test("what a failed push has left is known as an earlier push's by each run of the next one, also after a delay")
    func earlierPush() async throws {
        let f = try await QueueFixture()
        let element = #"{"url":"http://h/1","id":"1"}"#
        try await f.push(element)
        let first = try #require(try await f.claim())
        #expect(!first.isPushedAgain)
        var report = RunReport()
        report.set(
            ResumePoint(
                generation: first.run.token, store: "s", file: "f", entity: Entity(etag: "\"e\"", total: 9),
                source: "u",
                offsets: ByteIntervals([0..<9])))
        let failed = Settlement.failed(Failure(.io, "m"), retryable: true, received: 9)
        try await f.queue.settle(first.run, as: failed, report: report, worker: f.worker)
        // A retry is for the same push.
        try await f.queue.request(.running, of: ["1"])
        try await f.tick()
        let retried = try #require(try await f.claim())
        #expect(!retried.isPushedAgain && retried.resume != nil)
        try await f.settle(retried, failed)
        try await f.push(element.replacing("}", with: #","delay":0.001}"#))
        for _ in 1...2 {
            var claim: Claim?
            try await eventually("the job to be due") {
                try await f.tick()
                claim = try await f.claim()
                return claim != nil
            }
            let next = try #require(claim)
            #expect(next.isPushedAgain)
            try await f.settle(next, .retry(after: .zero, Failure(.connect, "m")))
        }
        try await f.expectOrder()
    }
}
