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
}
