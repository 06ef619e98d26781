import Foundation
import Glibc
import HaulTestSupport
import Testing

@testable import HaulDirect

/// What standard output, pipes and files of `haul get -o -` and `haul call` get.
@Suite(.timeLimit(.minutes(1))) struct OutputPipeTests {
    @Test("a million pieces of one byte are joined, so that each costs little") func tinyPieces() async throws {
        let directory = TemporaryDirectory()
        let file = open(directory.file("out"), O_WRONLY | O_CREAT, 0o600)
        defer { close(file) }
        let pipe = OutputPipe(file)
        for offset: Int64 in 0..<1_000_000 { _ = pipe.append([UInt8(offset & 255)], at: offset) }
        try await pipe.flush()
        #expect(directory.contents("out") == (0..<1_000_000).map { UInt8($0 & 255) })
    }

    @Test("a flush returns only when the last piece is written, even if the thread has just ended") func flushed()
        async throws
    {
        let directory = TemporaryDirectory()
        let file = open(directory.file("out"), O_WRONLY | O_CREAT, 0o600)
        defer { close(file) }
        let pipe = OutputPipe(file)
        var status = stat()
        for turn in 0..<50_000 {
            _ = pipe.append([1], at: pipe.position)
            // The second piece comes at any time while the thread writes the first one and ends.
            for _ in 0..<turn % 97 { _ = pipe.error }
            let position = pipe.position + 1
            _ = pipe.append([2], at: position - 1)
            try await pipe.flush()
            fstat(file, &status)
            try #require(status.st_size >= position)
        }
    }

    @Test("a cancelled task does not wait for a reader that reads nothing") func cancelled() async throws {
        var ends: [Int32] = [0, 0]
        #expect(Glibc.pipe(&ends) == 0)
        let pipe = OutputPipe(ends[1])
        _ = pipe.append([UInt8](repeating: 1, count: 1 << 20), at: 0)
        let flush = Task { try await pipe.flush() }
        flush.cancel()
        await #expect(throws: (any Error).self) { try await flush.value }
        // Lets the thread that writes come to its end.
        var bytes = [UInt8](repeating: 0, count: 1 << 20)
        #expect(readAll(ends[0], &bytes) == 1 << 20)
        try await pipe.flush()
        close(ends[0])
        close(ends[1])
    }

    private func readAll(_ descriptor: Int32, _ bytes: inout [UInt8]) -> Int {
        var count = 0
        while count < bytes.count {
            let got = bytes.withUnsafeMutableBytes { read(descriptor, $0.baseAddress! + count, $0.count - count) }
            guard got > 0 else { break }
            count += got
        }
        return count
    }

    @Test("a copy of a file ends when its task is cancelled, although the reader reads nothing") func cancelledCopy()
        async throws
    {
        let directory = TemporaryDirectory()
        let whole = [UInt8](repeating: 7, count: 5 << 20)
        _ = FileManager.default.createFile(atPath: directory.file("whole"), contents: Data(whole))
        let out = open(directory.file("out"), O_WRONLY | O_CREAT, 0o600)
        defer { close(out) }
        try await OutputPipe(out).copy(directory.file("whole"))
        #expect(directory.contents("out") == whole)
        var ends: [Int32] = [0, 0]
        #expect(Glibc.pipe(&ends) == 0)
        let pipe = OutputPipe(ends[1])
        let copy = Task { try await pipe.copy(directory.file("whole")) }
        try await eventually("bytes in the pipe") {
            var count: Int32 = 0
            return ioctl(ends[0], UInt(FIONREAD), &count) == 0 && count > 0
        }
        copy.cancel()
        await #expect(throws: (any Error).self) { try await copy.value }
        // Lets the thread that writes come to its end.
        var bytes = [UInt8](repeating: 0, count: 1 << 20)
        #expect(readAll(ends[0], &bytes) == 1 << 20)
        try await pipe.flush()
        close(ends[0])
        close(ends[1])
    }
}
