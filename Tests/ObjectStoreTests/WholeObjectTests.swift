import HaulContract
import HaulHTTP
import HaulStorage
import HaulTestSupport
import Synchronization
import Testing

@testable import HaulObjectStore

/// What happens to a file of several parts once all bytes have arrived, and what can go wrong before.
@Suite(
    .disabled(
        if: ObjectServer.installed.isEmpty, "neither radosgw nor SeaweedFS is installed: deploy/test.sh does that"))
struct WholeObjectTests: MultipartFileTests {
    @Test(
        "the digest is checked before the name is given: in order, out of order, after a handover",
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
            Issue.record("the file was not stored")
            return
        }
        #expect(file.checksum == sha256.description)
        await partial.discard(soon: false)
        try await expectWhole(bucket)
        // A wrong digest gives no name, and leaves nothing.
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
        "a file of unknown length becomes complete", arguments: ObjectServer.installed,
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
        "a name that hundreds of objects have costs few requests, and no body is sent for each",
        arguments: ObjectServer.installed)
    func sameNames(_ kind: ObjectServer.Kind) async throws {
        let good = try await Bucket(kind)
        for number in 0..<300 { await good.write(number == 0 ? "f.csv" : FileName.numbered("f.csv", number), [1]) }
        let gateway = LateGateway(to: good.server.endpoint)
        let requests = Shared([String]())
        gateway.keep { head in
            if head.contains("/f") { requests.change { $0.append(String(head.prefix { $0 != " " })) } }
            return false
        }
        let bucket = try Bucket(good.server, endpoint: gateway.endpoint, prefix: good.store.client.address.prefix)
        let request = FileRequest(
            key: Self.key, runToken: "1", isNew: true, path: nil, ifExists: .reuse, completed: nil,
            lease: RunLease(isHeld: { true }, confirm: { true }))
        let partial = bucket.store.begin(request, generation: "1", suggested: "f.csv")
        let whole = WholeFile(size: 3, checksum: nil, authority: "the job", lastModified: nil)
        guard case .stored(let file) = try await partial.put([1, 2, 3], whole) else {
            Issue.record("the file was not stored")
            return
        }
        #expect(file.file == "f (300).csv")
        #expect(requests.value.count { $0 == "PUT" } <= 2 && requests.value.count < 40, "\(requests.value)")
        #expect(await good.read("f (300).csv") == [1, 2, 3])
    }

    @Test(
        "an upload that began without a digest is not continued with one, because its completion gives the name",
        arguments: ObjectServer.installed)
    func lateDigest(_ kind: ObjectServer.Kind) async throws {
        let bucket = try await Bucket(kind)
        let first = try await open(bucket, "1")
        try await receive(0..<9 << 20, into: first)
        let point = try await point(first)
        var examined = request("2")
        examined.isExamined = true
        guard case .nothing = try await bucket.store.resume(examined, from: point) else {
            Issue.record("the upload is continued")
            return
        }
        #expect(try await bucket.everything() == ([], 0))
        // Bytes of tails alone are not bound to a name yet, and are continued.
        let second = try await open(bucket, "3")
        try await receive(0..<5 << 20, into: second)
        let tails = try await self.point(second)
        examined = request("4")
        examined.isExamined = true
        guard case .partial(let last) = try await bucket.store.resume(examined, from: tails) else {
            Issue.record("the tails are lost")
            return
        }
        try await receive(5 << 20..<Self.size, into: last)
        let wrong = Job.Checksum(algorithm: .sha256, digest: String(repeating: "0", count: 64))
        let error = await thrown { () throws(TransferError) in try await last.commit(whole(wrong)) }
        #expect(error?.code == .checksumMismatch)
        #expect(try await bucket.everything() == ([], 0))
    }

    @Test(
        "an upload under the final name gives no name to a file whose digest must be verified",
        arguments: ObjectServer.installed)
    func unexamined(_ kind: ObjectServer.Kind) async throws {
        let bucket = try await Bucket(kind)
        let partial = try await open(bucket, "1")
        try await receive(0..<Self.size, into: partial)
        let error = await thrown { () throws(TransferError) in try await partial.commit(whole(sha256)) }
        #expect(error?.code == .io)
        #expect(try await bucket.everything() == ([], 0))
    }

    @Test(
        "an object that was completed under its hidden key and not named is named by the next run",
        arguments: ObjectServer.installed)
    func assembled(_ kind: ObjectServer.Kind) async throws {
        let bucket = try await Bucket(kind)
        let first = try await open(bucket, "1", hashing: .sha256)
        try await receive(0..<Self.size, into: first)
        let point = try await point(first)
        let client = bucket.store.client
        let storeState = try #require(PartsRecord(point.storeState))
        let etags = try #require(first as? ObjectPartial).state.withLock { $0.etags }
        // The worker dies right after this call.
        try await client.complete(
            try #require(storeState.upload), client.address.key(HiddenKeys(job: Self.key, generation: "1").whole),
            etags.sorted { $0.key < $1.key }.map { ($0.key, $0.value) })
        let next = try await resume(bucket, "2", point)
        #expect(next.written.contains(0..<Self.size))
        #expect(isStored(try await next.commit(whole(sha256))))
        await next.discard(soon: false)
        try await expectWhole(bucket)
    }

    @Test(
        "files that need more memory than there is wait for each other, and all become complete",
        arguments: ObjectServer.installed)
    func memory(_ kind: ObjectServer.Kind) async throws {
        let bucket = try await Bucket(kind, memory: 24 << 20)
        let paths = (0..<6).map { "m/\($0)" }
        let partials = try await withThrowingTaskGroup(of: (any Partial).self) { group in
            for (index, path) in paths.enumerated() {
                group.addTask {
                    let request = FileRequest(
                        key: String(repeating: "\(index)", count: 40), runToken: "1", isNew: true, path: path,
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
                    // Each file begins a part that stays unfilled for a while, in the shared memory. The last file
                    // waits for all others.
                    for range in [8 << 20..<9 << 20, 0..<8 << 20, 9 << 20..<Self.size] {
                        try await receive(range, into: partial, patience: .seconds(120))
                    }
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

    @Test(
        "a commit that is stopped in its last step still ends, and reports that", arguments: ObjectServer.installed,
        [1000, MultipartFile.size])
    func stoppedCommit(_ kind: ObjectServer.Kind, _ size: Int64) async throws {
        let bucket = try await Bucket(kind)
        let partial = try await open(bucket, "1", total: size)
        try await receive(0..<size, into: partial)
        let whole = WholeFile(size: size, checksum: nil, authority: "the job", lastModified: nil)
        let commit = Task { try await partial.commit(whole) }
        commit.cancel()
        #expect(isStored(try await commit.value))
        #expect(await bucket.read("films/film") == Self.file.bytes(0..<size))
        await partial.discard(soon: false)
    }

    @Test(
        "jobs that choose one numbered name at the same time get one number each", arguments: ObjectServer.installed)
    func numbered(_ kind: ObjectServer.Kind) async throws {
        let bucket = try await Bucket(kind)
        await bucket.write("films/film", [1, 2, 3])
        var partials: [any Partial] = []
        for run in ["c", "d"] {
            let request = FileRequest(
                key: String(repeating: run, count: 40), runToken: run, isNew: true, path: "films/film",
                ifExists: .rename, completed: nil, lease: RunLease(isHeld: { true }, confirm: { true }))
            let partial = bucket.store.begin(request, generation: run, suggested: "x")
            try await partial.open(total: Self.size, hashing: .sha256, with: [])
            partials.append(partial)
        }
        var files: [String] = []
        for partial in partials {
            try await receive(0..<Self.size, into: partial)
            if case .stored(let file) = try await partial.commit(whole(sha256)) { files.append(file.file) }
            await partial.discard(soon: false)
        }
        #expect(files == ["films/film (1)", "films/film (2)"])
    }

    @Test(
        "a run that has lost its partial file to another one does not remove it", arguments: ObjectServer.installed)
    func lostPartial(_ kind: ObjectServer.Kind) async throws {
        let bucket = try await Bucket(kind)
        let late = try await open(bucket, "1", hashing: .sha256)
        try await receive(0..<Self.size, into: late)
        let next = try await resume(bucket, "2", try await point(late))
        // The digest does not fit, so that the late run would discard everything.
        let wrong = Job.Checksum(algorithm: .sha256, digest: String(repeating: "0", count: 64))
        _ = try? await late.commit(whole(wrong))
        #expect(isStored(try await next.commit(whole(sha256))))
        await next.discard(soon: false)
        try await expectWhole(bucket)
    }

    @Test(
        "without If-None-Match HEAD finds an existing object, which stays", arguments: ObjectServer.installed)
    func withoutConditions(_ kind: ObjectServer.Kind) async throws {
        let bucket = try await Bucket(kind)
        await bucket.write("films/film", [1, 2, 3])
        for request in [ConditionalRequest.create, .replace, .complete, .delete] { bucket.store.lacks(request) }
        let bytes = [UInt8](repeating: 7, count: 1000)
        let whole = WholeFile(size: 1000, checksum: nil, authority: "the job", lastModified: nil)
        let partial = bucket.store.begin(request("1", ifExists: .fail), generation: "1", suggested: "x")
        let error = await thrown { () throws(TransferError) in try await partial.put(bytes, whole) }
        #expect(error?.code == .fileExists)
        #expect(await bucket.read("films/film") == [1, 2, 3])
        let numbered = bucket.store.begin(request("2", ifExists: .rename), generation: "2", suggested: "x")
        guard case .stored(let file) = try await numbered.put(bytes, whole) else {
            Issue.record("the file was not stored")
            return
        }
        #expect(file.file != "films/film")
        #expect(await bucket.read(file.file) == bytes)
    }

    @Test("a gateway that is killed in the middle and comes back loses nothing", arguments: ObjectServer.installed)
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
        "a part that another program has changed is fetched again, and the object is never a mixture",
        arguments: ObjectServer.installed)
    func changed(_ kind: ObjectServer.Kind) async throws {
        let bucket = try await Bucket(kind)
        let first = try await open(bucket, "1")
        try await receive(0..<9 << 20, into: first)
        let point = try await point(first)
        let storeState = try #require(PartsRecord(point.storeState))
        let other = [UInt8](repeating: 1, count: 8 << 20)
        _ = try await bucket.store.client.put(
            part: 1, of: try #require(storeState.upload), bucket.store.client.address.key("films/film"),
            RequestMemory(other), md5: Digest.md5(other))
        let remains = try await bucket.store.resume(request("2"), from: point)
        guard case .partial(let partial) = remains else {
            Issue.record("nothing is left")
            return
        }
        // SeaweedFS lists both parts. Only the object shows which one it would use.
        #expect(partial.written.contains(0..<8 << 20) == (kind == .weed))
        for range in partial.written.missing(in: 0..<Self.size) { try await receive(range, into: partial) }
        _ = try? await partial.commit(whole())
        let made = await bucket.read("films/film")
        #expect(made == Self.file.all || kind == .weed && made == nil)
    }
}
