import Foundation
import Glibc
import HaulContract
import HaulHTTP
import HaulStorage
import HaulTestSupport
import Synchronization
import Testing

@testable import HaulActivities

/// A file that exists already, and that no record names.
@Suite struct ExistingFileTests {
    private func run(
        _ bench: DownloadBench, _ url: String, since: String? = nil, _ judge: @escaping Existing.Judge
    ) async -> (ActivityOutcome, serverTime: [String]) {
        let serverTime = Mutex<[String]>([])
        var assignment = Assignment(
            job: Job(urls: [url]), token: "t", key: String(repeating: "a", count: 40),
            clock: SharedClock(serverTime: UnixTime.milliseconds))
        assignment.existing = Existing(modifiedSince: since, body: judge)
        let io = RunIO(TestHost(trace: { text in serverTime.withLock { $0.append(text) } }))
        let outcome = await Download(assignment, io, context: bench.context).outcome()
        return (outcome, serverTime.withLock { $0 })
    }

    private func file(_ offer: Offer) -> CompletedFile {
        CompletedFile(
            file: offer.name, bytes: 1, store: "s", inode: 1, modified: 1, entity: offer.entity, source: offer.source,
            validated: 0)
    }

    @Test("an identical existing file ends the run before any byte of the body is read") func same() async throws {
        let bench = try DownloadBench()
        let bytes = FileBytes(seed: 7, count: 5_000_000)
        let origin = try OriginServer { .file(bytes, to: $0) }
        let (outcome, serverTime) = await run(bench, origin.url("/x.bin?key=secret")) { offer in
            offer.name == "x.bin" && offer.entity.total == bytes.count ? file(offer) : nil
        }
        guard case .completed(let file, _, true) = outcome else { throw Unexpected(outcome) }
        #expect(file.file == "x.bin" && file.source == origin.url("/x.bin?[masked]"))
        #expect(bench.directory.names.isEmpty && serverTime.isEmpty)
        #expect(origin.bytesSent("/x.bin?key=secret") < bytes.count)
    }

    @Test("a different existing file prevents the download, or is replaced by it") func other() async throws {
        let bench = try DownloadBench()
        let origin = try OriginServer { .file(FileBytes(seed: 7, count: 1000), to: $0) }
        let (refused, _) = await run(bench, origin.url("/x")) { (_) throws(TransferError) in
            throw .failed(Failure(.fileExists, "another"))
        }
        guard case .failed(let failure) = refused else { throw Unexpected(refused) }
        #expect(failure.code == .fileExists && bench.directory.names.isEmpty)
        let (taken, serverTime) = await run(bench, origin.url("/x")) { _ in nil }
        guard case .completed(_, _, false) = taken else { throw Unexpected(taken) }
        #expect(serverTime == ["validators: ETag \"v1\""])
    }

    @Test("an unmodified file is not sent again, and a 304 without a condition is an error") func since() async throws {
        let bench = try DownloadBench()
        let origin = try OriginServer { request in
            let isUnmodified = request.headers["if-modified-since"] == "then" || request.path == "/odd"
            // A 304 has no body: its bytes would precede the next response of a kept connection.
            return isUnmodified ? OriginReply(304) : OriginReply(body: [1])
        }
        let (same, _) = await run(bench, origin.url("/x"), since: "then") { $0.isUnmodified ? file($0) : nil }
        guard case .completed(_, _, true) = same else { throw Unexpected(same) }
        let (newer, _) = await run(bench, origin.url("/x"), since: "before") { $0.isUnmodified ? file($0) : nil }
        guard case .completed(_, _, false) = newer else { throw Unexpected(newer) }
        let (odd, _) = await run(bench, origin.url("/odd")) { file($0) }
        guard case .failed(let failure) = odd else { throw Unexpected(odd) }
        #expect(failure.code == .http(304))
    }

    private struct Existing: ExistingFile {
        typealias Judge = @Sendable (Offer) async throws(TransferError) -> CompletedFile?
        let modifiedSince: String?
        let body: Judge
        let isCompared = false
        func checkReplacement(by partial: any Partial, of entity: Entity) {}
        func completedFile(for offer: Offer) async throws(TransferError) -> CompletedFile? { try await body(offer) }
    }

    private struct Unexpected: Error {
        let outcome: ActivityOutcome
        init(_ outcome: ActivityOutcome) { self.outcome = outcome }
    }

    @Test("a finished file that another program has changed is no longer the job's own", arguments: [true, false])
    func changed(_ isNamed: Bool) async throws {
        let bench = try DownloadBench()
        let version = Shared(1)
        let origin = try OriginServer { request in
            OriginReply(headers: [("ETag", "\"\(version.value)\"")], body: Array("version \(version.value)".utf8))
        }
        var job = Job(id: "j", urls: [origin.url("/a")])
        if isNamed { job.path = "a" }
        // What proves the file stays for a while, as in a fleet whose Redis may fail over.
        let outcome = await bench.download(job).outcome()
        guard case .completed(let first, _, _) = outcome else { throw Unexpected(outcome) }
        let path = bench.directory.file("a")
        let file = try #require(FileHandle(forWritingAtPath: path))
        try file.seekToEnd()
        try file.write(contentsOf: Data(", and a note".utf8))
        try file.close()
        version.value = 2
        let second = await bench.download(job, completed: first).outcome()
        if isNamed {
            guard case .failed(let failure) = second else { throw Unexpected(second) }
            #expect(failure.code == .fileExists)
        } else {
            guard case .completed(let numbered, _, _) = second else { throw Unexpected(second) }
            #expect(numbered.file != "a")
        }
        #expect(bench.directory.contents("a") == Array("version 1, and a note".utf8))
    }
}
