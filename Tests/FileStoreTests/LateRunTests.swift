import Glibc
import HaulContract
import HaulHTTP
import HaulStorage
import HaulTestSupport
import Testing

@testable import HaulFileStore

/// A run that has lost its job, or whose name is taken, while it still writes to its partial file.
@Suite struct LateRunTests {
    private static let bytes = testBytes(3_000_000)
    private static let key = String(repeating: "a", count: 40)

    private let root = TemporaryDirectory()

    private func request(
        _ run: Int, completed: CompletedFile? = nil, permit: @escaping @Sendable () -> WritePermit = { .granted },
        confirm: @escaping @Sendable () async -> Bool = { true }
    ) -> FileRequest {
        FileRequest(
            key: Self.key, runToken: String(repeating: "\(run)", count: 32), isNew: false, path: "file",
            ifExists: .rename, completed: completed,
            lease: RunLease(isHeld: { true }, confirm: confirm, writePermit: permit))
    }

    private func whole(_ size: Int = Self.bytes.count) -> WholeFile {
        WholeFile(size: Int64(size), checksum: nil, authority: "the job", lastModified: nil)
    }

    private func receive(_ range: Range<Int>, into partial: any Partial) async throws {
        let sink = partial.sink(at: Int64(range.lowerBound)) { false }
        try await feed(Array(Self.bytes[range]), to: sink)
        try await sink.finish()
    }

    private func status(_ name: String) -> stat {
        var status = stat()
        lstat(root.file(name), &status)
        return status
    }

    private func stored(_ outcome: CommitOutcome) throws -> StoredFile {
        guard case .stored(let file) = outcome else { throw CancellationError() }
        return file
    }

    private func point(_ partial: any Partial, _ store: FileStore) async throws -> ResumePoint {
        let checkpoint = try #require(try await partial.checkpoint(isLast: true))
        return ResumePoint(
            generation: partial.generation, store: store.id, file: "file",
            entity: Entity(total: Int64(Self.bytes.count)), source: "", offsets: checkpoint.offsets,
            blockChecks: checkpoint.blockChecks)
    }

    @Test("bytes that wait in a stopped process change nothing of the file that another run has finished")
    func stopped() async throws {
        let store = try FileStore(root: root.path)
        let permit = Shared(WritePermit.granted)
        let late = store.begin(
            request(1, permit: { permit.value }, confirm: { permit.value != .refused }),
            generation: String(repeating: "1", count: 32), suggested: "x")
        try await late.open(total: Int64(Self.bytes.count), hashing: nil, with: [])
        try await receive(0..<1_000_000, into: late)
        let point = try await point(late, store)
        // The process stops for longer than the lease, with these bytes in its queue. They are of another version.
        permit.value = .unknown
        let sink = late.sink(at: 1_000_000) { false }
        try await feed([UInt8](repeating: 0, count: 500_000), to: sink)
        let finish = Task { () -> Bool in (try? await sink.finish()) == nil }
        guard case .partial(let next) = try await store.resume(request(2), from: point) else {
            Issue.record("nothing is continued")
            return
        }
        try await receive(1_000_000..<Self.bytes.count, into: next)
        let file = try stored(try await next.commit(whole()))
        await next.discard(soon: false)
        // Redis says that the job is another run's.
        permit.value = .refused
        #expect(await finish.value, "the bytes are given up")
        #expect(root.contents("file") == Self.bytes)
        #expect(status("file").modifiedNanoseconds == file.modified)
        guard case .fenced = try await late.commit(whole(1_000_000)) else {
            Issue.record("the late run goes on")
            return
        }
        #expect(root.contents("file") == Self.bytes && status("file").modifiedNanoseconds == file.modified)
        await late.discard(soon: false)
    }

    @Test("blocks that wait for an answer of Redis are written once a tick has extended the lease") func goesOn()
        async throws
    {
        let store = try FileStore(root: root.path)
        let permit = Shared(WritePermit.granted)
        let asked = Shared(0)
        let partial = store.begin(
            request(
                1,
                permit: {
                    asked.change { $0 += 1 }
                    return permit.value
                }), generation: String(repeating: "1", count: 32), suggested: "x")
        try await partial.open(total: Int64(Self.bytes.count), hashing: nil, with: [])
        permit.value = .unknown
        let receiving = Task { try await receive(0..<Self.bytes.count, into: partial) }
        try await eventually("a block to wait") { asked.value > 5 }
        #expect(partial.written.isEmpty)
        permit.value = .granted
        try await receiving.value
        #expect(try stored(try await partial.commit(whole())).file == "file")
        #expect(root.contents("file") == Self.bytes)
    }

    @Test("a numbered name that is taken before the end gets another number, and not a second one") func numbered()
        async throws
    {
        let store = try FileStore(root: root.path)
        close(creat(root.file("file"), 0o644))
        let first = store.begin(request(1), generation: String(repeating: "1", count: 32), suggested: "x")
        let own = try stored(try await first.put(Self.bytes, whole()))
        await first.discard(soon: false)
        #expect(own.file == "file (1)")
        let completed = CompletedFile(
            file: own.file, bytes: own.bytes, store: store.id, inode: own.identity, modified: own.modified,
            entity: Entity(), source: "", validated: 0)
        let second = store.begin(
            request(2, completed: completed), generation: String(repeating: "2", count: 32), suggested: "x")
        try await second.open(total: Int64(Self.bytes.count), hashing: nil, with: [])
        try await receive(0..<Self.bytes.count, into: second)
        unlink(root.file("file (1)"))
        close(creat(root.file("file (1)"), 0o644))
        #expect(try stored(try await second.commit(whole())).file == "file (2)")
    }

    @Test("a finished file that cannot be unlinked does not count as deleted") func refused() async throws {
        let store = try FileStore(root: root.path)
        // No call unlinks a directory.
        mkdir(root.file("film"), 0o755)
        let identity = FinishedIdentity(inode: UInt64(status("film").st_ino))
        #expect(await !store.delete("film", identity))
        #expect(await store.delete("film", FinishedIdentity(inode: identity.inode + 1)))
        #expect(await store.delete("none/film", identity))
        #expect(await store.delete("none", identity))
    }
}
