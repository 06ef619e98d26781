import HaulContract
import HaulExecutors
import HaulTestSupport
import Testing

@testable import HaulFileStore
@testable import HaulHTTP

@Suite("Limits of rate")
struct LimitTests {
    /// Sends without end, as fast as it is read.
    private let server = RawServer { connection in
        guard connection.readRequest() != nil else { return }
        connection.send("HTTP/1.1 200 OK\r\nContent-Length: 100000000000\r\n\r\n")
        let bytes = testBytes(100_000)
        while connection.send(bytes) {}
    }

    @Test("a bucket gives its rate, and at most a tenth of a second at once")
    func bucket() {
        let bucket = TokenBucket(bytesPerSecond: 1000)
        let start = monotonicNanoseconds() + 10_000_000_000
        #expect(bucket.share(start) == 100)
        bucket.take(600)
        #expect(!bucket.isOpen(start + 499_000_000))
        #expect(bucket.isOpen(start + 502_000_000))
        bucket.setRate(bytesPerSecond: 10)
        #expect(bucket.bytesPerSecond == 10)
    }

    @Test("a share that is lent ends at its time, and gives no credit for the time without a limit")
    func lent() {
        let bucket = TokenBucket()
        let start = monotonicNanoseconds()
        bucket.take(1_000_000)
        #expect(bucket.isOpen(start) && bucket.isUnlimited && bucket.share(start) == .max && bucket.portion == .max)
        #expect(bucket.use().taken == 1_000_000)
        bucket.lend(bytesPerSecond: 1000, until: start + 20_000_000_000)
        #expect(!bucket.isUnlimited && bucket.bytesPerSecond == 1000)
        #expect(bucket.share(start + 10_000_000_000) == 100)
        #expect(!bucket.isOpen(start + 20_000_000_000))
        #expect(!bucket.isOpen(start + 90_000_000_000))
        bucket.join()
        #expect(bucket.use().wasShort && bucket.hasWaiting)
        bucket.leave()
        #expect(bucket.use().wasShort == false || bucket.hasWaiting)
        bucket.lend(bytesPerSecond: 0, until: .max)
        #expect(!bucket.isOpen(start + 200_000_000_000))
        bucket.lift()
        #expect(bucket.isOpen(start + 200_000_000_001) && bucket.isUnlimited)
    }

    @Test("transfers get the rate and no more, shared evenly", arguments: [1, 8])
    func rate(_ count: Int) async throws {
        defer { server.stop() }
        let engine = localEngine()
        let path = WritePath(blocks: 2)
        let shared = TokenBucket(bytesPerSecond: 2_000_000)
        let transfers = try await withThrowingTaskGroup(of: Transfer.self) { group in
            for _ in 0..<count {
                group.addTask {
                    var request = localRequest(server.url)
                    request.limits = [shared, TokenBucket(bytesPerSecond: 50_000_000)]
                    return try await engine.start(request)
                }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        let start = ContinuousClock.now
        for transfer in transfers {
            Task {
                try await transfer.receive(into: OutputFile(descriptor: temporaryDescriptor(), path: path))
            }
        }
        // What two seconds of the rate bring, however slow the machine is.
        var received: [Double] = []
        try await eventually("the bytes to arrive") {
            received = transfers.map { Double($0.progress.received) }
            return received.reduce(0, +) >= 4_000_000
        }
        let elapsed = Double((ContinuousClock.now - start).milliseconds) / 1000
        #expect(received.reduce(0, +) / elapsed / 2_000_000 < 1.2)
        let mean = received.reduce(0, +) / Double(count)
        #expect(received.allSatisfy { (0.3...2).contains($0 / mean) }, "\(received)")
        for transfer in transfers { transfer.cancel() }
        // Nobody is left in the line, where others would wait behind them.
        try await eventually { await engine.count == 0 }
        #expect(!shared.hasWaiting)
    }

    @Test("waiting for a limit is no stall")
    func noStall() async throws {
        defer { server.stop() }
        var request = localRequest(server.url)
        // A chunk of 16 KiB takes longer than the server may be silent, which is longer than a slow machine takes to answer.
        request.limits = [TokenBucket(bytesPerSecond: 4_000)]
        request.stallTimeout = .seconds(3)
        let file = OutputFile(descriptor: temporaryDescriptor(), path: WritePath(blocks: 1))
        let end = try await localEngine().start(request).receive(into: file, at: 0, length: 20_000)
        #expect(end.bytes == 20_000)
    }
}
