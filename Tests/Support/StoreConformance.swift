import HaulContract
import HaulHTTP
package import HaulStorage
import Testing

/// What every store must do, whatever it keeps its bytes in. The tests of each store run all these checks.
package struct StoreConformance: Sendable {
    package enum Check: String, Sendable, CaseIterable {
        case bytesInAnyOrderBecomeOneFile =
            "bytes that arrive in any order become one file, which gets its name only when it is complete"
        case smallFileIsPutAtOnce = "a small file is stored by a single call"
        case checkpointIsContinued = "another run continues from a checkpoint, and no byte is lost"
        case nothingNewIsNoCheckpoint = "a checkpoint without new bytes returns nil"
        case fencedRunGivesNoName = "a run whose partial file was taken over does not name the file"
        case lostLeaseGivesNoName = "a run whose lease is lost does not name the file"
        case wrongDigestGivesNoName = "a file with the wrong digest gets no name, and leaves nothing"
        case namedFileIsFoundAgain = "the next run finds the file that an earlier run named without reporting it"
        case lostRunIsRepeated =
            "a file whose run Redis has lost, with its claim and its end, is replaced by the next run of its job, in one step"
        case foreignFileStays = "a file that does not belong to the job is treated as if_exists says"
        case changedFileIsNotHeld = "a finished file that was changed does not count as the job's file"
        case discardLeavesNothing = "discarding a partial file leaves nothing"
        case leftoverIsFoundAndRemoved = "an abandoned partial file is found once it is old enough, and is removed"
        case fileIsSentAsItWas = "a source is read in any order, and a change of its file is an error"
        case otherFileIsNotDeleted = "only the file that was stored is deleted"
    }

    private let store: any DurableStore
    /// The same files, for uploads.
    private let sources: any SourceFolder
    /// Returns the content of a finished file. nil if there is none.
    private let read: @Sendable (String) async -> [UInt8]?
    /// Writes a file without the store.
    private let write: @Sendable (String, [UInt8]) async -> Void

    package init(
        _ store: any DurableStore, sources: any SourceFolder, read: @escaping @Sendable (String) async -> [UInt8]?,
        write: @escaping @Sendable (String, [UInt8]) async -> Void
    ) {
        (self.store, self.sources, self.read, self.write) = (store, sources, read, write)
    }

    package func run(_ check: Check) async throws {
        switch check {
        case .bytesInAnyOrderBecomeOneFile: try await bytesInAnyOrder()
        case .smallFileIsPutAtOnce: try await smallFile()
        case .checkpointIsContinued: try await continued()
        case .nothingNewIsNoCheckpoint: try await nothingNew()
        case .fencedRunGivesNoName: try await fenced()
        case .lostLeaseGivesNoName: try await lostLease()
        case .wrongDigestGivesNoName: try await wrongDigest()
        case .namedFileIsFoundAgain: try await foundAgain()
        case .lostRunIsRepeated: try await lostRun()
        case .foreignFileStays: try await foreignFile()
        case .changedFileIsNotHeld: try await changedFile()
        case .discardLeavesNothing: try await discarded()
        case .leftoverIsFoundAndRemoved: try await leftover()
        case .fileIsSentAsItWas: try await sent()
        case .otherFileIsNotDeleted: try await deleted()
        }
    }

    // MARK: The checks

    private static let size = 300_000
    private let bytes = testBytes(Self.size)

    private func bytesInAnyOrder() async throws {
        let partial = try await open(run: 1)
        try await receive(200_000..<300_000, into: partial)
        #expect(await read("a/b") == nil)
        try await receive(0..<200_000, into: partial)
        #expect(partial.written.contains(0..<300_000))
        let file = try #require(stored(try await partial.commit(whole())))
        #expect(file.file == "a/b" && file.bytes == 300_000)
        #expect(await read("a/b") == bytes)
    }

    private func smallFile() async throws {
        let request = request(run: 1)
        let partial = store.begin(request, generation: request.runToken, suggested: "x")
        #expect(partial.location == nil)
        let file = try #require(stored(try await partial.put(bytes, whole())))
        #expect(file.checksum == nil && partial.location?.file == "a/b")
        #expect(await read("a/b") == bytes)
    }

    private func continued() async throws {
        let first = try await open(run: 1)
        try await receive(0..<100_000, into: first)
        try await receive(150_000..<200_000, into: first)
        let point = try #require(try await point(first))
        #expect(point.offsets == ByteIntervals([0..<100_000, 150_000..<200_000]))
        let second = try #require(try await resume(point, run: 2))
        #expect(second.generation == first.generation && second.written == point.offsets)
        try await receive(100_000..<150_000, into: second)
        try await receive(200_000..<300_000, into: second)
        _ = try #require(stored(try await second.commit(whole())))
        #expect(await read("a/b") == bytes)
    }

    private func nothingNew() async throws {
        let partial = try await open(run: 1)
        try await receive(0..<100_000, into: partial)
        #expect(try await partial.checkpoint(isLast: true) != nil)
        #expect(try await partial.checkpoint(isLast: true) == nil)
    }

    private func fenced() async throws {
        // Its lease seems valid to the first run, but Redis knows better.
        let late = try await open(run: 1, lease: RunLease(isHeld: { true }, confirm: { false }))
        try await receive(0..<300_000, into: late)
        let point = try #require(try await point(late))
        _ = try #require(try await resume(point, run: 2))
        guard case .fenced = try await late.commit(whole()) else {
            Issue.record("the fenced run has named the file")
            return
        }
        #expect(await read("a/b") == nil)
    }

    private func lostLease() async throws {
        let request = request(run: 1, lease: RunLease(isHeld: { false }, confirm: { false }))
        let partial = store.begin(request, generation: request.runToken, suggested: "x")
        guard case .fenced = try await partial.put(bytes, whole()) else {
            Issue.record("a run without a lease has named the file")
            return
        }
        #expect(await read("a/b") == nil)
    }

    private func wrongDigest() async throws {
        let partial = try await open(run: 1)
        try await receive(0..<300_000, into: partial)
        let wrong = Job.Checksum(algorithm: .md5, digest: String(repeating: "0", count: 32))
        let whole = WholeFile(size: 300_000, checksum: wrong, authority: "the job", lastModified: nil)
        let error = await thrown { () throws(TransferError) in try await partial.commit(whole) }
        #expect(error?.code == .checksumMismatch)
        #expect(await read("a/b") == nil)
        #expect(await !partial.exists())
    }

    private func foundAgain() async throws {
        let first = try await open(run: 1)
        try await receive(0..<300_000, into: first)
        let point = try #require(try await point(first))
        let file = try #require(stored(try await first.commit(whole())))
        guard case .placed(let found) = try await store.resume(request(run: 2), from: point) else {
            Issue.record("the finished file was not found")
            return
        }
        #expect(found.file == file.file && found.identity == file.identity && found.bytes == file.bytes)
        // Nothing records whether a digest was verified, so it can be computed.
        #expect(try await store.digest(of: found, .sha256) == SHA256.hexadecimal(SHA256.digest(bytes)))
        await write("a/b", Array("changed".utf8))
        #expect(try await store.digest(of: found, .sha256) == nil)
    }

    private func lostRun() async throws {
        var reader: Task<Int, Never>?
        for run in 1...2 {
            // To Redis, each of them is the first one.
            let request = request(run: run, isNew: true)
            let partial = store.begin(request, generation: request.runToken, suggested: "x")
            let file = try #require(stored(try await partial.put(bytes, whole())))
            #expect(file.file == "a/b")
            guard run == 1 else { break }
            reader = Task { [read, bytes] in
                var others = 0
                while !Task.isCancelled {
                    if await read("a/b") != bytes, !Task.isCancelled { others += 1 }
                    try? await Task.sleep(for: .milliseconds(5))
                }
                return others
            }
        }
        reader?.cancel()
        #expect(await reader?.value == 0, "a reader finds the file at any time")
    }

    private func foreignFile() async throws {
        let foreign = Array("another owner's".utf8)
        await write("a/b", foreign)
        let fail = request(run: 1, ifExists: .fail)
        let refused = store.begin(fail, generation: fail.runToken, suggested: "x")
        let error = await thrown { () throws(TransferError) in try await refused.put(bytes, whole()) }
        #expect(error?.code == .fileExists)
        await refused.discard(soon: false)
        #expect(await read("a/b") == foreign)
        let rename = request(run: 2, ifExists: .rename)
        let renamed = try #require(
            stored(
                try await store.begin(rename, generation: rename.runToken, suggested: "x").put(bytes, whole())))
        #expect(renamed.file == "a/b (1)")
        #expect(await read("a/b") == foreign)
        var forbidden = request(run: 4, ifExists: .overwrite)
        forbidden.mayOverwrite = false
        let kept = store.begin(forbidden, generation: forbidden.runToken, suggested: "x")
        let no = await thrown { () throws(TransferError) in try await kept.put(bytes, whole()) }
        #expect(no?.code == .fileExists && "\(no!)".contains("--no-overwrite"))
        await kept.discard(soon: false)
        #expect(await read("a/b") == foreign)
        let overwrite = request(run: 3, ifExists: .overwrite)
        _ = try #require(
            stored(
                try await store.begin(overwrite, generation: overwrite.runToken, suggested: "x").put(bytes, whole())))
        #expect(await read("a/b") == bytes)
    }

    private func changedFile() async throws {
        let file = try await finished()
        #expect(try await store.held(file, for: request(run: 2, completed: file), fencing: false) != nil)
        await write("a/b", Array("changed".utf8))
        #expect(try await store.held(file, for: request(run: 2, completed: file), fencing: false) == nil)
    }

    private func discarded() async throws {
        let partial = try await open(run: 1)
        try await receive(0..<100_000, into: partial)
        await partial.discard(soon: false)
        #expect(await !partial.exists())
        #expect(await store.leftovers(olderThan: -1).isEmpty)
    }

    private func leftover() async throws {
        let partial = try await open(run: 1)
        try await receive(0..<100_000, into: partial)
        _ = try await partial.checkpoint(isLast: true)
        let found = await store.leftovers(olderThan: -1)
        #expect(found.map(\.key) == [Self.key] && found.map(\.generation) == [partial.generation])
        #expect(found.map(\.hasFinalName) == [false])
        #expect(await store.leftovers(olderThan: 1000).isEmpty)
        #expect(await store.remove(found).count == 1)
        #expect(await !partial.exists())
    }

    private func sent() async throws {
        let missing = await thrown { () throws(TransferError) in try await sources.source("a/none") }
        #expect(missing?.code == .sourceMissing)
        await write("a/b", bytes)
        let file = try await sources.source("a/b")
        #expect(file.version.size == 300_000 && file.readSize > 0)
        for range in [0..<300_000, 299_999..<300_000, 100_000..<200_000] {
            #expect(try await file.read(Int64(range.lowerBound)..<Int64(range.upperBound)) == Array(bytes[range]))
        }
        try await file.check()
        // Another run on another machine must find the same version.
        #expect(try await sources.source("a/b").version == file.version)
        for other in [testBytes(300_001), Array(bytes.reversed()), testBytes(10)] {
            let before = try await sources.source("a/b")
            await write("a/b", other)
            #expect(try await sources.source("a/b").version != before.version)
            let error = await thrown { () throws(TransferError) in try await before.check() }
            #expect(error?.code == .sourceChanged)
        }
        let gone = await thrown { () throws(TransferError) in try await file.read(200_000..<300_000) }
        #expect(gone?.code == .sourceChanged)
    }

    private func deleted() async throws {
        let file = try await finished()
        let (inode, size, time) = (file.inode, file.bytes, file.modified)
        for other in [
            FinishedIdentity(inode: inode &+ 1), FinishedIdentity(inode: inode, bytes: size + 1, modified: time),
            FinishedIdentity(inode: inode, bytes: size, modified: time + 1),
        ] {
            #expect(await store.delete(file.file, other), "another file has the name, so nothing is left to do")
            #expect(await read("a/b") == bytes)
        }
        for _ in 1...2 { #expect(await store.delete(file.file, file.identity)) }
        #expect(await read("a/b") == nil)
        #expect(await store.delete("none/b", file.identity))
    }

    // MARK: What they share

    private static let key = String(repeating: "a", count: 40)

    private func request(
        run: Int, isNew: Bool = false, ifExists: Job.IfExists = .reuse, completed: CompletedFile? = nil,
        lease: RunLease = RunLease(isHeld: { true }, confirm: { true })
    ) -> FileRequest {
        FileRequest(
            key: Self.key, runToken: String(repeating: "\(run)", count: 32), isNew: isNew, path: "a/b",
            ifExists: ifExists,
            completed: completed, lease: lease)
    }

    private func open(
        run: Int, lease: RunLease = RunLease(isHeld: { true }, confirm: { true })
    ) async throws -> any Partial {
        let request = request(run: run, lease: lease)
        let partial = store.begin(request, generation: request.runToken, suggested: "x")
        try await partial.open(total: Int64(Self.size), hashing: nil, with: [])
        return partial
    }

    private func whole() -> WholeFile {
        WholeFile(size: Int64(Self.size), checksum: nil, authority: "the job", lastModified: nil)
    }

    private func stored(_ outcome: CommitOutcome) -> StoredFile? {
        if case .stored(let file) = outcome { file } else { nil }
    }

    /// Writes a range to a sink, as the engine does.
    private func receive(_ range: Range<Int>, into partial: any Partial) async throws {
        let sink = partial.sink(at: Int64(range.lowerBound)) { false }
        try await feed(Array(bytes[range]), to: sink)
        try await sink.finish()
    }

    private func point(_ partial: any Partial) async throws -> ResumePoint? {
        guard let checkpoint = try await partial.checkpoint(isLast: true), let place = partial.location else {
            return nil
        }
        return ResumePoint(
            generation: partial.generation, store: store.id, file: place.file, entity: Entity(total: Int64(Self.size)),
            source: "", offsets: checkpoint.offsets, blockChecks: checkpoint.blockChecks,
            storeState: checkpoint.storeState)
    }

    private func resume(_ point: ResumePoint, run: Int) async throws -> (any Partial)? {
        if case .partial(let partial) = try await store.resume(request(run: run), from: point) { partial } else { nil }
    }

    private func finished() async throws -> CompletedFile {
        let request = request(run: 1)
        let partial = store.begin(request, generation: request.runToken, suggested: "x")
        let file = try #require(stored(try await partial.put(bytes, whole())))
        await partial.discard(soon: false)
        return CompletedFile(
            file: file.file, bytes: file.bytes, store: store.id, inode: file.identity, modified: file.modified,
            entity: Entity(), source: "", validated: 0)
    }
}
