import Foundation
import HaulContract
import HaulTestSupport
import Synchronization
import Testing

@testable import HaulActivities
@testable import HaulHTTP

/// Digests in the header fields of responses: how they are parsed and used.
@Suite struct DigestTests {
    /// The digests of "abc".
    private static let sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    private static let field = "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0="
    private static let md5 = "kAFQmDzST7DWlj99KOF/cg=="

    private func checksum(_ status: Int, _ fields: [(String, String)]) -> String? {
        let headers = fields.map { HeaderField($0.0, $0.1) }
        return DigestFields.checksum(ResponseHead(status: status, headers: HeaderFields(headers), url: "http://h/"))?
            .description
    }

    @Test(
        "a digest of the whole file is found among others", arguments: ["", "x=1, ", "a;b=\",:\";c, sha-256=:AAAA:, "])
    func found(_ before: String) {
        let field = before + "sha-256=:\(Self.field):;q=1"
        #expect(checksum(200, [("Repr-Digest", field)]) == "sha256:" + Self.sha256)
        #expect(checksum(206, [("repr-digest", field)]) == "sha256:" + Self.sha256)
        #expect(checksum(200, [("Content-Digest", field)]) == "sha256:" + Self.sha256)
        #expect(checksum(206, [("Content-Digest", field)]) == nil)
    }

    @Test("Content-MD5 is the last resort, and is ignored in a 206, where it covers only the part") func contentMD5() {
        #expect(checksum(200, [("Content-MD5", Self.md5)]) == "md5:900150983cd24fb0d6963f7d28e17f72")
        #expect(checksum(206, [("Content-MD5", Self.md5)]) == nil)
        #expect(checksum(200, [("Content-MD5", Self.md5), ("Content-MD5", Self.md5)]) == nil)
    }

    @Test(
        "a malformed field counts as absent",
        arguments: [
            "", "sha-256", "sha-256=", "sha-256=:", "sha-256=:*:", "sha-256=:AAAA:", "sha-256=\(field)",
            "sha-256=:\(field):,", "sha-256=:\(field): x", "SHA-256=:\(field):", "sha-256=:\(field):, b=\"",
            "sha-256=:\(field):, sha-256", "sha-256=:\(field):, b=(1 2)",
        ])
    func broken(_ field: String) { #expect(checksum(200, [("Repr-Digest", field)]) == nil) }

    @Test("base64 of any length is decoded, and invalid base64 is not") func base64() {
        for count in 0..<70 {
            let bytes = FileBytes(seed: 3, count: Int64(count)).all
            #expect(Base64.decode(Data(bytes).base64EncodedString().utf8) == bytes)
        }
        for text in ["A", "AB", "ABC", "AB=C", "A===", "====", "AB==CD==", "AAB=", "AB==", "A B="] {
            #expect(Base64.decode(text.utf8) == nil, "\(text)")
        }
    }

    private func job(_ url: String) -> Job {
        var job = Job(id: "j", urls: [url])
        job.connections = 1
        return job
    }

    @Test("a body that does not match the server's digest is not stored", arguments: ["Repr-Digest", "Content-Digest"])
    func judged(_ name: String) async throws {
        let bench = try DownloadBench()
        let text = Mutex("abc")
        let origin = try OriginServer { _ in
            OriginReply(headers: [(name, "sha-256=:\(Self.field):")], body: Array(text.withLock(\.self).utf8))
        }
        #expect(await bench.run(job(origin.url("/a"))).file?.checksum == "sha256:" + Self.sha256)
        text.withLock { $0 = "abd" }
        #expect(await bench.run(job(origin.url("/b"))).code == .checksumMismatch)
        #expect(bench.directory.names == ["a"])
    }

    @Test("a server's digest permits continuing without a validator, and detects a mixture", arguments: [false, true])
    func continued(_ isChanged: Bool) async throws {
        let bench = try DownloadBench()
        let (old, new) = (FileBytes(seed: 1, count: 400_000), FileBytes(seed: isChanged ? 2 : 1, count: 400_000))
        let origin = try OriginServer { request in
            let entity = request.number == 1 ? old : new
            // The part carries no digest. Only the response with the whole file does.
            let isPart = request.headers["range"] != nil
            let digest = Data(Array(hexadecimal: entity.sha256)).base64EncodedString()
            var reply = OriginReply.file(
                entity, etag: nil, headers: isPart ? [] : [("Repr-Digest", "sha-256=:\(digest):")], to: request)
            if request.number == 1 {
                reply.cut = 200_000
                reply.end = .silence
            }
            return reply
        }
        let resume = try #require(try await bench.begin(job(origin.url("/f")), until: 100_000))
        #expect(resume.entity.digest?.digest == old.sha256)
        #expect(await bench.run(job(origin.url("/f")), resume: resume).file != nil)
        #expect(bench.directory.holds("f", new))
        #expect(bench.events.withLock { $0.contains("restarted") } == isChanged)
        #expect(origin.requests.count == (isChanged ? 3 : 2))
    }
}

extension [UInt8] {
    fileprivate init(hexadecimal text: String) {
        let digits = text.compactMap(\.hexDigitValue)
        self = stride(from: 0, to: digits.count, by: 2).map { UInt8(digits[$0] << 4 | digits[$0 + 1]) }
    }
}
