import HaulContract
import HaulHTTP
import HaulStorage
import HaulTestSupport
import Synchronization
import Testing

@testable import HaulObjectStore

/// Requests that the network delivers late, when the job has been settled. Nothing that is settled changes.
///
/// `CommitStepTests` has the same for the calls by which a directory's files get and lose their names.
@Suite(
    .disabled(
        if: ObjectServer.dialects.isEmpty, "no object store is installed: deploy/test.sh does that"))
struct LateArrivalTests: MultipartFileTests {
    /// A request that gives or removes a name.
    enum Late: String, CaseIterable, Sendable {
        case put, replacingPut, complete, copy, delete

        func isIn(_ head: String) -> Bool {
            switch self {
            case .put: head.hasPrefix("PUT ") && !head.contains(".haul")
            case .replacingPut: head.hasPrefix("PUT ") && head.lowercased().contains("\r\nif-match:")
            case .complete, .copy: head.hasPrefix("POST ") && head.contains("uploadId=") && !head.contains(".haul")
            case .delete: head.hasPrefix("DELETE ") && !head.contains(".haul") && !head.contains("uploadId=")
            }
        }
    }

    /// What has happened when the request is delivered.
    enum Settled: String, CaseIterable, Sendable {
        case finished
        /// With the bytes that the earlier object had. On most servers its ETag is the same, too.
        case finishedAlike
        case removed
    }

    private static let old = [UInt8](repeating: 1, count: 1000)
    private static let new = [UInt8](repeating: 2, count: 1003)

    private func put(
        _ bucket: Bucket, _ run: String, _ bytes: [UInt8], lease: RunLease? = nil
    ) async throws -> CommitOutcome {
        let held = lease ?? RunLease(isHeld: { true }, confirm: { true })
        let request = self.request(run, ifExists: .overwrite, lease: held)
        let partial = bucket.store.begin(request, generation: run, suggested: "x")
        let whole = WholeFile(size: Int64(bytes.count), checksum: nil, authority: "the job", lastModified: nil)
        return try await partial.put(bytes, whole)
    }

    private func identity(_ bucket: Bucket) async throws -> UInt64? {
        try await bucket.store.client.head(bucket.store.client.address.key("films/film"))?.mark?.identity
    }

    @Test(
        "a request that arrives after the job was settled changes nothing", .timeLimit(.minutes(2)),
        arguments: ObjectServer.dialects.flatMap { kind in Late.allCases.map { (kind, $0) } }, Settled.allCases)
    func late(_ server: (ObjectServer.Kind, Late), _ settled: Settled) async throws {
        let (kind, late) = server
        guard late != .delete || settled != .removed, late == .delete || settled != .finishedAlike else { return }
        let good = try await Bucket(kind)
        let gateway = LateGateway(to: good.server.endpoint)
        let bad = try Bucket(good.server, endpoint: gateway.endpoint, prefix: good.store.client.address.prefix)
        // The run loses its lease with the request.
        let lease = RunLease(isHeld: { !gateway.hasKept }, confirm: { !gateway.hasKept })
        if late == .replacingPut || late == .delete { #expect(isStored(try await put(good, "0", Self.old))) }
        // The store learns which form of ETag the server requires.
        if late == .replacingPut { #expect(isStored(try await put(bad, "00", Self.old + [0]))) }
        gateway.keep { late.isIn($0) }
        switch late {
        case .put, .replacingPut: _ = try? await put(bad, "1", Self.old + [1, 1], lease: lease)
        case .complete, .copy:
            let checksum = late == .copy ? sha256 : nil
            let partial = bad.store.begin(request("1", lease: lease), generation: "1", suggested: "x")
            try await partial.open(total: Self.size, hashing: checksum?.algorithm, with: [])
            try await receive(0..<Self.size, into: partial)
            _ = try? await partial.commit(whole(checksum))
        case .delete:
            let identity = FinishedIdentity(inode: try #require(try await identity(good)))
            let deletion = Task { await bad.store.delete("films/film", identity) }
            try await eventually("the deletion to be sent") { gateway.hasKept }
            deletion.cancel()
        }
        #expect(gateway.hasKept)
        let sent = ContinuousClock.now
        switch settled {
        case .finished where late == .complete || late == .copy:
            let next = try await open(good, "2")
            try await receive(0..<Self.size, into: next)
            #expect(isStored(try await next.commit(whole())))
            await next.discard(soon: false)
        case .finished: #expect(isStored(try await put(good, "2", Self.new)))
        case .finishedAlike: #expect(isStored(try await put(good, "2", Self.old)))
        case .removed:
            await good.store.discard(PartialLocation(file: "films/film", key: Self.key, generation: "1"))
            await good.store.deleteFinal(good.store.client.address.key("films/film")) { _ in true }
        }
        let before = (try await identity(good), await good.read("films/film"))
        // What no condition prevents, expires: a new object where none is, and deletions on radosgw.
        if settled == .removed || late == .delete && kind == .rgw {
            try await Task.sleep(until: sent + .seconds(12), clock: .continuous)
        }
        let answers = gateway.deliver()
        #expect(answers.count == 1 && answers.allSatisfy { !$0.isEmpty })
        #expect(try await identity(good) == before.0, "\(answers)")
        #expect(await good.read("films/film") == before.1, "\(answers)")
        #expect((before.1 == nil) == (settled == .removed))
    }

    @Test(
        "an object that a late deletion removes, right after its job has replaced an equal one, is made again",
        .timeLimit(.minutes(2)),
        arguments: ObjectServer.dialects, [Late.put, .complete, .copy])
    func deletedLate(_ kind: ObjectServer.Kind, _ late: Late) async throws {
        let good = try await Bucket(kind)
        let gateway = LateGateway(to: good.server.endpoint)
        let bad = try Bucket(good.server, endpoint: gateway.endpoint, prefix: good.store.client.address.prefix)
        let bytes = late == .put ? Self.old : Self.file.all
        @Sendable func make(_ run: String) async throws -> CommitOutcome {
            if late == .put { return try await put(good, run, Self.old) }
            let checksum = late == .copy ? sha256 : nil
            let partial = good.store.begin(request(run, ifExists: .overwrite), generation: run, suggested: "x")
            try await partial.open(total: Self.size, hashing: checksum?.algorithm, with: [])
            try await receive(0..<Self.size, into: partial)
            let outcome = try await partial.commit(whole(checksum))
            await partial.discard(soon: false)
            return outcome
        }
        #expect(isStored(try await make("0")))
        let before = try #require(try await identity(good))
        gateway.keep { Late.delete.isIn($0) }
        let deletion = Task { await bad.store.delete("films/film", FinishedIdentity(inode: before)) }
        try await eventually("the deletion to be sent") { gateway.hasKept }
        deletion.cancel()
        let next = Task { try await make("1") }
        try await eventually("the object to be replaced", within: .seconds(30)) {
            let now = try await identity(good)
            #expect(now != nil, "the name is never without an object")
            return now != before
        }
        let answers = gateway.deliver()
        do {
            #expect(isStored(try await next.value))
        } catch let error as TransferError {
            // An upload cannot be completed twice. Then the job fetches the file again, and does not count as completed.
            guard late == .complete, case .failed(let failure) = error else { throw error }
            #expect(failure.code == .io, "\(failure)")
            #expect(await good.read("films/film") == nil, "\(answers)")
            #expect(isStored(try await make("2")))
        }
        #expect(await good.read("films/film") == bytes)
        #expect(try await good.everything() == (["films/film"], 0))
    }

    /// A run that is stopped with the request of its commit, which the gateway keeps.
    private func stoppedCommit(
        _ kind: ObjectServer.Kind, _ late: Late
    ) async throws -> (good: Bucket, gateway: LateGateway, partial: any Partial, size: Int64) {
        let good = try await Bucket(kind)
        let gateway = LateGateway(to: good.server.endpoint)
        let bad = try Bucket(good.server, endpoint: gateway.endpoint, prefix: good.store.client.address.prefix)
        let lease = RunLease(isHeld: { !gateway.hasKept }, confirm: { !gateway.hasKept })
        let size = late == .put ? 1000 : Self.size
        let checksum = late == .copy ? sha256 : nil
        let partial = bad.store.begin(request("1", lease: lease), generation: "1", suggested: "x")
        try await partial.open(total: size, hashing: checksum?.algorithm, with: [])
        try await receive(0..<size, into: partial)
        gateway.keep { late.isIn($0) }
        _ = try? await partial.commit(
            WholeFile(size: size, checksum: checksum, authority: "the job", lastModified: nil))
        return (good, gateway, partial, size)
    }

    @Test(
        "a job that is cancelled while its object gets its name leaves no object", .timeLimit(.minutes(2)),
        arguments: ObjectServer.dialects, [Late.put, .complete, .copy])
    func cancelled(_ kind: ObjectServer.Kind, _ late: Late) async throws {
        let (good, gateway, partial, size) = try await stoppedCommit(kind, late)
        // The server finally executes the request, while the job is being cancelled.
        let answers = gateway.deliver()
        #expect(answers.first?.contains("200") ?? false, "\(answers)")
        #expect(await good.read("films/film")?.count == Int(size))
        await partial.discard(soon: false)
        try await eventually("the object to be removed", within: .seconds(20)) { await good.read("films/film") == nil }
    }

    @Test(
        "a cancelled job's object stays if it has replaced another job's", .timeLimit(.minutes(2)),
        arguments: ObjectServer.dialects)
    func replaced(_ kind: ObjectServer.Kind) async throws {
        let good = try await Bucket(kind)
        let gateway = LateGateway(to: good.server.endpoint)
        let bad = try Bucket(good.server, endpoint: gateway.endpoint, prefix: good.store.client.address.prefix)
        let client = good.store.client
        // The store learns which form of ETag the server requires.
        #expect(isStored(try await put(good, "0", Self.old)))
        #expect(isStored(try await put(bad, "00", Self.old + [0])))
        await good.store.deleteFinal(client.address.key("films/film")) { _ in true }
        let other = ObjectMark(job: String(repeating: "b", count: 40), generation: "0", time: 1)
        try await client.putFinal(
            client.address.key("films/film"), RequestMemory(Self.old), md5: Digest.md5(Self.old), mark: other, .absent)
        gateway.keep { Late.replacingPut.isIn($0) }
        let lease = RunLease(isHeld: { !gateway.hasKept }, confirm: { !gateway.hasKept })
        let partial = bad.store.begin(
            request("1", ifExists: .overwrite, lease: lease), generation: "1", suggested: "x")
        let whole = WholeFile(
            size: Int64(Self.new.count), checksum: nil, authority: "the job", lastModified: nil)
        _ = try? await partial.put(Self.new, whole)
        let answers = gateway.deliver()
        #expect(answers.first?.contains("200") ?? false, "\(answers)")
        let location = try #require(partial.location)
        await good.store.withdrawUnanswered(location)
        await good.store.withdraw(location, unless: nil)
        await partial.discard(soon: false)
        try await Task.sleep(for: .seconds(1))
        #expect(await good.read("films/film") == Self.new)
    }

    /// What becomes of a job after its pause: it is cancelled before the object appears or after that, or it continues.
    enum Fate: CaseIterable, Sendable { case cancelledBefore, cancelledAfter, continued }

    @Test(
        "a job that is paused while its object gets its name leaves no object if it is cancelled",
        .timeLimit(.minutes(2)),
        arguments: ObjectServer.dialects.flatMap { kind in [Late.put, .complete, .copy].map { (kind, $0) } },
        Fate.allCases)
    func paused(_ server: (ObjectServer.Kind, Late), _ fate: Fate) async throws {
        let (kind, late) = server
        let (good, gateway, partial, size) = try await stoppedCommit(kind, late)
        let checkpoint = try #require(try await partial.checkpoint(isLast: true))
        let resume = ResumePoint(
            generation: "1", store: "", file: "films/film", entity: Entity(total: size), source: "",
            offsets: checkpoint.offsets, storeState: checkpoint.storeState)
        if fate != .cancelledBefore {
            let answers = gateway.deliver()
            #expect(answers.first?.contains("200") ?? false, "\(answers)")
            #expect(await good.read("films/film")?.count == Int(size))
        }
        let location = PartialLocation(file: "films/film", key: Self.key, generation: "1")
        guard fate != .continued else {
            guard case .placed = try await good.store.resume(request("2"), from: resume) else {
                Issue.record("the object is not found")
                return
            }
            // A later removal of what is hidden leaves the object, even if the run's record of its name came late.
            let hidden = HiddenKeys(job: location.key, generation: location.generation)
            let client = good.store.client
            try await client.put(client.address.key(hidden.naming), text: client.address.key("films/film"))
            await good.store.discard(location)
            try await Task.sleep(for: .seconds(1))
            #expect(await good.read("films/film")?.count == Int(size))
            #expect(try await good.everything().objects == ["films/film"])
            return
        }
        await good.store.withdrawUnanswered(location)
        await good.store.discard(location)
        if fate == .cancelledBefore { _ = gateway.deliver() }
        try await eventually("the object to be removed", within: .seconds(20)) { await good.read("films/film") == nil }
        let (objects, uploads) = try await good.everything()
        #expect(objects.isEmpty && uploads == 0, "\(objects)")
    }

    /// How a job ends of which a request to begin an upload got no reply.
    enum Orphaned: CaseIterable, Sendable { case completed, copied, cancelled, abandoned }

    @Test(
        "an upload that was begun though the reply was lost is aborted with the others of its job",
        .timeLimit(.minutes(2)), arguments: ObjectServer.dialects, Orphaned.allCases)
    func orphan(_ kind: ObjectServer.Kind, _ end: Orphaned) async throws {
        let good = try await Bucket(kind)
        let gateway = LateGateway(to: good.server.endpoint)
        let bad = try Bucket(good.server, endpoint: gateway.endpoint, prefix: good.store.client.address.prefix)
        let partial = try await open(bad, "1", hashing: end == .copied ? .sha256 : nil)
        @Sendable func begins(_ head: String) -> Bool { head.hasPrefix("POST ") && head.contains("?uploads=") }
        // Of a file with a checksum, the second upload copies the verified bytes.
        if end != .copied { gateway.keep(begins) }
        try await receive(0..<9 << 20, into: partial)
        let upload = { (partial as? ObjectPartial)?.state.withLock { $0.storeState.upload } }
        try await eventually("the upload to be begun by a second request", within: .seconds(20)) { upload() != nil }
        let deliver = {
            let answers = gateway.deliver()
            #expect(gateway.hasKept && answers.allSatisfy { $0.contains("200") }, "\(answers)")
        }
        switch end {
        case .completed, .copied:
            if end == .completed { deliver() } else { gateway.keep(begins) }
            try await receive(9 << 20..<Self.size, into: partial)
            #expect(isStored(try await partial.commit(whole(end == .copied ? sha256 : nil))))
            if end == .copied { deliver() }
            await partial.discard(soon: false)
            try await expectWhole(good)
        case .cancelled:
            deliver()
            await partial.discard(soon: false)
            #expect(try await good.everything() == ([], 0))
        case .abandoned:
            _ = try await point(partial)
            deliver()
            #expect(await good.store.remove(good.store.leftovers(olderThan: -1)).count == 1)
            #expect(try await good.everything() == ([], 0))
        }
    }

    @Test("a part of which the store has other bytes is not used by a later run", arguments: ObjectServer.dialects)
    func changedPart(_ kind: ObjectServer.Kind) async throws {
        let good = try await Bucket(kind)
        let gateway = LateGateway(to: good.server.endpoint)
        let bad = try Bucket(good.server, endpoint: gateway.endpoint, prefix: good.store.client.address.prefix)
        // The store says by the ETag that it has other bytes.
        gateway.editResponses(to: { $0.hasPrefix("PUT ") && $0.contains("partNumber=2&") }) { response in
            response.replacing(/"[0-9a-f]{32}"/, with: "\"\(String(repeating: "0", count: 32))\"")
        }
        let partial = try await open(bad, "1")
        await #expect {
            try await self.receive(0..<Self.size, into: partial)
            _ = try await partial.commit(self.whole())
        } throws: { error in
            guard case .failed(let failure) = error as? TransferError else { return false }
            return failure.code == .io && failure.message.contains("part 2 has other bytes")
        }
        let point = try await currentPoint(partial)
        #expect(try await good.everything() == ([], 0))
        await #expect(throws: NothingLeft.self) { try await self.resume(good, "2", point) }
    }

    @Test("an upload to the same key that another job has begun is not aborted", arguments: ObjectServer.dialects)
    func foreignUpload(_ kind: ObjectServer.Kind) async throws {
        let bucket = try await Bucket(kind)
        let client = bucket.store.client
        // What a run leaves whose request to begin an upload got no reply.
        let keys = HiddenKeys(job: String(repeating: "c", count: 40), generation: "1")
        try await client.put(client.address.key(keys.owner), text: "1")
        try await client.put(client.address.key(keys.intent("x")), text: client.address.key("films/film"))
        let partial = try await open(bucket, "1")
        try await receive(0..<Self.size, into: partial)
        _ = try await point(partial)
        await bucket.store.discard(PartialLocation(file: "films/film", key: keys.job, generation: "1"))
        #expect(isStored(try await partial.commit(whole())))
        await partial.discard(soon: false)
        try await expectWhole(bucket)
    }
}
