import Glibc
import HaulContract
import HaulFileStore
import HaulHTTP
import HaulTestSupport
import Testing

/// An engine that may connect to loopback, and a file for its output.
private struct Bench {
    let directory = TemporaryDirectory()
    let engine: TransferEngine
    let output: OutputFile

    init(policy: AddressPolicy = .unrestricted, durability: Durability = .disk) {
        var configuration = TransferEngine.Configuration()
        configuration.policy = policy
        let diskWriter = DiskWriter(blocks: 4)
        engine = TransferEngine(configuration: configuration)
        let descriptor = open(directory.file("out"), O_RDWR | O_CREAT, 0o600)
        output = OutputFile(descriptor: descriptor, diskWriter: diskWriter, durability: durability)
    }

    /// The timeouts are far above what a loaded machine needs.
    func request(_ url: String, stallTimeout: Duration = .seconds(20)) -> HTTPRequest {
        var request = HTTPRequest(url: url)
        request.stallTimeout = stallTimeout
        request.connectTimeout = .seconds(20)
        return request
    }

    func fetch(
        _ url: String, at offset: Int64 = 0, length: Int64? = nil, stallTimeout: Duration = .seconds(20)
    ) async throws -> TransferEnd {
        let transfer = try await engine.start(request(url, stallTimeout: stallTimeout))
        let end = try await transfer.receive(into: output, at: offset, length: length)
        _ = try await output.checkpoint()
        return end
    }

    /// The error code of a fetch that fails. nil if it succeeds.
    func failure(_ url: String, length: Int64? = nil, stallTimeout: Duration = .seconds(20)) async -> ErrorCode? {
        do { _ = try await fetch(url, length: length, stallTimeout: stallTimeout) } catch {
            if case .failed(let failure)? = error as? TransferError { return failure.code }
        }
        return nil
    }
}

@Suite struct TransferEngineTests {
    @Test(
        "a body arrives whole at its offset, through blocks of all sizes",
        arguments: [0, 1, 4095, 65_536, 65_537, 1_048_576, 9_000_001])
    func whole(_ count: Int) async throws {
        let bytes = FileBytes(seed: 1, count: Int64(count))
        let origin = try OriginServer { .file(bytes, to: $0) }
        let bench = Bench()
        let end = try await bench.fetch(origin.url("/a"), at: 5000, length: bytes.count)
        #expect(end.position == 5000 + bytes.count)
        #expect(bench.output.written.intervals == (count == 0 ? [] : [5000..<(5000 + bytes.count)]))
        if count > 0 { #expect(bench.directory.contents("out").map { Array($0.dropFirst(5000)) } == bytes.all) }
    }

    @Test("1xx responses before the head and trailers after the body are not part of the head")
    func informational() async throws {
        let origin = try OriginServer { _ in
            var reply = OriginReply(headers: [("ETag", "\"real\"")], body: [1, 2, 3])
            reply.preamble = "HTTP/1.1 103 Early Hints\r\nETag: \"early\"\r\n\r\n"
            reply.framing = .chunked
            reply.trailers = "ETag: \"late\"\r\n"
            return reply
        }
        let bench = Bench()
        let transfer = try await bench.engine.start(bench.request(origin.url("/a")))
        #expect(transfer.head.headers.all("etag") == ["\"real\""])
        #expect(transfer.head.length == .chunked)
        #expect(try await transfer.collect(limit: 10) == [1, 2, 3])
        #expect(transfer.head.headers.all("etag") == ["\"real\""])
    }

    @Test("connections are reused") func reuse() async throws {
        let origin = try OriginServer { _ in OriginReply(body: [1]) }
        let bench = Bench()
        for _ in 0..<20 { _ = try await bench.engine.start(bench.request(origin.url("/a"))).collect(limit: 10) }
        #expect(origin.connections == 1)
    }

    @Test("a body that is cut short is incomplete, by FIN and by RST", arguments: [OriginReply.End.fin, .reset])
    func cut(_ end: OriginReply.End) async throws {
        let origin = try OriginServer { _ in
            var reply = OriginReply(body: Array(repeating: 7, count: 100_000))
            reply.cut = 50_000
            reply.end = end
            return reply
        }
        #expect(await Bench().failure(origin.url("/a"), length: 100_000) == .incomplete)
    }

    @Test("fewer bytes than required are incomplete, even if the close ends the body") func closed() async throws {
        let origin = try OriginServer { _ in
            var reply = OriginReply(body: [1, 2, 3])
            reply.framing = .close
            return reply
        }
        #expect(await Bench().failure(origin.url("/a"), length: 4) == .incomplete)
        #expect(try await Bench().fetch(origin.url("/a")).position == 3)
    }

    @Test("bytes beyond the required length are not written") func overlong() async throws {
        let origin = try OriginServer { _ in OriginReply(body: Array(repeating: 1, count: 5000)) }
        let bench = Bench()
        #expect(try await bench.fetch(origin.url("/a"), length: 3000).position == 3000)
        #expect(bench.output.written.intervals == [0..<3000])
    }

    @Test("contradictory Content-Lengths are detected before the body") func contradiction() async throws {
        let origin = try OriginServer { _ in OriginReply(headers: [("Content-Length", "7")], body: [1, 2, 3]) }
        let bench = Bench()
        do {
            let transfer = try await bench.engine.start(bench.request(origin.url("/a")))
            #expect(transfer.head.length == .invalid)
        } catch {
            guard case .failed(let failure) = error else { return #expect(Bool(false)) }
            #expect(failure.code == .badResponse)
        }
    }

    @Test("a silent server is stalled, and a closed port is a connect error") func silence() async throws {
        let origin = try OriginServer { _ in
            var reply = OriginReply(body: Array(repeating: 7, count: 1000))
            reply.cut = 10
            reply.end = .silence
            return reply
        }
        #expect(await Bench().failure(origin.url("/a"), length: 1000, stallTimeout: .seconds(1)) == .stalled)
        #expect(await Bench().failure("http://127.0.0.1:1/") == .connect)
    }

    @Test("a server that accepts and never responds is stalled") func mute() async throws {
        let latch = Latch()
        let origin = try OriginServer { _ in
            latch.wait()
            return OriginReply()
        }
        #expect(await Bench().failure(origin.url("/a"), stallTimeout: .seconds(1)) == .stalled)
        latch.open()
    }

    @Test("the address policy is enforced where the socket is created") func policy() async throws {
        let origin = try OriginServer { _ in OriginReply(body: [1]) }
        #expect(await Bench(policy: .restricted()).failure(origin.url("/a")) == .addressForbidden)
        #expect(origin.connections == 0)
    }

    @Test("cancelling takes milliseconds") func cancel() async throws {
        let origin = try OriginServer { _ in
            var reply = OriginReply(body: Array(repeating: 7, count: 1000))
            reply.cut = 10
            reply.end = .silence
            return reply
        }
        let bench = Bench()
        let transfer = try await bench.engine.start(bench.request(origin.url("/a")))
        let receiving = Task { try await transfer.receive(into: bench.output, at: 0, length: 1000) }
        try await eventually { transfer.progress.received == 10 }
        let start = ContinuousClock.now
        receiving.cancel()
        await #expect(throws: TransferError.self) { try await receiving.value }
        // The bound rules out the stall limit of 20 s. It is far above what cancelling takes.
        #expect(ContinuousClock.now - start < .seconds(15))
    }

    @Test("many transfers share few blocks, and all bodies arrive") func starved() async throws {
        let bytes = FileBytes(seed: 3, count: 2_000_000)
        let origin = try OriginServer { .file(bytes, to: $0) }
        let bench = Bench(durability: .process)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for index in 0..<16 {
                group.addTask {
                    let transfer = try await bench.engine.start(bench.request(origin.url("/a")))
                    _ = try await transfer.receive(
                        into: bench.output, at: Int64(index) * bytes.count, length: bytes.count)
                }
            }
            try await group.waitForAll()
        }
        _ = try await bench.output.checkpoint()
        #expect(bench.output.written.intervals == [0..<(16 * bytes.count)])
        #expect(try bench.output.digest(.md5, size: bytes.count).count == 32)
    }

    @Test("a rate limit holds for two transfers together") func limit() async throws {
        let bytes = FileBytes(seed: 4, count: 300_000)
        let origin = try OriginServer { .file(bytes, to: $0) }
        let bench = Bench(durability: .process)
        let bucket = TokenBucket(bytesPerSecond: 400_000)
        let start = ContinuousClock.now
        try await withThrowingTaskGroup(of: Void.self) { group in
            for index in 0..<2 {
                group.addTask {
                    var request = bench.request(origin.url("/a"))
                    request.limits = [bucket]
                    _ = try await bench.engine.start(request).receive(
                        into: bench.output, at: Int64(index) * bytes.count, length: bytes.count)
                }
            }
            try await group.waitForAll()
        }
        // 600 KB at 400 KB/s never take less time, whatever the machine does.
        #expect(ContinuousClock.now - start > .milliseconds(1300))
    }
}
