import Glibc
import HaulContract
import HaulHTTP
import HaulStorage
import HaulTestSupport
import Testing

@testable import HaulFileStore

@Suite("Streams that pause")
struct RestTests {
    @Test("more paused streams than there are blocks keep their bytes, and wait for nothing")
    func holders() async throws {
        let diskWriter = DiskWriter(blocks: 1, smallBlocks: 1)
        let file = OutputFile(descriptor: temporaryDescriptor(), diskWriter: diskWriter)
        let all = testBytes(200_000)
        let writers = (0..<20).map { FileWriter(file: file, offset: Int64($0) * 10_000) {} }
        for half in [0, 5000] {
            for (index, writer) in writers.enumerated() {
                let start = index * 10_000 + half
                let outcome = all[start..<start + 5000].withUnsafeBytes { writer.append($0.baseAddress!, 5000) }
                guard case .accepted = outcome else { return #expect(Bool(false), "no block") }
                writer.releaseMemory()
            }
        }
        // No stream had enough bytes for a write. A checkpoint writes them nevertheless.
        #expect(file.written == ByteIntervals())
        #expect(try await file.checkpoint() == ByteIntervals([0..<200_000]))
        for writer in writers { try? await writer.finish() }
        #expect(contents(file.descriptor) == all)
    }

    @Test("a remainder that spans the end of a large block of the file is whole", arguments: [1, 100, 4097, 20_000])
    func acrossTheEnd(_ before: Int) async throws {
        let diskWriter = DiskWriter(blocks: 2, smallBlocks: 1)
        let file = OutputFile(descriptor: temporaryDescriptor(), diskWriter: diskWriter)
        let offset = Block.largeSize - before
        let all = testBytes(60_000)
        let writer = FileWriter(file: file, offset: Int64(offset)) {}
        try await feed(Array(all[..<30_000]), to: writer)
        writer.releaseMemory()
        // The other writer takes the only small block, so a slow stream must use a large one.
        let other = FileWriter(file: OutputFile(descriptor: temporaryDescriptor(), diskWriter: diskWriter), offset: 0) {
        }
        try await feed([0], to: other)
        for start in stride(from: 30_000, to: all.count, by: 15_000) {
            try await feed(Array(all[start..<start + 15_000]), to: writer)
            writer.releaseMemory()
        }
        try? await writer.finish()
        try? await other.finish()
        #expect(file.written == ByteIntervals([Int64(offset)..<Int64(offset + all.count)]))
        #expect(Array(contents(file.descriptor).dropFirst(offset)) == all)
    }

    @Test("bytes that continue in a large block near its end are whole", arguments: [1, 4096, 12_288, 15_000])
    func shortlyBeforeTheEnd(_ before: Int) async throws {
        // The only small block ends so many bytes before a large block of the file would end.
        let diskWriter = DiskWriter(blocks: 2, smallBlocks: 1)
        let file = OutputFile(descriptor: temporaryDescriptor(), diskWriter: diskWriter)
        let offset = (Block.largeSize - before) / Block.alignment * Block.alignment - Block.smallSize
        let all = testBytes(Block.smallSize + 60_000)
        let writer = FileWriter(file: file, offset: Int64(offset)) {}
        for start in stride(from: 0, to: all.count, by: 15_000) {
            try await feed(Array(all[start..<min(start + 15_000, all.count)]), to: writer)
        }
        try? await writer.finish()
        #expect(file.written == ByteIntervals([Int64(offset)..<Int64(offset + all.count)]))
        #expect(Array(contents(file.descriptor).dropFirst(offset)) == all)
    }

    @Test(
        "paused streams write whole pages in between, and all bytes arrive", arguments: [0, 1, 4095, 70_001])
    func pages(_ offset: Int) async throws {
        let edges = Shared<[Int]>([])
        let diskWriter = DiskWriter(blocks: 1, smallBlocks: 2) { descriptor, bytes, count, offset in
            edges.change { $0.append(Int(offset) + count) }
            return pwrite(descriptor, bytes, count, Int(offset))
        }
        let file = OutputFile(descriptor: temporaryDescriptor(), diskWriter: diskWriter)
        let all = testBytes(700_000)
        let writer = FileWriter(file: file, offset: Int64(offset)) {}
        var (position, piece) = (0, 1)
        while position < all.count {
            let end = min(position + piece, all.count)
            try await feed(Array(all[position..<end]), to: writer)
            (position, piece) = (end, piece * 7 % 16_381 + 1)
            if piece % 3 == 0 { writer.releaseMemory() }
        }
        try await eventually { file.written.count > 600_000 }
        #expect(edges.value.allSatisfy { $0 % Block.alignment == 0 })
        try? await writer.finish()
        #expect(file.written == ByteIntervals([Int64(offset)..<Int64(offset + all.count)]))
        #expect(Array(contents(file.descriptor).dropFirst(offset)) == all)
    }
}
