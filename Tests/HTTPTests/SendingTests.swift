import HaulContract
import HaulTestSupport
import Synchronization
import Testing

@testable import HaulHTTP

/// A body that the test supplies step by step. Its source returns `wait` while no bytes are there.
private final class FedBody: BodySupply {
    private struct State {
        var bytes: [UInt8] = []
        var isComplete = false
        var error: TransferError?
        var wakes: [@Sendable () async -> Void] = []
        var sources = 0
        var ends = 0
    }

    private final class Source: BodySource {
        let body: FedBody
        let wake: @Sendable () async -> Void
        let position = Mutex(0)

        init(_ body: FedBody, _ wake: @escaping @Sendable () async -> Void) { (self.body, self.wake) = (body, wake) }

        func read(into buffer: UnsafeMutableRawBufferPointer) -> SourceResult {
            body.state.withLock { state in
                position.withLock { position in
                    if let error = state.error { return .failed(error) }
                    let count = min(buffer.count, state.bytes.count - position)
                    if count > 0 {
                        buffer.copyBytes(from: state.bytes[position..<(position + count)])
                        position += count
                        return .bytes(count)
                    }
                    if state.isComplete { return .end }
                    state.wakes.append(wake)
                    return .wait
                }
            }
        }

        func end() { body.state.withLock { $0.ends += 1 } }
    }

    let length: Int64?
    private let state = Mutex(State())

    init(_ bytes: [UInt8] = [], length: Int64? = nil, isComplete: Bool = true) {
        self.length = length
        state.withLock { ($0.bytes, $0.isComplete) = (bytes, isComplete) }
    }

    func source(wake: @escaping @Sendable () async -> Void) -> any BodySource {
        state.withLock { $0.sources += 1 }
        return Source(self, wake)
    }

    var isWaitedFor: Bool { state.withLock { !$0.wakes.isEmpty } }
    var sources: Int { state.withLock { $0.sources } }
    var ends: Int { state.withLock { $0.ends } }

    func feed(_ bytes: [UInt8], isLast: Bool = false, error: TransferError? = nil) async {
        let wakes = state.withLock { state in
            state.bytes += bytes
            (state.isComplete, state.error) = (isLast, error)
            defer { state.wakes = [] }
            return state.wakes
        }
        for wake in wakes { await wake() }
    }
}

@Suite("Request bodies")
struct SendingTests {
    private let engine = localEngine()

    private func request(_ url: String, _ body: FedBody, method: String = "PUT") -> (HTTPRequest, SendingProgress) {
        var request = localRequest(url)
        let progress = SendingProgress()
        (request.method, request.body, request.sending) = (method, .stream(body), progress)
        return (request, progress)
    }

    /// The error of a request that fails before or after its head. nil if it succeeds.
    private func failure(_ request: HTTPRequest) async -> TransferError? {
        do {
            _ = try await fetch(engine, request)
            return nil
        } catch { return error }
    }

    @Test("a body arrives whole, with its length or in chunks", arguments: [0, 1, 65_536, 5_000_001], [true, false])
    func whole(_ count: Int, isLengthKnown: Bool) async throws {
        let origin = try OriginServer { _ in OriginReply(201, body: Array("made".utf8)) }
        let bytes = FileBytes(seed: 7, count: Int64(count)).all
        let body = FedBody(bytes, length: isLengthKnown ? Int64(count) : nil)
        let (request, progress) = request(origin.url("/a"), body)
        let transfer = try await engine.start(request)
        #expect(transfer.head.status == 201)
        #expect(try await transfer.collect(limit: 100) == Array("made".utf8))
        let seen = try #require(origin.requests.first)
        #expect(seen.method == "PUT" && seen.body.isWhole && seen.body.bytes == bytes)
        #expect(seen.headers["content-length"] == (isLengthKnown ? "\(count)" : nil))
        #expect(seen.headers["transfer-encoding"] == (isLengthKnown ? nil : "chunked"))
        #expect(seen.headers["expect"] == nil && seen.headers["content-type"] == nil)
        #expect(progress.sent == Int64(count) && progress.hasBegun && !progress.isHeld)
        try await eventually("the source to be ended") { body.ends == body.sources }
    }

    @Test("a source without bytes is waited for, even longer than the stall limit")
    func waiting() async throws {
        let origin = try OriginServer { _ in OriginReply() }
        let body = FedBody(isComplete: false)
        var (request, progress) = request(origin.url("/a"), body, method: "POST")
        request.stallTimeout = .seconds(1)
        let answer = Task { [request] in try await fetch(engine, request) }
        try await eventually("the first wait") { body.isWaitedFor }
        #expect(progress.isHeld)
        // The wait itself is under test, so it must be longer than the limit.
        try await Task.sleep(for: .milliseconds(1500))
        await body.feed([1, 2, 3])
        try await eventually("the second wait") { body.isWaitedFor && progress.sent == 3 }
        await body.feed([4], isLast: true)
        _ = try await answer.value
        #expect(origin.requests.first?.body.bytes == [1, 2, 3, 4])
    }

    @Test("a source that fails, ends early or supplies too many bytes ends the request", arguments: [0, 1, 2])
    func failing(_ fault: Int) async throws {
        let origin = try OriginServer { _ in OriginReply() }
        let body = FedBody([1, 2], length: 3, isComplete: false)
        let (request, _) = request(origin.url("/a"), body)
        let answer = Task { await failure(request) }
        try await eventually("the first wait") { body.isWaitedFor }
        switch fault {
        case 0: await body.feed([], error: TransferError(.io, "the disk is broken"))
        case 1: await body.feed([], isLast: true)
        default: await body.feed([3, 4], isLast: true)
        }
        #expect(await answer.value?.code == (fault == 0 ? .io : .sourceChanged))
        try await eventually { body.ends == 1 }
        try await eventually { await engine.count == 0 }
        #expect(origin.requests.allSatisfy { !$0.body.isWhole })
    }

    @Test("a server that reads nothing is stalled, and a server that our own rate limit slows is not")
    func stalled() async throws {
        let latch = Latch()
        let origin = try OriginServer(intake: { request in
            var intake = OriginIntake()
            if request.path == "/stuck" { intake.hold = (1000, latch) }
            return intake
        }) { _ in OriginReply() }
        let bytes = FileBytes(seed: 3, count: 30 << 20).all
        var (stuck, _) = request(origin.url("/stuck"), FedBody(bytes, length: Int64(bytes.count)))
        stuck.stallTimeout = .seconds(1)
        let error = await failure(stuck)
        #expect(error?.code == .stalled && error?.message == "the server accepted nothing for 1 s")
        latch.open()
        var (slow, progress) = request(origin.url("/slow"), FedBody(Array(bytes.prefix(30_000)), length: 30_000))
        slow.stallTimeout = .seconds(1)
        slow.limits = [TokenBucket(bytesPerSecond: 10_000)]
        let begun = ContinuousClock.now
        #expect(await failure(slow) == nil)
        #expect(progress.sent == 30_000)
        #expect(ContinuousClock.now - begun > .milliseconds(2500))
    }

    @Test("sent bodies and received bodies share a rate limit, and leave its queue empty", arguments: [1, 6])
    func rate(_ count: Int) async throws {
        let file = FileBytes(seed: 1, count: 4 << 20)
        let origin = try OriginServer { $0.method == "GET" ? .file(file, to: $0) : OriginReply() }
        let shared = TokenBucket(bytesPerSecond: 2_000_000)
        let size = 4_000_000 / count
        let begun = ContinuousClock.now
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<count {
                group.addTask {
                    let bytes = FileBytes(seed: 9, count: Int64(size)).all
                    var (request, _) = request(origin.url("/\(number)"), FedBody(bytes, length: Int64(size)))
                    request.limits = [shared, TokenBucket(bytesPerSecond: 50_000_000)]
                    _ = try await fetch(engine, request)
                }
            }
            try await group.waitForAll()
        }
        let seconds = (ContinuousClock.now - begun).secondsValue
        #expect(4_000_000 / seconds / 2_000_000 < 1.2)
        #expect(seconds < 10)
        #expect(!shared.hasWaiting)
        try await eventually { await engine.count == 0 }
    }

    @Test("a large body is held back until the server asks for it", arguments: [100, 413, 417])
    func question(_ status: Int) async throws {
        let origin = try OriginServer(intake: { request in
            var intake = OriginIntake()
            switch status {
            case 413: intake.refusal = OriginReply(413, body: Array("too much".utf8))
            case 417 where request.headers["expect"] != nil: intake.refusal = OriginReply(417)
            default: intake.preamble = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
            }
            return intake
        }) { _ in OriginReply(201) }
        let bytes = FileBytes(seed: 5, count: 2 << 20).all
        var (request, progress) = request(origin.url("/a"), FedBody(bytes, length: Int64(bytes.count)))
        request.expectsContinue = true
        let transfer = try await engine.start(request)
        _ = try await transfer.collect(limit: 100)
        #expect(transfer.head.status == (status == 413 ? 413 : 201))
        #expect(origin.bytesReceived("/a") == (status == 413 ? 0 : Int64(bytes.count)))
        #expect(progress.totalSent == (status == 413 ? 0 : Int64(bytes.count)))
        #expect(origin.requests.count == (status == 417 ? 2 : 1))
    }

    @Test("a connection that breaks ends the sending")
    func ended() async throws {
        let origin = try OriginServer(intake: { request in
            var intake = OriginIntake()
            (intake.cut, intake.isReset) = (100_000, request.path == "/reset")
            return intake
        }) { _ in OriginReply() }
        let bytes = FileBytes(seed: 5, count: 8 << 20).all
        for path in ["/reset", "/fin"] {
            let body = FedBody(bytes, length: Int64(bytes.count))
            let (request, progress) = request(origin.url(path), body)
            #expect(await failure(request)?.code == .incomplete)
            #expect(progress.hasBegun)
            try await eventually { body.ends == 1 }
        }
    }

    @Test("bytes that the server's machine has not received when the response ends do not count as received")
    func unconfirmed() async throws {
        let sent = Latch()
        let server = RawServer { connection in
            connection.limitReceiving(to: 4096)
            _ = connection.readRequest()
            sent.wait()
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            connection.waitUntilReceived()
        }
        defer {
            sent.open()
            server.stop()
        }
        let bytes = FileBytes(seed: 6, count: 700_000).all
        var (request, progress) = request(server.url, FedBody(bytes, length: Int64(bytes.count)))
        request.expectsContinue = false
        let (asked, engine) = (request, engine)
        let task = Task { try? await fetch(engine, asked) }
        // The kernel takes all of the body at once.
        try await eventually("all bytes to be handed over") { progress.sent == bytes.count }
        sent.open()
        #expect(await task.value == Array("ok".utf8))
        #expect(progress.sent == bytes.count)
        #expect(progress.confirmed < 600_000, "\(progress.confirmed)")
    }

    @Test("the whole body counts as received once the server has read it")
    func confirmed() async throws {
        let origin = try OriginServer { _ in OriginReply(body: Array("ok".utf8)) }
        let bytes = FileBytes(seed: 7, count: 2_000_000).all
        let (request, progress) = request(origin.url("/a"), FedBody(bytes, length: Int64(bytes.count)))
        for _ in 0..<5 {
            _ = try await fetch(engine, request)
            #expect(progress.confirmed == bytes.count)
        }
    }

    @Test("bytes of the next request on the same connection do not count as missing from the body before")
    func nextRequest() async throws {
        let origin = try OriginServer { _ in OriginReply(body: Array("ok".utf8)) }
        let bytes = FileBytes(seed: 8, count: 5000).all
        try await withThrowingTaskGroup { group in
            for _ in 0..<8 {
                group.addTask { [self] in
                    for _ in 0..<100 {
                        let (request, progress) = request(origin.url("/a"), FedBody(bytes, length: 5000))
                        _ = try await fetch(engine, request)
                        #expect(progress.confirmed == 5000)
                    }
                }
            }
            try await group.waitForAll()
        }
        let progress = SendingProgress()
        progress.add(5000)
        progress.responded(unacknowledged: 100)
        progress.ended(unacknowledged: 215)
        #expect(progress.confirmed == 4900)
        progress.ended(unacknowledged: 0)
        #expect(progress.confirmed == 5000)
        progress.rewind()
        #expect(progress.confirmed == 0)
    }

    @Test("a server that closes its side without a response, and reads nothing more, is not waited for")
    func leftUnanswered() async throws {
        let done = Latch()
        let server = RawServer { connection in
            _ = connection.readRequest()
            _ = connection.peek(1000)
            connection.endSending()
            done.wait()
        }
        defer {
            done.open()
            server.stop()
        }
        let bytes = FileBytes(seed: 5, count: 30 << 20).all
        let body = FedBody(bytes, length: Int64(bytes.count))
        let (request, progress) = request(server.url, body)
        // The stall limit is much longer.
        let begun = ContinuousClock.now
        let error = await failure(request)
        #expect(error?.code == .incomplete && error?.message == "the server closed the connection without a response")
        #expect(ContinuousClock.now - begun < .seconds(20))
        #expect(progress.hasBegun && progress.sent < bytes.count)
        try await eventually("the source to be ended") { body.ends == body.sources }
    }

    @Test("a dead kept connection makes the body start over, unless it must be sent only once")
    func dead() async throws {
        let server = RawServer { connection in
            while let head = connection.readRequest() {
                if head.hasPrefix("GET") {
                    connection.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
                } else if connection.number == 1 {
                    // The body is in flight by now.
                    _ = connection.peek(3)
                    return
                } else {
                    _ = connection.peek(3)
                    connection.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                    return
                }
            }
        }
        defer { server.stop() }
        let url = "http://127.0.0.1:\(server.port)/file"
        _ = try await fetch(engine, localRequest(url))
        let body = FedBody([1, 2, 3], length: 3)
        let (again, progress) = request(url, body)
        _ = try await fetch(engine, again)
        #expect(body.sources == 2 && progress.sent == 3 && progress.totalSent == 6)
        // Such a body gets a connection of its own, and is sent once.
        _ = try await fetch(engine, localRequest(url))
        let before = server.connections
        var (once, _) = request(url, FedBody([1, 2, 3], length: 3))
        once.isSentOnce = true
        _ = try await fetch(engine, once)
        #expect(server.connections == before + 1)
    }

    @Test("a request that cannot have reached a server is reported as not begun")
    func unsent() async throws {
        let (request, progress) = request("http://127.0.0.1:1/", FedBody([1], length: 1))
        #expect(await failure(request)?.code == .connect)
        #expect(!progress.hasBegun && progress.sent == 0)
    }
}
