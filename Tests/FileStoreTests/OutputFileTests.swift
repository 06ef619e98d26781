import Dispatch
import Glibc
import HaulContract
import HaulHTTP
import HaulStorage
import HaulTestSupport
import Synchronization
import Testing

@testable import HaulFileStore
@testable import HaulHTTP

@Suite("The output file")
struct OutputFileTests {
    /// A writer that counts each write when it begins, and holds it until the latch is opened.
    private func heldWriter(until gate: Latch, _ began: Shared<Int> = Shared(0)) -> DiskWriter {
        DiskWriter(blocks: 2) { descriptor, bytes, count, offset in
            began.change { $0 += 1 }
            gate.wait()
            return pwrite(descriptor, bytes, count, Int(offset))
        }
    }

    @Test("several writers at odd offsets, with checkpoints in between, leave exactly their bytes")
    func writers() async throws {
        let diskWriter = DiskWriter(blocks: 4, smallBlocks: 4)
        let file = OutputFile(descriptor: temporaryDescriptor(), diskWriter: diskWriter)
        let all = testBytes(9_000_000)
        let edges = [0, 1_234_567, 3_000_000, 6_000_001, 9_000_000]
        try await withThrowingTaskGroup { group in
            for (start, end) in zip(edges, edges.dropFirst()) {
                group.addTask {
                    let writer = FileWriter(file: file, offset: Int64(start)) {}
                    try await feed(Array(all[start..<end]), to: writer)
                    try? await writer.finish()
                }
            }
            group.addTask {
                for _ in 0..<20 {
                    let durable = try await file.checkpoint()
                    for interval in durable.intervals {
                        let range = Int(interval.lowerBound)..<Int(interval.upperBound)
                        #expect(Array(contents(file.descriptor)[range]) == Array(all[range]))
                    }
                }
            }
            try await group.waitForAll()
        }
        #expect(file.written == ByteIntervals([0..<9_000_000]))
        #expect(try await file.checkpoint() == ByteIntervals([0..<9_000_000]))
        #expect(contents(file.descriptor) == all)
    }

    @Test("a checkpoint reports only bytes whose pwrite has returned, and includes half-filled blocks")
    func checkpoint() async throws {
        let (gate, writes) = (Latch(), Shared(0))
        let file = OutputFile(
            descriptor: temporaryDescriptor(), diskWriter: heldWriter(until: gate, writes),
            written: ByteIntervals([0..<10]))
        let writer = FileWriter(file: file, offset: 10) {}
        try await feed(testBytes(5000), to: writer)
        let checkpoint = Task { try await file.checkpoint() }
        try await eventually { writes.value == 1 }
        #expect(file.written == ByteIntervals([0..<10]))
        #expect(file.durable == ByteIntervals([0..<10]))
        gate.open()
        #expect(try await checkpoint.value == ByteIntervals([0..<5010]))
        #expect(file.durable == ByteIntervals([0..<5010]))
        try? await writer.finish()
    }

    @Test("a full disk is distinguished from other errors, stays with the file, and loses no earlier bytes")
    func diskFull() async throws {
        let diskWriter = DiskWriter(blocks: 2) { descriptor, bytes, count, offset in
            guard offset < 131_072 else {
                errno = ENOSPC
                return -1
            }
            // A short write, as on a disk that is nearly full.
            return pwrite(descriptor, bytes, min(count, 5000), Int(offset))
        }
        let file = OutputFile(descriptor: temporaryDescriptor(), diskWriter: diskWriter)
        let writer = FileWriter(file: file, offset: 0) {}
        await #expect(throws: TransferError.self) {
            for _ in 0..<100 {
                try await feed(testBytes(65_536), to: writer)
                try await file.checkpoint()
            }
        }
        try? await writer.finish()
        #expect(file.error == TransferError.noSpace)
        #expect(file.durable == ByteIntervals([0..<131_072]))
        await #expect(throws: TransferError.noSpace) { try await file.checkpoint() }
    }

    @Test("a real full device is reported as a full disk")
    func fullDevice() async throws {
        let file = OutputFile(descriptor: open("/dev/full", O_RDWR), diskWriter: DiskWriter(blocks: 2))
        let writer = FileWriter(file: file, offset: 0) {}
        try await feed(testBytes(1000), to: writer)
        try? await writer.finish()
        #expect(file.error == .noSpace)
        #expect(file.written.isEmpty)
    }

    @Test("a write error fails the transfer", arguments: [(EIO, ErrorCode.io), (EROFS, .permission)])
    func writeError(_ systemError: Int32, _ code: ErrorCode) async throws {
        let server = RawServer { connection in
            _ = connection.readRequest()
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
            connection.send(testBytes(100_000))
        }
        defer { server.stop() }
        let diskWriter = DiskWriter(blocks: 2) { _, _, _, _ in
            errno = systemError
            return -1
        }
        let file = OutputFile(descriptor: temporaryDescriptor(), diskWriter: diskWriter)
        let engine = localEngine()
        let error = await thrown { () async throws(TransferError) in
            try await engine.start(localRequest(server.url)).receive(into: file, at: 0)
        }
        #expect(error?.code == code)
    }

    @Test("each errno of a file has its code, and a message that starts with what failed")
    func meanings() {
        let table: [(ErrorCode?, [Int32])] = [
            (nil, [ENOSPC, EDQUOT]), (.tooLarge, [EFBIG]), (.permission, [EACCES, EPERM, EROFS]),
            (.pathForbidden, [EXDEV, ELOOP]), (.fileExists, [ENOTDIR]), (.badJob, [ENAMETOOLONG]),
            (.localLimit, [EMFILE, ENFILE, ENOMEM]), (.io, [EIO, ENOENT, ESTALE, EINVAL, EUCLEAN, ENXIO, ETIMEDOUT]),
        ]
        for (code, errors) in table {
            for systemError in errors {
                let error = TransferError(file: "it cannot be done", systemError)
                #expect(error.code == code, "\(systemError)")
                #expect(code == nil ? error == .noSpace : error.message?.hasPrefix("it cannot be done: ") == true)
            }
        }
    }

    @Test("reserving takes space without changing the length, and truncating frees it")
    func reserve() async throws {
        let descriptor = temporaryDescriptor()
        let file = OutputFile(descriptor: descriptor, diskWriter: DiskWriter(blocks: 1))
        try file.reserve(10 << 20)
        var status = stat()
        fstat(descriptor, &status)
        #expect(status.st_size == 0)
        #expect(status.st_blocks * 512 >= 10 << 20)
        try file.truncate(to: 0)
        fstat(descriptor, &status)
        #expect(status.st_blocks * 512 < 1 << 20)
    }

    @Test("a length that is only announced reserves 256 MiB, and further parts follow the bytes that arrive")
    func reserveAhead() async throws {
        let descriptor = temporaryDescriptor()
        let file = OutputFile(descriptor: descriptor, diskWriter: DiskWriter(blocks: 1))
        func allocated() -> Int {
            var status = stat()
            fstat(descriptor, &status)
            return Int(status.st_blocks) * 512
        }
        try file.reserve(1 << 30)
        #expect(allocated() >= 256 << 20 && allocated() < 300 << 20)
        #expect(file.reserveAhead(of: 100 << 20) == nil)
        #expect(allocated() < 300 << 20)
        #expect(file.reserveAhead(of: 100 << 20) == nil)
        #expect(allocated() >= 456 << 20, "\(allocated())")
        try file.truncate(to: 0)
    }

    @Test("a further part that leaves too little free is a full disk")
    func reserveTooFarAhead() async throws {
        let file = OutputFile(descriptor: temporaryDescriptor(), diskWriter: DiskWriter(blocks: 1))
        try file.reserve(1 << 30)
        file.reservation.withLock { $0.minFree = 1 << 60 }
        #expect(file.reserveAhead(of: 1 << 20) == nil)
        #expect(file.reserveAhead(of: 200 << 20) == ENOSPC)
        try file.truncate(to: 0)
    }

    @Test("what is reserved grows with what has arrived, and is at most half of what is free")
    func reservationGoal() {
        func goal(_ size: Int64, _ arrived: Int64, _ free: Int64?) -> Int64 {
            Reservation.targetEnd(of: size << 20, arrived: arrived << 20, free: free.map { $0 << 20 }) >> 20
        }
        #expect(goal(100, 0, 1000) == 100)
        #expect(goal(100_000, 0, 1_000_000) == 256)
        #expect(goal(100_000, 100, 1_000_000) == 1700)
        #expect(goal(100_000, 10_000, 1_000_000) == 100_000)
        #expect(goal(100_000, 10_000, 20_000) == 20_000)
        #expect(goal(100_000, 10_000, nil) == 100_000)
        #expect(Reservation.targetEnd(of: .max, arrived: .max, free: nil) > 0)
    }

    @Test("a file that can never fit is too large, and one that does not fit now is a full disk")
    func reserveTooMuch() async throws {
        let file = OutputFile(descriptor: temporaryDescriptor(), diskWriter: DiskWriter(blocks: 1))
        let never = #expect(throws: TransferError.self) { try file.reserve(1 << 60) }
        #expect(never?.code == .tooLarge)
        guard case .failed(let failure)? = never else { return }
        #expect(failure.dependsOnWorker)
        let later = #expect(throws: TransferError.self) { try file.reserve(1, minFree: 1 << 60) }
        #expect(later == .noSpace)
        #expect(file.error == nil)
    }

    @Test("many transfers with one block wait for it in order, and all end whole")
    func starvation() async throws {
        let body = testBytes(400_000)
        let server = RawServer { connection in
            _ = connection.readRequest()
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: 400000\r\n\r\n")
            connection.send(body)
        }
        defer { server.stop() }
        let diskWriter = DiskWriter(blocks: 1, smallBlocks: 2, writers: 1) { descriptor, bytes, count, offset in
            usleep(500)
            return pwrite(descriptor, bytes, count, Int(offset))
        }
        let engine = localEngine()
        try await withThrowingTaskGroup { group in
            for _ in 0..<40 {
                group.addTask {
                    let file = OutputFile(
                        descriptor: temporaryDescriptor(), diskWriter: diskWriter, durability: .process)
                    let end = try await engine.start(localRequest(server.url)).receive(into: file, at: 0)
                    #expect(end.bytes == 400_000)
                    #expect(contents(file.descriptor) == body)
                }
            }
            try await group.waitForAll()
        }
        #expect(await engine.count == 0)
    }

    @Test(
        "the running digest is the digest of the file, in order or not",
        arguments: Job.Checksum.Algorithm.allCases, [true, false])
    func digest(_ algorithm: Job.Checksum.Algorithm, _ inOrder: Bool) async throws {
        let bytes = testBytes(3_000_000)
        let file = OutputFile(
            descriptor: temporaryDescriptor(), diskWriter: DiskWriter(blocks: 4), digest: inOrder ? algorithm : nil)
        let later = FileWriter(file: file, offset: 1_000_001) {}
        let first = FileWriter(file: file, offset: 0) {}
        try await feed(Array(bytes[1_000_001...]), to: later)
        try await feed(Array(bytes[..<1_000_001]), to: first)
        try? await later.finish()
        try? await first.finish()
        let expected = RunningDigest(algorithm, diskWriter: DiskWriter(blocks: 1))
        let copy = temporaryDescriptor()
        _ = pwrite(copy, bytes, bytes.count, 0)
        await file.waitForDigest()
        let digest = try file.digest(algorithm, size: 3_000_000)
        #expect(digest == (try expected.finish(reading: copy, to: 3_000_000, dropCache: false)))
        Glibc.close(copy)
    }

    @Test(
        "the digest covers overwritten bytes as they are in the file", arguments: [true, false])
    func writtenOver(_ isLast: Bool) async throws {
        let (first, other) = (testBytes(400_000), testBytes(400_000, from: 7_000_000))
        let file = OutputFile(
            descriptor: temporaryDescriptor(), diskWriter: DiskWriter(blocks: 4, writers: 1), digest: .sha256)
        let (running, late) = (FileWriter(file: file, offset: 0) {}, FileWriter(file: file, offset: 300_000) {})
        if isLast {
            try await feed(first, to: running)
            try? await running.finish()
            try await feed(Array(other[..<50_000]), to: late)
            try? await late.finish()
        } else {
            try await feed(Array(other[..<50_000]), to: late)
            try? await late.finish()
            try await feed(first, to: running)
            try? await running.finish()
        }
        await file.waitForDigest()
        let copy = temporaryDescriptor()
        _ = pwrite(copy, contents(file.descriptor), 400_000, 0)
        let expected = try RunningDigest(.sha256, diskWriter: DiskWriter(blocks: 1))
            .finish(reading: copy, to: 400_000, dropCache: false)
        #expect(try file.digest(.sha256, size: 400_000) == expected)
        Glibc.close(copy)
    }

    @Test("sha256 is right for no bytes and for abc")
    func knownDigests() async throws {
        let file = OutputFile(descriptor: temporaryDescriptor(), diskWriter: DiskWriter(blocks: 1), digest: .sha256)
        #expect((try file.digest(.sha256, size: 0)).hasPrefix("e3b0c44298fc1c149afbf4c8996fb924"))
        let writer = FileWriter(file: file, offset: 0) {}
        try await feed(Array("abc".utf8), to: writer)
        try? await writer.finish()
        await file.waitForDigest()
        #expect((try file.digest(.sha256, size: 3)).hasPrefix("ba7816bf8f01cfea414140de5dae2223"))
    }

    @Test("a released file is closed after its last block is written")
    func drop() async throws {
        let gate = Latch()
        // The other end shows whether the descriptor is open. Its number does not: the number may be reused.
        var ends: [Int32] = [0, 0]
        // With CLOEXEC no child of another test holds the descriptor open.
        socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0, &ends)
        defer { close(ends[0]) }
        do {
            let file = OutputFile(descriptor: ends[1], diskWriter: heldWriter(until: gate))
            let writer = FileWriter(file: file, offset: 0) {}
            try await feed(testBytes(1000), to: writer)
            writer.end()
        }
        var poll = pollfd(fd: ends[0], events: 0, revents: 0)
        #expect(Glibc.poll(&poll, 1, 0) == 0)
        gate.open()
        try await eventually { Glibc.poll(&poll, 1, 0) == 1 && poll.revents & Int16(POLLHUP) != 0 }
    }

    @Test("the kernel reports lost bytes to one of two concurrent syncs, and neither sync succeeds")
    func reportedOnce() async throws {
        let calls = Shared(0)
        let second = DispatchSemaphore(value: 0)
        let diskWriter = DiskWriter(
            blocks: 2,
            sync: { _ in
                let number = calls.change { count in
                    count += 1
                    return count
                }
                guard number == 1 else {
                    second.signal()
                    return 0
                }
                // This sync lasts until the other one has ended, if the other one does not wait for it.
                _ = second.wait(timeout: .now() + 0.3)
                return EIO
            })
        let file = OutputFile(descriptor: temporaryDescriptor(), diskWriter: diskWriter)
        let writer = FileWriter(file: file, offset: 0) {}
        try await feed(testBytes(5000), to: writer)
        try? await writer.finish()
        let first = Task { await thrown { () throws(TransferError) in try await file.checkpoint() } }
        try await eventually { calls.value == 1 }
        let error = await thrown { () throws(TransferError) in try await file.checkpoint() }
        #expect(error?.code == .io)
        #expect(await first.value?.code == .io)
        #expect(file.durable == ByteIntervals())
    }

    @Test("a failed sync stays with the file, and nothing is durable after it")
    func failedSync() async throws {
        // A device that accepts every write and refuses every sync.
        let file = OutputFile(descriptor: open("/dev/null", O_RDWR), diskWriter: DiskWriter(blocks: 2))
        let writer = FileWriter(file: file, offset: 0) {}
        try await feed(testBytes(1000), to: writer)
        let first = await #expect(throws: TransferError.self) { try await file.checkpoint() }
        #expect(first?.code == .io)
        #expect(first?.message?.contains("sync") == true)
        await #expect(throws: TransferError.self) { try await file.checkpoint() }
        #expect(file.durable.isEmpty)
        try? await writer.finish()
    }
}
