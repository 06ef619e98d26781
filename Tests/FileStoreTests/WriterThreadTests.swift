import Glibc
import HaulHTTP
import HaulStorage
import HaulTestSupport
import Testing

@testable import HaulFileStore

@Suite("The writer threads")
struct WriterThreadTests {
    /// Two files of one writer with two threads. Writes are counted when they begin, and held until the gate is opened.
    private final class Bench: Sendable {
        let gate = Latch()
        let began: Shared<[Int32: Int]>
        let diskWriter: DiskWriter
        let files: [OutputFile]

        init() {
            let (gate, began) = (gate, Shared([Int32: Int]()))
            diskWriter = DiskWriter(blocks: 8, writers: 2) { descriptor, bytes, count, offset in
                began.change { $0[descriptor, default: 0] += 1 }
                gate.wait()
                return pwrite(descriptor, bytes, count, Int(offset))
            }
            self.began = began
            files = [diskWriter, diskWriter].map { OutputFile(descriptor: temporaryDescriptor(), diskWriter: $0) }
        }

        /// Hands `count` blocks of 5,000 bytes to the writers.
        func submit(_ count: Int, to file: OutputFile) async throws -> FileWriter {
            let writer = FileWriter(file: file, offset: 0) {}
            for start in stride(from: 0, to: count * 5000, by: 5000) {
                try await feed(testBytes(5000, from: start), to: writer)
                writer.handOver()
            }
            return writer
        }

        func writes(of file: OutputFile) -> Int { began.value[file.descriptor] ?? 0 }
    }

    @Test("a file with much to write leaves a thread for another file") func oneEach() async throws {
        let bench = Bench()
        let (long, short) = (bench.files[0], bench.files[1])
        let first = try await bench.submit(4, to: long)
        try await eventually { bench.writes(of: long) == 1 }
        let second = try await bench.submit(1, to: short)
        try await eventually { bench.writes(of: short) == 1 }
        #expect(bench.writes(of: long) == 1)
        bench.gate.open()
        try? await first.finish()
        try? await second.finish()
        #expect(contents(long.descriptor) == testBytes(20_000))
        #expect(contents(short.descriptor) == testBytes(5000))
    }

    @Test("both threads write the same file if the disk is slow") func slowDisk() async throws {
        let bench = Bench()
        // The moving average takes an eighth of the sample.
        bench.diskWriter.recordDirectWrite(1_000_000_000)
        let file = bench.files[0]
        let writer = try await bench.submit(4, to: file)
        try await eventually { bench.writes(of: file) == 2 }
        bench.gate.open()
        try? await writer.finish()
        #expect(contents(file.descriptor) == testBytes(20_000))
    }
}
