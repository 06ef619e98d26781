import HaulContract
import HaulHTTP
import HaulStorage
import HaulTestSupport
import Synchronization
import Testing

@testable import HaulObjectStore

/// A file of several parts, by stores that have nothing in common but the bucket.
@Suite(
    .disabled(
        if: ObjectServer.installed.isEmpty, "neither radosgw nor SeaweedFS is installed: deploy/test.sh does that"))
struct HandoverTests {
    private static let size: Int64 = 20 << 20
    private static let file = FileBytes(seed: 3, count: size)
    private static let key = String(repeating: "b", count: 40)

    // MARK: What they share

    private func request(
        _ run: String, ifExists: Job.IfExists = .reuse, lease: RunLease = RunLease(isHeld: { true }, confirm: { true })
    ) -> FileRequest {
        FileRequest(
            key: Self.key, run: run, isNew: false, path: "films/film", ifExists: ifExists, completed: nil, lease: lease)
    }

    private func whole(_ checksum: Job.Checksum? = nil) -> WholeFile {
        WholeFile(size: Self.size, checksum: checksum, authority: "the job", lastModified: nil)
    }

    private var sha256: Job.Checksum { Job.Checksum(algorithm: .sha256, digest: Self.file.sha256) }

    private func open(
        _ bucket: Bucket, _ run: String, hashing: Job.Checksum.Algorithm? = nil, total: Int64? = size
    ) async throws -> any Partial {
        let partial = bucket.store.begin(request(run), generation: run, suggested: "x")
        try await partial.open(total: total, hashing: hashing, with: [])
        return partial
    }

    private func receive(_ range: Range<Int64>, into partial: any Partial) async throws {
        let sink = partial.sink(at: range.lowerBound) { true }
        try await feed(Self.file.bytes(range), to: sink)
        try await sink.finish()
    }

    private func point(_ partial: any Partial, isLast: Bool = true) async throws -> ResumePoint {
        let checkpoint = try #require(try await partial.checkpoint(isLast: isLast))
        return ResumePoint(
            generation: partial.generation, store: "", file: "films/film", entity: Entity(total: Self.size),
            source: "", offsets: checkpoint.offsets, journal: checkpoint.journal)
    }

    private func resume(_ bucket: Bucket, _ run: String, _ point: ResumePoint) async throws -> any Partial {
        guard case .partial(let partial) = try await bucket.store.resume(request(run), from: point) else {
            throw NothingLeft()
        }
        return partial
    }

    private func isStored(_ outcome: CommitOutcome) -> Bool { if case .stored = outcome { true } else { false } }
    private func isFenced(_ outcome: CommitOutcome) -> Bool { if case .fenced = outcome { true } else { false } }

    private func expectWhole(_ bucket: Bucket) async throws {
        #expect(await bucket.read("films/film") == Self.file.all)
        let (objects, uploads) = try await bucket.everything()
        #expect(objects == ["films/film"] && uploads == 0)
    }

    private struct NothingLeft: Error {}

    // MARK: The tests

    @Test(
        "another store goes on to the byte, and nothing is seen before all is there", arguments: ObjectServer.installed)
    func handedOver(_ kind: ObjectServer.Kind) async throws {
        let first = try await Bucket(kind)
        let prefix = first.store.client.address.prefix
        let early = try await open(first, "1")
        try await receive(0..<9 << 20, into: early)
        try await receive(16 << 20..<17 << 20, into: early)
        let point = try await point(early)
        #expect(point.offsets.intervals == [0..<9 << 20, 16 << 20..<17 << 20])
        #expect(await first.read("films/film") == nil)
        let second = try await Bucket(kind, prefix: prefix)
        let next = try await resume(second, "2", point)
        #expect(next.written == point.offsets)
        try await receive(9 << 20..<12 << 20, into: next)
        let third = try await Bucket(kind, prefix: prefix)
        let last = try await resume(third, "3", try await self.point(next))
        try await receive(12 << 20..<16 << 20, into: last)
        try await receive(17 << 20..<Self.size, into: last)
        #expect(isStored(try await last.commit(whole())))
        await last.discard(soon: false)
        try await expectWhole(third)
        #expect(first.store.memory.used == 0 && second.store.memory.used == 0 && third.store.memory.used == 0)
    }

    @Test(
        "a checkpoint under way tells of parts that the store has acknowledged, and of no others",
        arguments: ObjectServer.installed)
    func acknowledged(_ kind: ObjectServer.Kind) async throws {
        let bucket = try await Bucket(kind)
        let partial = try await open(bucket, "1")
        try await receive(0..<10 << 20, into: partial)
        var journal: PartsJournal?
        try await eventually("the first part to be acknowledged") {
            if let found = try await partial.checkpoint(isLast: false) { journal = PartsJournal(found.journal) }
            return journal != nil
        }
        let known = try #require(journal)
        #expect(known.offsets.intervals == [0..<8 << 20] && known.tails.isEmpty)
        let upload = try #require(known.upload)
        let listed = try await bucket.store.client.parts(of: upload, bucket.store.client.address.key("films/film"))
        #expect(listed.map(\.number) == [1] && listed.map { PartMark(etag: $0.etag) } == [known.parts[1]])
        await partial.discard(soon: false)
        let left = try await bucket.everything()
        #expect(left.objects.isEmpty && left.uploads == 0)
    }

    /// What a run that was stopped for long finds when it goes on.
    enum Late: String, CaseIterable, Sendable {
        case anotherHasIt, anotherFinished, newGeneration, cancelled, cancelledAndBegunAgain
    }

    @Test("a run that was stopped for long harms nobody", arguments: ObjectServer.installed, Late.allCases)
    func zombie(_ kind: ObjectServer.Kind, _ late: Late) async throws {
        let bucket = try await Bucket(kind)
        let zombie = try await open(bucket, "1")
        try await receive(0..<17 << 20, into: zombie)
        try await eventually("two parts to be acknowledged") {
            _ = try await zombie.checkpoint(isLast: false)
            return (zombie as? ObjectPartial)?.state.withLock { $0.journal.parts.count } == 2
        }
        let text = try #require(zombie as? ObjectPartial).state.withLock { $0.journal }
        let point = ResumePoint(
            generation: "1", store: "", file: "films/film", entity: Entity(total: Self.size), source: "",
            offsets: text.offsets, journal: text.text)
        var other: (any Partial)?
        switch late {
        case .anotherHasIt, .anotherFinished:
            let next = try await resume(bucket, "2", point)
            try await receive(16 << 20..<Self.size, into: next)
            if late == .anotherFinished { #expect(isStored(try await next.commit(whole()))) }
            other = next
        case .newGeneration:
            let next = try await open(bucket, "2")
            try await receive(0..<9 << 20, into: next)
            // Its upload has begun, so the older one is over.
            _ = try await self.point(next)
            other = next
        case .cancelled, .cancelledAndBegunAgain:
            await bucket.store.discard(PartialPlace(file: "films/film", key: Self.key, generation: "1"))
            if late == .cancelledAndBegunAgain {
                let next = try await open(bucket, "2")
                try await receive(0..<9 << 20, into: next)
                _ = try await self.point(next)
                other = next
            }
        }
        // It wakes, has its last bytes, and believes in its lease.
        try await receive(17 << 20..<Self.size, into: zombie)
        let outcome = try? await zombie.commit(whole())
        #expect(outcome.map(isFenced) ?? true)
        switch late {
        case .anotherFinished: #expect(await bucket.read("films/film") == Self.file.all)
        default: #expect(await bucket.read("films/film") == nil)
        }
        if late == .newGeneration || late == .cancelledAndBegunAgain, let other {
            let last = try await resume(bucket, "3", try await pointOf(other))
            try await receive(9 << 20..<Self.size, into: last)
            #expect(isStored(try await last.commit(whole())))
            await last.discard(soon: false)
            try await expectWhole(bucket)
        } else if late == .anotherHasIt, let other {
            #expect(isStored(try await other.commit(whole())))
            await other.discard(soon: false)
            try await expectWhole(bucket)
        }
    }

    @Test(
        "a run that dies between the name and its end leaves nothing, once another has looked",
        arguments: ObjectServer.installed, [false, true])
    func unheardOf(_ kind: ObjectServer.Kind, _ isHashed: Bool) async throws {
        let bucket = try await Bucket(kind)
        let checksum = isHashed ? sha256 : nil
        let first = try await open(bucket, "1", hashing: checksum?.algorithm)
        try await receive(0..<Self.size, into: first)
        let point = try await self.point(first)
        #expect(isStored(try await first.commit(whole(checksum))))
        guard case .placed(let file) = try await bucket.store.resume(request("2"), from: point) else {
            throw NothingLeft()
        }
        #expect(file.file == "films/film" && file.bytes == Self.size)
        try await expectWhole(bucket)
    }

    private func pointOf(_ partial: any Partial) async throws -> ResumePoint {
        let journal = try #require(partial as? ObjectPartial).state.withLock { $0.journal }
        return ResumePoint(
            generation: partial.generation, store: "", file: "films/film", entity: Entity(total: Self.size), source: "",
            offsets: journal.offsets, journal: journal.text)
    }

    @Test(
        "a digest is judged before the name is given: in order, out of order, and after a change of worker",
        arguments: ObjectServer.installed, ["inOrder", "outOfOrder", "handedOver"])
    func digest(_ kind: ObjectServer.Kind, _ way: String) async throws {
        let bucket = try await Bucket(kind)
        var partial = try await open(bucket, "1", hashing: .sha256)
        switch way {
        case "inOrder": try await receive(0..<Self.size, into: partial)
        case "outOfOrder":
            try await receive(8 << 20..<Self.size, into: partial)
            try await receive(0..<8 << 20, into: partial)
        default:
            try await receive(0..<9 << 20, into: partial)
            partial = try await resume(bucket, "2", try await point(partial))
            try await receive(9 << 20..<Self.size, into: partial)
        }
        guard case .stored(let file) = try await partial.commit(whole(sha256)) else {
            Issue.record("it has no name")
            return
        }
        #expect(file.checksum == sha256.description)
        await partial.discard(soon: false)
        try await expectWhole(bucket)
        // A wrong one gives no name, and leaves nothing.
        let wrong = Job.Checksum(algorithm: .sha256, digest: String(repeating: "0", count: 64))
        let second = try await Bucket(kind)
        let bad = try await open(second, "1", hashing: .sha256)
        try await receive(way == "inOrder" ? 0..<Self.size : 8 << 20..<Self.size, into: bad)
        if way != "inOrder" { try await receive(0..<8 << 20, into: bad) }
        let error = await thrown { () throws(TransferError) in try await bad.commit(whole(wrong)) }
        #expect(error?.code == .checksumMismatch)
        let left = try await second.everything()
        #expect(left.objects.isEmpty && left.uploads == 0)
    }

    @Test(
        "a file whose length nobody told becomes whole", arguments: ObjectServer.installed,
        [
            0, 5, 8 << 20, 9 << 20, 16 << 20,
        ] as [Int64])
    func unknownLength(_ kind: ObjectServer.Kind, _ size: Int64) async throws {
        let bucket = try await Bucket(kind)
        let partial = try await open(bucket, "1", total: nil)
        try await receive(0..<size, into: partial)
        let whole = WholeFile(size: size, checksum: nil, authority: "the job", lastModified: nil)
        #expect(isStored(try await partial.commit(whole)))
        await partial.discard(soon: false)
        #expect(await bucket.read("films/film") == Self.file.bytes(0..<size))
        #expect(try await bucket.everything() == (["films/film"], 0))
    }

    @Test(
        "what was completed under its hidden key and not yet named is named by the next run",
        arguments: ObjectServer.installed)
    func assembled(_ kind: ObjectServer.Kind) async throws {
        let bucket = try await Bucket(kind)
        let first = try await open(bucket, "1", hashing: .sha256)
        try await receive(0..<Self.size, into: first)
        let point = try await point(first)
        let client = bucket.store.client
        let journal = try #require(PartsJournal(point.journal))
        let etags = try #require(first as? ObjectPartial).state.withLock { $0.etags }
        // The worker dies right behind this.
        try await client.complete(
            try #require(journal.upload), client.address.key(HiddenKeys(job: Self.key, generation: "1").whole),
            etags.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }, ifAbsent: false)
        let next = try await resume(bucket, "2", point)
        #expect(next.written.contains(0..<Self.size))
        #expect(isStored(try await next.commit(whole(sha256))))
        await next.discard(soon: false)
        try await expectWhole(bucket)
    }

    @Test(
        "files that need more memory than there is wait for each other, and all become whole",
        arguments: ObjectServer.installed)
    func memory(_ kind: ObjectServer.Kind) async throws {
        let bucket = try await Bucket(kind, memory: 24 << 20)
        let paths = (0..<6).map { "m/\($0)" }
        let partials = try await withThrowingTaskGroup(of: (any Partial).self) { group in
            for (index, path) in paths.enumerated() {
                group.addTask {
                    let request = FileRequest(
                        key: String(repeating: "\(index)", count: 40), run: "1", isNew: true, path: path,
                        ifExists: .reuse, completed: nil, lease: RunLease(isHeld: { true }, confirm: { true }))
                    let partial = bucket.store.begin(request, generation: "1", suggested: "x")
                    try await partial.open(total: Self.size, hashing: nil, with: [])
                    return partial
                }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        let most = Shared(0)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for partial in partials {
                group.addTask {
                    // A part each that nobody fills for a while, in the memory of all.
                    try await receive(8 << 20..<9 << 20, into: partial)
                    try await receive(0..<8 << 20, into: partial)
                    try await receive(9 << 20..<Self.size, into: partial)
                    most.change { $0 = max($0, bucket.store.memory.used) }
                    #expect(isStored(try await partial.commit(whole())))
                    await partial.discard(soon: false)
                }
            }
            try await group.waitForAll()
        }
        #expect(most.value <= 24 << 20 && bucket.store.memory.used == 0)
        for path in paths { #expect(await bucket.read(path) == Self.file.all) }
        #expect(try await bucket.everything() == (paths, 0))
    }

    @Test("a gateway that is killed in the middle, and comes back, costs nothing", arguments: ObjectServer.installed)
    func killedGateway(_ kind: ObjectServer.Kind) async throws {
        let server = try await ObjectServer(kind)
        let bucket = try Bucket(server)
        let partial = try await open(bucket, "1")
        try await receive(0..<9 << 20, into: partial)
        try server.killGateway()
        async let rest: Void = receive(9 << 20..<Self.size, into: partial)
        try await Task.sleep(for: .milliseconds(500))
        server.release()
        try await rest
        #expect(isStored(try await partial.commit(whole())))
        await partial.discard(soon: false)
        try await expectWhole(bucket)
    }

    @Test(
        "an upload that another program has changed begins anew, and is never a mixture",
        arguments: ObjectServer.installed)
    func changed(_ kind: ObjectServer.Kind) async throws {
        let bucket = try await Bucket(kind)
        let first = try await open(bucket, "1")
        try await receive(0..<9 << 20, into: first)
        let point = try await point(first)
        let journal = try #require(PartsJournal(point.journal))
        let other = [UInt8](repeating: 1, count: 8 << 20)
        _ = try await bucket.store.client.put(
            part: 1, of: try #require(journal.upload), bucket.store.client.address.key("films/film"),
            RequestMemory(other), md5: Digest.md5(other))
        let remains = try await bucket.store.resume(request("2"), from: point)
        if kind == .rgw {
            guard case .nothing = remains else {
                Issue.record("another part was taken for ours")
                return
            }
            #expect(try await bucket.everything() == ([], 0))
        } else if case .partial(let partial) = remains {
            // SeaweedFS lists both: which one it would take only its object tells.
            try await receive(9 << 20..<Self.size, into: partial)
            _ = try? await partial.commit(whole())
            let made = await bucket.read("films/film")
            #expect(made == nil || made == Self.file.all)
        }
    }

    @Test("an upload that nobody tells of is found by its age", arguments: ObjectServer.installed)
    func stray(_ kind: ObjectServer.Kind) async throws {
        let bucket = try await Bucket(kind)
        let client = bucket.store.client
        let mark = ObjectMark(job: Self.key, generation: "1", time: 1)
        _ = try await client.create(client.address.key("films/film"), mark: mark)
        let found = await bucket.store.leftovers(olderThan: -1)
        #expect(found.count == 1 && found.allSatisfy { $0.key != Self.key && !$0.key.isEmpty })
        #expect(await bucket.store.leftovers(olderThan: 1000).isEmpty)
        #expect(await bucket.store.remove(found).count == 1)
        #expect(try await bucket.everything() == ([], 0))
    }

    @Test("a server is tried, and nothing is left of that", arguments: ObjectServer.installed)
    func check(_ kind: ObjectServer.Kind) async throws {
        let bucket = try await Bucket(kind)
        let findings = await StoreCheck(bucket.store).run()
        #expect(findings.filter { $0.verdict == .bad }.map(\.what) == [])
        let lacking = findings.filter { $0.verdict == .lacking }.map(\.what)
        #expect(lacking.contains("complete If-None-Match") == (kind == .rgw))
        #expect(findings.contains { $0.what == "credentials" && $0.found == "the environment" })
        #expect(try await bucket.everything() == ([], 0))
    }

    @Test("wrong credentials are said to be that, and the secret is not said", arguments: ObjectServer.installed)
    func denied(_ kind: ObjectServer.Kind) async throws {
        let server = try await ObjectServer.shared(kind)
        let address = try BucketAddress("s3://\(server.bucket)/x", endpoint: server.endpoint)
        let store = ObjectStore(
            address,
            environment: { ["AWS_ACCESS_KEY_ID": "testkey", "AWS_SECRET_ACCESS_KEY": "wrong-secret"][$0] },
            isThere: { _ in false })
        let trouble = try #require(await store.trouble())
        #expect(trouble.contains("refuses access") && !trouble.contains("wrong-secret"))
    }
}
