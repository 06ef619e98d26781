import HaulContract
import HaulHTTP
import HaulStorage
import HaulTestSupport
import Synchronization
import Testing

@testable import HaulObjectStore

/// Jobs that complete uploads under one name at the same time.
@Suite(
    .disabled(
        if: ObjectServer.dialects.isEmpty, "no object store is installed: deploy/test.sh does that"))
struct NameClaimTests: MultipartFileTests {
    @Test(
        "of two jobs that name one object at the same time, none replaces the other's", .timeLimit(.minutes(5)),
        arguments: ObjectServer.dialects.flatMap { kind in [false, true].map { (kind, $0) } },
        [Job.IfExists.fail, .rename])
    func race(_ job: (ObjectServer.Kind, Bool), _ ifExists: Job.IfExists) async throws {
        let (kind, hasChecksum) = job
        let server = try await ObjectServer.shared(kind)
        let gateway = LateGateway(to: server.endpoint)
        let bucket = try Bucket(server, endpoint: gateway.endpoint)
        let checksum = hasChecksum ? sha256 : nil
        for round in 0..<3 {
            // Neither upload is completed before both jobs have seen that the name is free, if they can. SeaweedFS
            // ignores conditions only if both requests come together. On others the first job sees its object before.
            gateway.pair(apart: kind == .weed ? 0 : 1_000_000) {
                $0.hasPrefix("POST ") && $0.contains("uploadId=") && !$0.contains(".haul")
            }
            var partials: [any Partial] = []
            for run in ["c", "d"] {
                let request = FileRequest(
                    key: String(repeating: run, count: 40), runToken: run, isNew: true, path: "r\(round)",
                    ifExists: ifExists, completed: nil, lease: RunLease(isHeld: { true }, confirm: { true }))
                let partial = bucket.store.begin(request, generation: "\(round)", suggested: "x")
                try await partial.open(total: Self.size, hashing: checksum?.algorithm, with: [])
                try await receive(0..<Self.size, into: partial)
                partials.append(partial)
            }
            let stored: [StoredFile] = try await withThrowingTaskGroup(of: StoredFile?.self) { group in
                for partial in partials {
                    group.addTask {
                        let outcome = try? await partial.commit(whole(checksum))
                        await partial.discard(soon: false)
                        guard case .stored(let file)? = outcome else { return nil }
                        return file
                    }
                }
                return try await group.reduce(into: []) { files, file in if let file { files.append(file) } }
            }
            // Without a checksum the loser of `rename` fetches the file again, because an upload has one name only.
            #expect(stored.count == (ifExists == .rename && hasChecksum ? 2 : 1))
            #expect(Set(stored.map(\.file)).count == stored.count)
            for file in stored {
                let head = try await bucket.store.client.head(bucket.store.client.address.key(file.file))
                #expect(head?.mark?.identity == file.identity, "the object of \(file.file) was replaced")
            }
        }
        // Only objects stay: no claim, no part of an upload.
        let (objects, uploads) = try await bucket.everything()
        #expect(!objects.contains { $0.hasPrefix(".haul/") } && uploads == 0, "\(objects)")
    }

    @Test(
        "of several requests that create an object or replace one version at the same time, one succeeds",
        arguments: ObjectServer.dialects)
    func conditions(_ kind: ObjectServer.Kind) async throws {
        let client = try await Bucket(kind).store.client
        let key = client.address.key("claim")
        @Sendable func put(_ text: String, _ condition: NameCondition) async -> String? {
            let bytes = Array(text.utf8)
            let mark = ObjectMark(job: text, generation: text, time: 1)
            return try? await client.putFinal(key, RequestMemory(bytes), md5: Digest.md5(bytes), mark: mark, condition)
        }
        var etag = try #require(await put("first", .absent))
        // The client learns how the server expects ETags.
        if let replaced = await put("second", .same(etag)) {
            etag = replaced
        } else {
            client.toggleETagQuotes(from: false)
        }
        for round in 0..<40 {
            let condition = round % 2 == 0 ? NameCondition.same(etag) : .absent
            if condition == .absent { try await client.delete(key) }
            let etags: [String] = await withTaskGroup(of: String?.self) { group in
                for run in 0..<4 { group.addTask { await put("\(round) \(run)", condition) } }
                return await group.reduce(into: []) { etags, etag in if let etag { etags.append(etag) } }
            }
            #expect(etags.count == 1, "round \(round)")
            etag = try #require(etags.first)
            #expect(try await client.head(key)?.etag == etag)
        }
    }

    private func isClaimed(_ bucket: Bucket) async throws -> Bool {
        try await bucket.everything().objects == [HiddenKeys.claim(ofName: "films/film")]
    }

    @Test(
        "a claim whose run has died is taken over by its job at once, and by others later",
        arguments: ObjectServer.dialects)
    func takeover(_ kind: ObjectServer.Kind) async throws {
        let bucket = try await Bucket(kind)
        let key = bucket.store.client.address.key(HiddenKeys.claim(ofName: "films/film"))
        func claim(_ job: String, staleness: Int64 = NameClaim.staleness) -> NameClaim {
            NameClaim(bucket.store, key: key, job: job, generation: "1", upload: nil, staleness: staleness)
        }
        let first = claim("a")
        await first.acquire()
        try first.check()
        let other = claim("b")
        await other.acquire()
        #expect(throws: StoreError.claimed) { try other.check() }
        let second = claim("a")
        await second.acquire()
        try second.check()
        // The first run wakes late. Neither it nor the other job deletes the second run's claim.
        await first.release()
        await other.release()
        #expect(try await isClaimed(bucket))
        // The second run dies.
        let last = claim("b", staleness: 1)
        try await eventually("the claim to become stale") {
            await last.acquire()
            return (try? last.check()) != nil
        }
        await second.release()
        #expect(try await isClaimed(bucket))
        await last.release()
        #expect(try await bucket.everything().objects.isEmpty)
    }

    @Test(
        "a run that has lost its job while it waited leaves the claim to the run that has it", .timeLimit(.minutes(2)),
        arguments: ObjectServer.dialects)
    func lateRun(_ kind: ObjectServer.Kind) async throws {
        let bucket = try await Bucket(kind)
        let key = bucket.store.client.address.key(HiddenKeys.claim(ofName: "films/film"))
        let other = NameClaim(
            bucket.store, key: key, job: String(repeating: "c", count: 40), generation: "1", upload: nil)
        await other.acquire()
        try other.check()
        let (isHeld, asked) = (Shared(true), Shared(0))
        let lease = RunLease(
            isHeld: {
                asked.change { $0 += 1 }
                return isHeld.value
            }, confirm: { isHeld.value })
        let partial = bucket.store.begin(request("1", lease: lease), generation: "1", suggested: "x")
        try await partial.open(total: Self.size, hashing: nil, with: [])
        try await receive(0..<Self.size, into: partial)
        let before = asked.value
        let commit = Task { try await partial.commit(whole()) }
        // By now the pauses between its tries last seconds. It is in one if it has asked nothing for a while.
        try await eventually("some tries") { asked.value >= before + 10 }
        var last = 0
        try await eventually("a pause") {
            defer { last = asked.value }
            try await Task.sleep(for: .milliseconds(300))
            return last == asked.value
        }
        isHeld.value = false
        await other.release()
        let next = NameClaim(bucket.store, key: key, job: Self.key, generation: "1", upload: nil)
        await next.acquire()
        try next.check()
        let etag = try await bucket.store.client.head(key)?.etag
        #expect(isFenced(try await commit.value))
        await bucket.store.runDeferredWork()
        #expect(try await bucket.store.client.head(key)?.etag == etag)
        await next.release()
        await partial.discard(soon: false)
    }

    @Test(
        "a claim whose worker died after its upload had ended is soon taken over by another job",
        arguments: ObjectServer.dialects, [true, false])
    func isOver(_ kind: ObjectServer.Kind, _ isCompleted: Bool) async throws {
        let bucket = try await Bucket(kind)
        let client = bucket.store.client
        let partial = try #require(try await open(bucket, "1") as? ObjectPartial)
        try await receive(0..<Self.size, into: partial)
        _ = try await point(partial)
        let (upload, etags) = try partial.state.withLock { (try #require($0.storeState.upload), $0.etags) }
        let dead = bucket.store.claim("films/film", job: Self.key, generation: "1", upload: upload)
        await dead.acquire()
        try dead.check()
        let other = NameClaim(
            bucket.store, key: client.address.key(HiddenKeys.claim(ofName: "films/film")), job: "other",
            generation: "1", upload: .init(id: "other", key: client.address.key("films/film")),
            settling: .milliseconds(300))
        let deadline = ContinuousClock.now + .milliseconds(400)
        repeat {
            await other.acquire()
            #expect(throws: StoreError.claimed, "the upload may still be completed") { try other.check() }
        } while ContinuousClock.now < deadline
        if isCompleted {
            let parts = etags.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
            try await client.complete(upload, client.address.key("films/film"), parts)
        } else {
            try await client.abort(upload, client.address.key("films/film"))
        }
        let ended = ContinuousClock.now
        try await eventually("the claim to be taken over") {
            await other.acquire()
            return (try? other.check()) != nil
        }
        #expect(.now - ended >= .milliseconds(300), "the object may be shown late")
        await dead.release()
        #expect(try await bucket.everything().objects.contains(HiddenKeys.claim(ofName: "films/film")))
        await other.release()
    }

    @Test("a sweep removes a stale claim, unless another run takes it over meanwhile", arguments: ObjectServer.dialects)
    func sweep(_ kind: ObjectServer.Kind) async throws {
        let bucket = try await Bucket(kind)
        let claim = bucket.store.claim("films/film", job: Self.key, generation: "1", upload: "u")
        await claim.acquire()
        try claim.check()
        #expect(await bucket.store.leftovers(olderThan: 0).isEmpty)
        let found = await bucket.store.leftovers(olderThan: -1 - NameClaim.staleness)
        #expect(found.count == 1)
        let next = bucket.store.claim("films/film", job: Self.key, generation: "1", upload: "u")
        await next.acquire()
        try next.check()
        #expect(await bucket.store.remove(found).isEmpty)
        #expect(try await isClaimed(bucket))
        let again = await bucket.store.leftovers(olderThan: -1 - NameClaim.staleness)
        #expect(await bucket.store.remove(again).count == 1)
        #expect(try await bucket.everything().objects.isEmpty)
    }

    @Test(
        "the next run of a job removes the claim with which the last one has completed its upload",
        arguments: ObjectServer.dialects)
    func completed(_ kind: ObjectServer.Kind) async throws {
        let bucket = try await Bucket(kind)
        let early = try await open(bucket, "1")
        try await receive(0..<Self.size, into: early)
        let point = try await point(early)
        let claim = bucket.store.claim("films/film", job: Self.key, generation: "1", upload: "u")
        await claim.acquire()
        // The run dies after it has completed the upload.
        let partial = try #require(early as? ObjectPartial)
        let (upload, etags) = partial.state.withLock { ($0.storeState.upload, $0.etags) }
        let parts = etags.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
        let client = bucket.store.client
        try await client.complete(try #require(upload), client.address.key("films/film"), parts)
        guard case .placed = try await bucket.store.resume(request("2"), from: point) else {
            Issue.record("the object is not found")
            return
        }
        try await expectWhole(bucket)
    }

    @Test("a job that is removed leaves no claim", arguments: ObjectServer.dialects)
    func removed(_ kind: ObjectServer.Kind) async throws {
        let good = try await Bucket(kind)
        let gateway = LateGateway(to: good.server.endpoint)
        let bad = try Bucket(good.server, endpoint: gateway.endpoint, prefix: good.store.client.address.prefix)
        // The run is stopped with the request that completes the upload.
        let lease = RunLease(isHeld: { !gateway.hasKept }, confirm: { !gateway.hasKept })
        let partial = bad.store.begin(request("1", lease: lease), generation: "1", suggested: "x")
        try await partial.open(total: Self.size, hashing: nil, with: [])
        try await receive(0..<Self.size, into: partial)
        gateway.keep { $0.hasPrefix("POST ") && $0.contains("uploadId=") }
        _ = try? await partial.commit(whole())
        await bad.store.runDeferredWork()
        let claim = HiddenKeys.claim(ofName: "films/film")
        #expect(try await good.everything().objects.contains(claim), "the request may still be executed")
        let next = good.store.claim("films/film", job: "other", generation: "1", upload: "u")
        await next.acquire()
        #expect(throws: StoreError.claimed) { try next.check() }
        await partial.discard(soon: false)
        #expect(try await good.everything().objects.isEmpty)
    }
}
