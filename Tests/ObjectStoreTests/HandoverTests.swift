import HaulContract
import HaulHTTP
import HaulStorage
import HaulTestSupport
import Synchronization
import Testing

@testable import HaulObjectStore

/// A file of several parts, by stores that share nothing but the bucket.
@Suite(
    .disabled(
        if: ObjectServer.installed.isEmpty, "neither radosgw nor SeaweedFS is installed: deploy/test.sh does that"))
struct HandoverTests: MultipartFileTests {
    @Test(
        "another store continues at the exact byte, and the object appears only when it is complete",
        arguments: ObjectServer.installed)
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
        "a running checkpoint reports only parts that the store has acknowledged",
        arguments: ObjectServer.installed)
    func acknowledged(_ kind: ObjectServer.Kind) async throws {
        let bucket = try await Bucket(kind)
        let partial = try await open(bucket, "1")
        try await receive(0..<10 << 20, into: partial)
        var storeState: PartsRecord?
        try await eventually("the first part to be acknowledged") {
            if let found = try await partial.checkpoint(isLast: false) { storeState = PartsRecord(found.storeState) }
            // The first checkpoint reports the upload, before any part.
            return storeState?.parts.isEmpty == false
        }
        let known = try #require(storeState)
        #expect(known.offsets.intervals == [0..<8 << 20] && known.tails.isEmpty)
        let upload = try #require(known.upload)
        let listed = try await bucket.store.client.parts(of: upload, bucket.store.client.address.key("films/film"))
        #expect(listed.map(\.number) == [1] && listed.map { PartMark(etag: $0.etag) } == [known.parts[1]])
        await partial.discard(soon: false)
        let left = try await bucket.everything()
        #expect(left.objects.isEmpty && left.uploads == 0)
    }

    @Test(
        "unreported parts are found, and parts that the server has lost are fetched again",
        arguments: ObjectServer.installed)
    func unannouncedAndLost(_ kind: ObjectServer.Kind) async throws {
        let bucket = try await Bucket(kind)
        let first = try #require(try await open(bucket, "1") as? ObjectPartial)
        try await receive(0..<9 << 20, into: first)
        var early: Checkpoint?
        try await eventually("the upload to be reported") {
            early = try await first.checkpoint(isLast: false) ?? early
            return early != nil
        }
        #expect(PartsRecord(try #require(early).storeState)?.upload != nil)
        try await receive(9 << 20..<16 << 20, into: first)
        try await eventually("two parts to be acknowledged") { first.state.withLock { $0.storeState.parts.count } == 2 }
        // As after a kill, no checkpoint followed.
        var point = ResumePoint(
            generation: "1", store: "", file: "films/film", entity: Entity(total: Self.size), source: "",
            offsets: try #require(early).offsets, storeState: try #require(early).storeState)
        let second = try #require(try await resume(bucket, "2", point) as? ObjectPartial)
        #expect(second.written.intervals == [0..<16 << 20])
        // A part that the store has acknowledged and lost: the store state and the run's state name it, the store does
        // not.
        second.state.withLock { state in
            (state.storeState.parts[3], state.etags[3]) = (PartMark(etag: "lost"), "lost")
            state.received = state.storeState.offsets
        }
        point = try await self.point(second)
        #expect(point.offsets.intervals == [0..<Self.size])
        let error = await thrown { () throws(TransferError) in try await second.commit(whole()) }
        #expect(error == TransferError(.io, "the object store has lost 1 parts of an upload that it had acknowledged"))
        let last = try await resume(bucket, "3", point)
        #expect(last.written.intervals == [0..<16 << 20])
        try await receive(16 << 20..<Self.size, into: last)
        #expect(isStored(try await last.commit(whole())))
        await last.discard(soon: false)
        try await expectWhole(bucket)
    }

    @Test("a run that has lost its lease takes nothing over, and removes nothing", arguments: ObjectServer.installed)
    func lostLease(_ kind: ObjectServer.Kind) async throws {
        let bucket = try await Bucket(kind)
        let first = try await open(bucket, "1")
        try await receive(0..<9 << 20, into: first)
        let point = try await point(first)
        let next = try await resume(bucket, "2", point)
        let late = request("3", lease: RunLease(isHeld: { false }, confirm: { false }))
        var other = point
        other.generation = ""
        for point in [point, other] {
            let error = await thrown { () throws(TransferError) in try await bucket.store.resume(late, from: point) }
            #expect(error?.code == .io)
        }
        try await receive(9 << 20..<Self.size, into: next)
        #expect(isStored(try await next.commit(whole())))
        await next.discard(soon: false)
        try await expectWhole(bucket)
    }

    @Test("a partial object that is not to be continued is removed at once", arguments: ObjectServer.installed)
    func notContinued(_ kind: ObjectServer.Kind) async throws {
        let bucket = try await Bucket(kind)
        let first = try await open(bucket, "1")
        try await receive(0..<17 << 20, into: first)
        var point = try await point(first)
        // The job was pushed again, with another path.
        point.generation = ""
        guard case .nothing = try await bucket.store.resume(request("2"), from: point) else {
            Issue.record("it is continued")
            return
        }
        #expect(try await bucket.everything() == ([], 0))
    }

    /// What a run finds when it resumes after a long stop.
    enum Late: String, CaseIterable, Sendable {
        case anotherHasIt, anotherFinished, newGeneration, cancelled, cancelledAndBegunAgain
    }

    @Test("a run that resumes after a long stop changes nothing", arguments: ObjectServer.installed, Late.allCases)
    func zombie(_ kind: ObjectServer.Kind, _ late: Late) async throws {
        let bucket = try await Bucket(kind)
        let zombie = try await open(bucket, "1")
        try await receive(0..<17 << 20, into: zombie)
        try await eventually("two parts to be acknowledged") {
            _ = try await zombie.checkpoint(isLast: false)
            return (zombie as? ObjectPartial)?.state.withLock { $0.storeState.parts.count } == 2
        }
        let text = try #require(zombie as? ObjectPartial).state.withLock { $0.storeState }
        let point = ResumePoint(
            generation: "1", store: "", file: "films/film", entity: Entity(total: Self.size), source: "",
            offsets: text.offsets, storeState: text.text)
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
            // The checkpoint has begun the other upload, so the older one is obsolete.
            _ = try await self.point(next)
            other = next
        case .cancelled, .cancelledAndBegunAgain:
            await bucket.store.discard(PartialLocation(file: "films/film", key: Self.key, generation: "1"))
            if late == .cancelledAndBegunAgain {
                let next = try await open(bucket, "2")
                try await receive(0..<9 << 20, into: next)
                _ = try await self.point(next)
                other = next
            }
        }
        // The zombie resumes, receives its last bytes, and believes that it still holds its lease.
        try await receive(17 << 20..<Self.size, into: zombie)
        let outcome = try? await zombie.commit(whole())
        #expect(outcome.map(isFenced) ?? true)
        switch late {
        case .anotherFinished: #expect(await bucket.read("films/film") == Self.file.all)
        default: #expect(await bucket.read("films/film") == nil)
        }
        if late == .newGeneration || late == .cancelledAndBegunAgain, let other {
            let last = try await resume(bucket, "3", try await currentPoint(other))
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
        "a run that dies between the naming and its end leaves nothing, once another run has started",
        arguments: ObjectServer.installed, [false, true])
    func unknownEnd(_ kind: ObjectServer.Kind, _ isHashed: Bool) async throws {
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
}
