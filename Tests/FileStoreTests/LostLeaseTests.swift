import Glibc
import HaulContract
import HaulHTTP
import HaulStorage
import HaulTestSupport
import Testing

@testable import HaulFileStore

/// A run that has lost its job without knowing it, or cannot find out, beside the run that has the job.
@Suite struct LostLeaseTests {
    private static let bytes = testBytes(3_000_000)
    private static let key = String(repeating: "a", count: 40)

    private let root = TemporaryDirectory()

    /// What two runs of one job on two workers know of their leases.
    private static let held = RunLease(isHeld: { true }, confirm: { true })
    /// The process was stopped for longer than the lease, and Redis says that another run has the job.
    private static let lost = RunLease(isHeld: { false }, confirm: { false }, writePermit: { .unknown })

    private static func token(_ run: Int) -> String { String(repeating: "\(run)", count: 32) }

    private func request(_ run: Int, _ lease: RunLease, completed: CompletedFile? = nil) -> FileRequest {
        FileRequest(
            key: Self.key, runToken: Self.token(run), isNew: false, path: "file", ifExists: .reuse,
            completed: completed, lease: lease)
    }

    private func begin(
        _ run: Int, _ lease: RunLease, in store: FileStore, completed: CompletedFile? = nil
    ) -> any Partial {
        store.begin(request(run, lease, completed: completed), generation: Self.token(run), suggested: "x")
    }

    private func open(_ run: Int, _ lease: RunLease, in store: FileStore) async throws -> any Partial {
        let partial = begin(run, lease, in: store)
        try await partial.open(total: Int64(Self.bytes.count), hashing: nil, with: [])
        return partial
    }

    private func receive(_ range: Range<Int>, into partial: any Partial) async throws {
        let sink = partial.sink(at: Int64(range.lowerBound)) { false }
        try await feed(Array(Self.bytes[range]), to: sink)
        try await sink.finish()
    }

    private func whole() -> WholeFile {
        WholeFile(size: Int64(Self.bytes.count), checksum: nil, authority: "the job", lastModified: nil)
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

    private func completed(_ file: StoredFile, _ store: FileStore) -> CompletedFile {
        CompletedFile(
            file: file.file, bytes: file.bytes, store: store.id, inode: file.identity, modified: file.modified,
            entity: Entity(), source: "", validated: 0)
    }

    /// The hidden names of the job's runs: each ends with a digit of the run's token.
    private var hidden: [String] { root.names.filter { $0.hasPrefix(".haul-\(Self.key)") }.sorted() }

    private func inode(_ name: String) -> ino_t? {
        var status = stat()
        return lstat(root.file(name), &status) == 0 ? status.st_ino : nil
    }

    @Test("a run that was stopped for longer than its lease leaves the file of the run that has the job alone")
    func stopped() async throws {
        let (a, b) = (try FileStore(root: root.path), try FileStore(root: root.path))
        let next = try await open(2, Self.held, in: b)
        try await receive(0..<1_000_000, into: next)
        let point = try await point(next, b)
        let name = try #require(next.location?.name)
        let file = inode(name)
        // The stopped run opens its first file, or commits a small one, or looks for what earlier runs have left.
        let late = try await open(1, Self.lost, in: a)
        #expect(inode(name) == file)
        let small = begin(3, Self.lost, in: a)
        guard case .fenced = try await small.put(Self.bytes, whole()) else {
            Issue.record("a run without the job has named its file")
            return
        }
        let error = await thrown { () throws(TransferError) in
            try await a.resume(request(4, Self.lost), from: point)
        }
        guard case .cancelled = error else {
            Issue.record("a run without the job has taken over its file: \(error.map { "\($0)" } ?? "")")
            return
        }
        guard case .fenced = try await late.commit(whole()) else {
            Issue.record("a run without the job has named its file")
            return
        }
        for partial in [late, small] { await partial.discard(soon: false) }
        #expect(inode(name) == file && hidden == [name])
        // Everything that was received before is still there.
        try await receive(1_000_000..<Self.bytes.count, into: next)
        #expect(try stored(try await next.commit(whole())).file == "file")
        #expect(root.contents("file") == Self.bytes)
    }

    @Test("a run that was stopped for longer than its lease takes no proof from the run that has the job")
    func finished() async throws {
        let (a, b) = (try FileStore(root: root.path), try FileStore(root: root.path))
        let first = begin(1, Self.held, in: b)
        let file = completed(try stored(try await first.put(Self.bytes, whole())), b)
        await first.discard(soon: false)
        // The job was pushed again, and another run has it.
        let next = begin(2, Self.held, in: b, completed: file)
        try await next.open(total: Int64(Self.bytes.count), hashing: nil, with: [])
        let name = try #require(next.location?.name)
        await #expect { try await a.held(file, for: request(3, Self.lost), fencing: true) } throws: { error in
            if case .cancelled? = error as? TransferError { true } else { false }
        }
        #expect(hidden == [name])
        #expect(try await a.held(file, for: request(3, Self.held), fencing: true) != nil)
        #expect(hidden.isEmpty)
    }

    @Test("a run whose worker alone is cut off from Redis downloads, and takes over before its file gets its name")
    func cutOff() async throws {
        let (a, b) = (try FileStore(root: root.path), try FileStore(root: root.path))
        let earlier = try await open(1, RunLease(isHeld: { true }, confirm: { false }), in: a)
        let old = try #require(earlier.location?.name)
        let isHeld = Shared(false)
        // Redis does not answer until the file is to get its name.
        let lease = RunLease(
            isHeld: { isHeld.value },
            confirm: {
                isHeld.value = true
                return true
            })
        let next = try await open(2, lease, in: b)
        try await receive(0..<Self.bytes.count, into: next)
        #expect(hidden.contains(old) && hidden.count == 2)
        #expect(try stored(try await next.commit(whole())).file == "file")
        #expect(hidden == [try #require(next.location?.name)])
        #expect(root.contents("file") == Self.bytes)
        try await receive(0..<Self.bytes.count, into: earlier)
        guard case .fenced = try await earlier.commit(whole()) else {
            Issue.record("the earlier run has named its file")
            return
        }
    }

    @Test("a run that is stopped after it has replaced its file unlinks nothing of a later run") func replaced()
        async throws
    {
        let store = try FileStore(root: root.path)
        let first = begin(1, Self.held, in: store)
        let file = completed(try stored(try await first.put(Self.bytes, whole())), store)
        await first.discard(soon: false)
        let before = inode("file")
        let later = HiddenName(Self.key, Self.token(3))
        // The process stops right after the file has its name. Meanwhile a later run opens a file.
        let lease = RunLease(
            isHeld: {
                guard inode("file") != before else { return true }
                close(creat(root.file(later.text), 0o600))
                return false
            }, confirm: { true }, writePermit: { inode("file") == before ? .granted : .unknown })
        let next = begin(2, lease, in: store, completed: file)
        #expect(try stored(try await next.put(Array(Self.bytes.reversed()), whole())).file == "file")
        #expect(inode("file") != before && inode(later.text) != nil)
    }
}
