import Foundation
import Glibc
import HaulContract
import HaulHTTP
import HaulTestSupport
import Testing

@testable import HaulFileStore

/// A run that takes over what earlier runs left fences them for certain, or goes no further.
@Suite struct TakeoverTests {
    private static let key = String(repeating: "a", count: 40)
    private static let run = String(repeating: "b", count: 32)

    private func directory(_ folder: TemporaryDirectory) throws -> Directory {
        let descriptor = open(folder.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        try #require(descriptor >= 0)
        return Directory(owning: descriptor)
    }

    @Test("a partial file that cannot be renamed is an error, and keeps its name") func unrenamed() async throws {
        let folder = TemporaryDirectory()
        let name = HiddenName(Self.key, "g")
        close(creat(folder.file(name.text), 0o600))
        // A directory has the name to which this run would rename the file.
        mkdir(folder.file(name.takenOver(by: Self.run).text), 0o700)
        let directory = try directory(folder)
        let error = await thrown { () throws(TransferError) in
            try Takeover(of: Self.key, in: directory, by: Self.run)
        }
        #expect(error?.code == .io)
        #expect(directory.status(of: name.text) != nil)
    }

    @Test("a directory that cannot be read is an error, and not an empty one") func unreadable() async throws {
        // A descriptor of a file stands for a directory that cannot be listed.
        let folder = TemporaryDirectory()
        let descriptor = creat(folder.file("file"), 0o600)
        let directory = Directory(owning: descriptor)
        let error = await thrown { () throws(TransferError) in
            try Takeover(of: Self.key, in: directory, by: Self.run)
        }
        #expect(error != nil)
    }

    /// Where a run continues the generation `g` of a file of 100,000 bytes.
    private static let resume = ResumePoint(
        generation: "g", store: "", file: "file", entity: Entity(total: 100_000), source: "",
        offsets: ByteIntervals([0..<50_000]))

    /// A partial file that another run has taken over before.
    private func makePartial(_ size: Int, in folder: TemporaryDirectory) -> String {
        let name = HiddenName(Self.key, "g").takenOver(by: String(repeating: "c", count: 32)).text
        let descriptor = creat(folder.file(name), 0o600)
        #expect(testBytes(size).withUnsafeBytes { write(descriptor, $0.baseAddress!, $0.count) } == size)
        close(descriptor)
        return name
    }

    @Test("two runs that were killed while they named and took over the file leave a partial file to continue")
    func killedTwice() async throws {
        let folder = TemporaryDirectory()
        let name = makePartial(50_000, in: folder)
        // The first run had linked its proof, and the second had renamed the file, but not removed the proof.
        link(folder.file(name), folder.file(HiddenName(Self.key, "g").proof.text))
        let left = try Takeover(of: Self.key, in: try directory(folder), by: Self.run, continuing: Self.resume)
        #expect(left.placed.isEmpty)
        #expect(folder.names == [try #require(left.partial).text])
    }

    @Test(
        "a partial file with a link in a snapshot of the root is continued, unless it is whole",
        arguments: [false, true])
    func snapshot(isHoled: Bool) async throws {
        let (folder, other) = (TemporaryDirectory(), TemporaryDirectory())
        let name = makePartial(50_000, in: folder)
        // A part at the end was received first.
        if isHoled { truncate(folder.file(name), 100_000) }
        link(folder.file(name), other.file("copy"))
        let left = try Takeover(of: Self.key, in: try directory(folder), by: Self.run, continuing: Self.resume)
        #expect(folder.names == [try #require(left.partial).text])
    }

    @Test("a finished file that was moved to another directory is not continued") func moved() async throws {
        let (folder, other) = (TemporaryDirectory(), TemporaryDirectory())
        link(folder.file(makePartial(100_000, in: folder)), other.file("moved"))
        let left = try Takeover(of: Self.key, in: try directory(folder), by: Self.run, continuing: Self.resume)
        #expect(left.partial == nil && folder.names.isEmpty && other.contents("moved") == testBytes(100_000))
    }

    @Test("a whole partial file that has the mode of a finished one is opened again by its owner") func readOnly()
        async throws
    {
        let folder = TemporaryDirectory()
        let name = HiddenName(Self.key, "g")
        let path = folder.file(name.text)
        _ = FileManager.default.createFile(atPath: path, contents: Data(count: 50_000))
        chmod(path, 0o444)
        if geteuid() == 0 { for path in [folder.path, path] { chown(path, 65_534, 65_534) } }
        let directory = try directory(folder)
        let isOpened = await withCheckedContinuation { continuation in
            Foundation.Thread {
                // Root may write to every file. So this thread becomes another user for the file system.
                let become = unsafeBitCast(dlsym(nil, "setfsuid"), to: (@convention(c) (uid_t) -> Int32).self)
                if geteuid() == 0 { _ = become(65_534) }
                let file = try? HiddenFile.open(name, fulfilling: Self.resume, in: directory)
                if let file { close(file.descriptor) }
                continuation.resume(returning: file != nil)
            }.start()
        }
        #expect(isOpened)
    }
}
