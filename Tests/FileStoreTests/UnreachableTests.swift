import Glibc
import HaulContract
import HaulHTTP
import HaulStorage
import HaulTestSupport
import Testing

@testable import HaulFileStore

/// A root that does not answer for a while.
@Suite struct UnreachableTests {
    @Test("a folder that cannot be opened now is an error, and not one without a partial file to continue")
    func unreachable() async throws {
        let parent = TemporaryDirectory()
        mkdir(parent.file("root"), 0o700)
        let store = try FileStore(root: parent.file("root"))
        let request = FileRequest(
            key: String(repeating: "a", count: 40), runToken: String(repeating: "1", count: 32), isNew: false,
            path: "folder/file", ifExists: .reuse, completed: nil,
            lease: RunLease(isHeld: { true }, confirm: { true }))
        let resume = ResumePoint(
            generation: "g", store: store.id, file: "folder/file", entity: Entity(total: 100), source: "",
            offsets: ByteIntervals([0..<50]))
        // The root is gone for a while, like a network file system that is unmounted.
        unlink(parent.file("root/.haul-store"))
        #expect(rmdir(parent.file("root")) == 0)
        let error = await thrown { () throws(TransferError) in try await store.resume(request, from: resume) }
        #expect(error?.code == .io)
        let file = CompletedFile(
            file: "folder/file", bytes: 100, store: store.id, inode: 1, modified: 1, entity: Entity(total: 100),
            source: "",
            validated: 0)
        for fencing in [false, true] {
            let error = await thrown { () throws(TransferError) in
                _ = try await store.held(file, for: request, fencing: fencing)
            }
            #expect(error?.code == .io, "that the finished file is gone is not known")
        }
        // A link in the way, however, stays.
        let other = TemporaryDirectory()
        let linked = try FileStore(root: other.path)
        symlink("/", other.file("folder"))
        guard case .nothing = try await linked.resume(request, from: resume) else {
            Issue.record("something is continued through a link")
            return
        }
    }

    @Test(
        "a mount that has lost its server says nothing about the files in it",
        .enabled("needs exfat-fuse and loop devices") { await LinklessMount.isPossible() })
    func disconnected() async throws {
        let root = TemporaryDirectory()
        let mount = try await LinklessMount(at: root)
        mkdir(mount.file("folder"), 0o700)
        let store = try FileStore(root: mount.file("folder/.."))
        let key = String(repeating: "a", count: 40)
        let (run, next) = (String(repeating: "1", count: 32), String(repeating: "2", count: 32))
        func request(_ token: String, _ file: CompletedFile?) -> FileRequest {
            FileRequest(
                key: key, runToken: token, isNew: false, path: "folder/file", ifExists: .reuse, completed: file,
                lease: RunLease(isHeld: { true }, confirm: { true }))
        }
        let partial = store.begin(request(run, nil), generation: run, suggested: "x")
        let whole = WholeFile(size: 3, checksum: nil, authority: "the job", lastModified: nil)
        guard case .stored(let stored) = try await partial.put(Array("one".utf8), whole) else {
            Issue.record("the file is not stored")
            return
        }
        let file = CompletedFile(
            file: stored.file, bytes: 3, store: store.id, inode: stored.identity, modified: stored.modified,
            entity: Entity(), source: "", validated: 0)
        #expect(try await store.held(file, for: request(next, file), fencing: false) != nil)
        #expect(try await store.placed(key, in: "folder/", by: next, continuing: nil)?.file.file == "folder/file")
        #expect(await store.mayBelongToAnotherJob("folder/file", besides: "b"))
        try await mount.breakOff()
        #expect(
            await thrown { () throws(TransferError) in
                try await store.held(file, for: request(next, file), fencing: false)
            }?.code == .io)
        #expect(
            await thrown { () throws(TransferError) in
                try await store.placed(key, in: "folder/", by: next, continuing: nil)
            }?.code == .io)
        #expect(await store.mayBelongToAnotherJob("folder/other", besides: "b"))
        #expect(await thrown { () throws(TransferError) in try await store.digest(of: stored, .md5) }?.code == .io)
        try await mount.end()
    }
}
