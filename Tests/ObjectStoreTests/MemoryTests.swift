import Foundation
import HaulContract
import HaulStorage
import HaulTestSupport
import Testing

@testable import HaulHTTP
@testable import HaulObjectStore

/// Which files get memory for their parts when there is not enough for all.
@Suite struct MemoryTests {
    private func reserve(
        _ memory: PartMemory, _ owner: UInt64, _ woken: Shared<[UInt64]> = Shared([])
    ) -> PartMemory.Reservation? {
        memory.reserve(10, for: owner, spill: {}) {
            woken.change { $0.append(owner) }
            return true
        }
    }

    @Test("a file that has begun a part gets memory before a file that has nothing") func begunFirst() async throws {
        let memory = PartMemory(limit: 20, limitForFile: 100)
        let (first, second, third) = (memory.newOwner(), memory.newOwner(), memory.newOwner())
        _ = try #require(reserve(memory, first))
        let held = try #require(reserve(memory, second))
        let woken = Shared<[UInt64]>([])
        #expect(reserve(memory, third, woken) == nil && reserve(memory, first, woken) == nil)
        memory.release(held)
        try await eventually("both to be woken") { woken.value.count == 2 }
        #expect(woken.value == [first, third])
    }

    @Test("a file that has nothing gets no free memory while a file that has begun waits for it") func turn() throws {
        let memory = PartMemory(limit: 25, limitForFile: 100)
        let (first, second) = (memory.newOwner(), memory.newOwner())
        let one = try #require(reserve(memory, first))
        _ = try #require(reserve(memory, first))
        #expect(reserve(memory, first) == nil)
        // Half of the memory of a part.
        #expect(memory.reserve(5, for: second, spill: {}, orCall: { true }) == nil)
        memory.release(one)
        #expect(reserve(memory, second) != nil, "the first file was woken and has not tried again")
    }

    @Test("a caller that retries by itself counts as one waiter, however often it tries") func polling() throws {
        let memory = PartMemory(limit: 10, limitForFile: 100)
        let (first, second) = (memory.newOwner(), memory.newOwner())
        let held = try #require(reserve(memory, first))
        for _ in 0..<100 { #expect(memory.reserve(10, for: second, spill: {}, orCall: nil) == nil) }
        #expect(memory.waiters == 1)
        memory.release(held)
        #expect(memory.waiters == 0 && memory.reserve(10, for: second, spill: {}, orCall: nil) != nil)
    }

    @Test("a part of which a byte comes now and then has a bounded number of tails") func drips() throws {
        let memory = PartMemory(limit: 10, limitForFile: 10)
        let buffer = PartBuffer(
            1, 0..<1 << 20, try #require(reserve(memory, memory.newOwner())), in: PagePool(limit: 1 << 20))
        withUnsafeBytes(of: 7 as UInt8) { buffer.copy($0.baseAddress!, to: 0..<1) }
        buffer.lastSaved = .now - .seconds(301)
        #expect(ObjectPartial.isSlow(buffer, tails: 31))
        #expect(!ObjectPartial.isSlow(buffer, tails: 32))
        // Larger tails are few.
        let piece = [UInt8](repeating: 7, count: 1 << 15)
        piece.withUnsafeBytes { buffer.copy($0.baseAddress!, to: 0..<1 << 15) }
        #expect(ObjectPartial.isSlow(buffer, tails: 32))
    }

    @Test("a file that waits for its own memory keeps no other file from memory") func ownShare() throws {
        let memory = PartMemory(limit: 30, limitForFile: 10)
        let (first, second) = (memory.newOwner(), memory.newOwner())
        _ = try #require(reserve(memory, first))
        #expect(reserve(memory, first) == nil)
        #expect(reserve(memory, second) != nil)
    }
}

/// The bytes that a kill costs.
@Suite struct UnacknowledgedTests {
    /// A store that acknowledges no part.
    private static func server(_ latch: Latch) -> RawServer {
        RawServer { connection in
            while let head = connection.readRequest() {
                let line = String(head.prefix { $0 != "\r\n" })
                if line.contains("partNumber=") { return latch.wait() }
                let length = head.lowercased().split(separator: "\r\n").first { $0.hasPrefix("content-length:") }
                let count = length.flatMap { Int($0.dropFirst(15).trimmingCharacters(in: .whitespaces)) } ?? 0
                guard connection.readBody(count) != nil else { return }
                let body =
                    switch true {
                    case line.hasPrefix("POST "):
                        "<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>"
                    case line.contains("list-type="): "<ListBucketResult></ListBucketResult>"
                    default: ""
                    }
                let status = line.hasPrefix("HEAD ") ? "404 Not Found" : "200 OK"
                connection.send(
                    "HTTP/1.1 \(status)\r\nETag: \"e\"\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)")
            }
        }
    }

    @Test(
        "a kill costs no more than 64 MiB of a file, those in the receive buffers of its connections included",
        arguments: [1, 100, 250, 500] as [Int64])
    func bound(_ gibibytes: Int64) async throws {
        let latch = Latch()
        let server = Self.server(latch)
        defer {
            latch.open()
            server.stop()
        }
        let address = try BucketAddress("s3://test/x", endpoint: "http://127.0.0.1:\(server.port)")
        let environment = ["AWS_ACCESS_KEY_ID": "testkey", "AWS_SECRET_ACCESS_KEY": "testsecret"]
        let store = ObjectStore(address, environment: { environment[$0] }, isReadable: { _ in false })
        let request = FileRequest(
            key: MultipartFile.key, runToken: "1", isNew: true, path: "film", ifExists: .overwrite, completed: nil,
            lease: RunLease(isHeld: { true }, confirm: { true }))
        let partial = store.begin(request, generation: "1", suggested: "x")
        try await partial.open(total: gibibytes << 30, hashing: nil, with: [])
        let piece = [UInt8](repeating: 7, count: 16 << 10)
        for number in 0..<partial.maxSinks {
            let sink = partial.sink(at: Int64(number) * 2 * partial.alignment) { true }
            while case .accepted = piece.withUnsafeBytes({ sink.append($0.baseAddress!, $0.count) }) {}
        }
        #expect(partial.written.count > 28 << 20)
        // libcurl and OpenSSL have a little more than the receive buffer.
        let buffers = partial.maxSinks * (HandlePool.maxBuffer + 64 << 10)
        #expect(Int(partial.written.count) + buffers <= ObjectStore.maxUnacknowledged)
        await partial.discard(soon: false)
    }
}

/// Where the memory of parts comes from.
@Suite struct PagePoolTests {
    private static let part = 1 << 20

    @Test("the pages of a finished part serve the next one") func reuse() {
        let pool = PagePool(limit: 4 * Self.part)
        let (first, second) = (pool.take(Self.part), pool.take(Self.part))
        pool.recycle(first, Self.part, isFast: true)
        #expect(pool.take(Self.part) == first)
        pool.recycle(first, Self.part, isFast: true)
        pool.recycle(second, Self.part, isFast: true)
    }

    @Test("nothing stays mapped when no part holds memory") func idle() {
        let pool = PagePool(limit: 4 * Self.part)
        let all = (0..<3).map { _ in pool.take(Self.part) }
        #expect(pool.mapped == 3 * Self.part)
        for pages in all { pool.recycle(pages, Self.part, isFast: true) }
        #expect(pool.mapped == 0)
    }

    @Test("the pages of a slow part are not retained") func slow() {
        let pool = PagePool(limit: 4 * Self.part)
        let (first, second) = (pool.take(Self.part), pool.take(Self.part))
        pool.recycle(first, Self.part, isFast: false)
        #expect(pool.mapped == Self.part)
        pool.recycle(second, Self.part, isFast: true)
    }

    @Test("nothing stays mapped when the last part was a slow one") func slowLast() {
        let pool = PagePool(limit: 4 * Self.part)
        let (fast, slow) = (pool.take(Self.part), pool.take(Self.part))
        pool.recycle(fast, Self.part, isFast: true)
        #expect(pool.mapped == 2 * Self.part)
        pool.recycle(slow, Self.part, isFast: false)
        #expect(pool.mapped == 0)
    }

    @Test("free pages of one size are released for parts of another") func otherSize() {
        let pool = PagePool(limit: 4 * Self.part)
        let all = (0..<4).map { _ in pool.take(Self.part) }
        for pages in all.dropFirst() { pool.recycle(pages, Self.part, isFast: true) }
        let large = pool.take(3 * Self.part)
        #expect(pool.mapped == 4 * Self.part)
        pool.recycle(large, 3 * Self.part, isFast: true)
        pool.recycle(all[0], Self.part, isFast: true)
        #expect(pool.mapped == 0)
    }
}
