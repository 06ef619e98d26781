import Glibc
import HaulContract
import HaulExecutors
import HaulHTTP
import HaulStorage
import HaulTestSupport
import Synchronization
import Testing

@testable import HaulFileStore

/// Many small files that are committed at once.
@Suite struct GroupCommitTests {
    /// How many files are synced one by one before the others are grouped.
    private static let alone = 16
    private static let together = 40

    private let root = TemporaryDirectory()
    private let diskWriter = DiskWriter()
    private let store: FileStore
    /// For each sync of the file system: the number of files, and how many of them had their names.
    private let syncs = Shared<[(files: Int, named: Int)]>([])

    init() throws { store = try FileStore(root: root.path) }

    private func commits(canSync: Bool = true) -> GroupCommit {
        GroupCommit(OpenRoot(store.directory), diskWriter.blocking, groups: true) { [syncs, root] _ in
            let names = root.names
            let named = names.filter { !$0.hasPrefix(".") }.count
            syncs.change { $0.append((names.count - named, named)) }
            return canSync
        }
    }

    private func file(
        _ name: String, durability: Durability = .disk, mayName: @escaping @Sendable () -> Bool = { true },
        before: @escaping @Sendable () throws(TransferError) -> Void = {}
    ) -> FileCommit {
        FileCommit(
            durability: durability,
            write: { [root, diskWriter] () throws(TransferError) in
                try before()
                let descriptor = open(root.path + "/.\(name)", O_RDWR | O_CREAT | O_EXCL, 0o644)
                let output = OutputFile(descriptor: descriptor, diskWriter: diskWriter, durability: durability)
                try output.write(Array(name.utf8))
                return FileCommit.Written(output: output, checksum: name, hasAttributes: false)
            },
            mayName: mayName,
            name: { [root, store] file in
                link(root.path + "/.\(name)", root.path + "/\(name)")
                return FileCommit.Named(
                    outcome: .stored(
                        StoredFile(file: name, bytes: 0, identity: 0, modified: 0, checksum: file.checksum)),
                    directory: store.directory)
            })
    }

    /// Commits `files` while `alone` other files are in progress. Those keep all threads busy until the files have
    /// arrived.
    private func run(_ files: [FileCommit], in commits: GroupCommit) async throws -> [Result<
        FileCommit.End, TransferError
    >] {
        let gate = Latch()
        let (waiting, arrived) = (Shared(0), Shared(0))
        let others = (0..<Self.alone).map { index in
            Task {
                try await commits.run(
                    file(
                        "alone\(index)",
                        before: {
                            waiting.change { $0 += 1 }
                            gate.wait()
                        }))
            }
        }
        try await eventually { waiting.value == Self.alone }
        let tasks = files.map { file in
            Task { () -> Result<FileCommit.End, TransferError> in
                arrived.change { $0 += 1 }
                do throws(TransferError) { return .success(try await commits.run(file)) } catch {
                    return .failure(error)
                }
            }
        }
        try await eventually { arrived.value == files.count && commits.count == Self.alone + files.count }
        gate.open()
        for other in others { _ = try await other.value }
        var results: [Result<FileCommit.End, TransferError>] = []
        for task in tasks { results.append(await task.value) }
        return results
    }

    private func isNamed(_ result: Result<FileCommit.End, TransferError>) -> Bool {
        if case .success(.ended(.stored)) = result { true } else { false }
    }

    /// All files are written before the first one gets its name, so that they share a sync.
    private func files() -> [FileCommit] {
        let (latch, begun) = (Latch(), Shared(0))
        return (0..<Self.together).map { index in
            file(
                "f\(index)",
                mayName: {
                    latch.wait()
                    return true
                },
                before: {
                    let count = begun.change {
                        $0 += 1
                        return $0
                    }
                    if count == Self.together { latch.open() }
                })
        }
    }

    @Test("grouped files share one sync for their bytes and one for their names", arguments: [true, false])
    func together(canSync: Bool) async throws {
        let results = try await run(files(), in: commits(canSync: canSync))
        #expect(results.allSatisfy(isNamed))
        // The first file may have been synced alone, before the others were there.
        #expect((2...3).contains(syncs.value.count), "\(syncs.value)")
        let others = root.names.filter { $0.hasPrefix("alone") }.count
        #expect(syncs.value.first.map { $0.named <= others + 1 } == true, "a file was named before it was durable")
        #expect(syncs.value.last.map { $0.named >= Self.together } == true)
        for index in 0..<Self.together { #expect(root.contents("f\(index)") == Array("f\(index)".utf8)) }
    }

    @Test("grouped files fail one by one, and wait one by one for permission to be named", arguments: [true, false])
    func apart(canSync: Bool) async throws {
        let files = (0..<Self.together).map { index in
            file("f\(index)", mayName: { index != 7 }) { () throws(TransferError) in if index == 5 { throw .noSpace } }
        }
        let results = try await run(files, in: commits(canSync: canSync))
        for (index, result) in results.enumerated() {
            switch (index, result) {
            case (5, .failure(let error)): #expect(error == .noSpace)
            case (7, .success(.unsure)): #expect(root.contents("f7") == nil)
            default: #expect(isNamed(result) && root.contents("f\(index)") != nil, "\(index)")
            }
        }
    }

    @Test("a file whose sync fails is not named, and the others are", arguments: [true, false])
    func unsynced(canSync: Bool) async throws {
        // A pipe cannot be synced, and the other files can. A sync of the whole file system does not show the error: it
        // may report an error for the pipe while it syncs the others.
        let pipe = FileCommit(
            durability: .disk,
            write: { [diskWriter, root] () throws(TransferError) in
                mkfifo(root.path + "/.pipe", 0o600)
                return FileCommit.Written(
                    output: OutputFile(descriptor: open(root.path + "/.pipe", O_RDWR), diskWriter: diskWriter),
                    checksum: nil,
                    hasAttributes: false)
            },
            mayName: { true },
            name: { _ in
                Issue.record("the pipe was named")
                return FileCommit.Named(outcome: .fenced)
            })
        let results = try await run((0..<Self.together).map { file("f\($0)") } + [pipe], in: commits(canSync: canSync))
        #expect(results.dropLast().allSatisfy(isNamed))
        guard case .failure(let error)? = results.last else {
            Issue.record("the commit of the pipe did not fail")
            return
        }
        guard case .failed(let failure) = error else { throw error }
        #expect(failure.code == .io)
    }

    @Test("files that need to survive only the process are not synced") func process() async throws {
        let commits = commits()
        let results = await withTaskGroup(of: Bool.self) { group in
            for index in 0..<Self.together {
                let file = file("f\(index)", durability: .process)
                group.addTask { (try? await commits.run(file)).map { isNamed(.success($0)) } ?? false }
            }
            return await group.reduce(into: []) { $0.append($1) }
        }
        #expect(results.allSatisfy(\.self) && results.count == Self.together)
        #expect(syncs.value.isEmpty)
    }

    @Test("deferred work waits for the next files, or for runDeferredWork") func deferredWork() async throws {
        let (commits, done) = (commits(), Shared<[Int]>([]))
        commits.deferWork { done.change { $0.append(1) } }
        #expect(done.value.isEmpty)
        _ = try await commits.run(file("a", durability: .process))
        #expect(done.value == [1])
        commits.deferWork { done.change { $0.append(2) } }
        await commits.runDeferredWork()
        #expect(done.value == [1, 2])
    }
}
