import HaulContract
import HaulTestSupport
import Testing

@testable import HaulHTTP

/// The phases of a transfer without any socket. The pieces arrive as from libcurl.
@Suite("The phases of a transfer")
struct TransferStateTests {
    private static let second: UInt64 = 1_000_000_000
    private static let closed = TransferState.CurlEnd.closed(isTruncated: false)
    private static let broken = TransferState.CurlEnd.failed(TransferError(.incomplete, "it broke"))

    /// A transfer whose head is complete.
    @dynamicMemberLookup
    private final class Subject {
        var value: TransferState

        /// - Parameter length: The number of bytes of the body. nil: the body lasts until the end of the connection.
        init(length: Int64?, isChunked: Bool = false, isHTTP2: Bool = false) {
            var headers = HeaderFields()
            if let length { headers.append(name: "Content-Length", value: "\(length)") }
            if isChunked { headers.append(name: "Transfer-Encoding", value: "chunked") }
            value = TransferState(begun: 0)
            value.headIsComplete(ResponseHead(status: 200, headers: headers, url: "http://h/", isHTTP2: isHTTP2))
        }

        subscript<T>(dynamicMember path: KeyPath<TransferState, T>) -> T { value[keyPath: path] }

        func piece(_ bytes: Int, isOpen: Bool = true) -> TransferState.PieceAction {
            value.action(forPiece: bytes, shortenedTo: .max, isOpen: isOpen)
        }

        /// Handles a piece, and passes the sink its chunk. nil if the sink gets nothing.
        func bring(_ bytes: Int, shortenedTo end: Int64 = .max) -> TransferState.ChunkAction? {
            guard case .append(let chunk) = value.action(forPiece: bytes, shortenedTo: end, isOpen: true) else {
                return nil
            }
            value.recordAccepted(chunk.wanted)
            return value.action(after: chunk)
        }

        func receive(at offset: Int64 = 0, length: Int64? = nil, now: UInt64 = 0) {
            value.receive(into: .sink(offset: offset), length: length, now: now)
        }

        func pause(for reason: TransferState.Pause) -> Bool { value.pause(for: reason) }

        func endPause() -> TransferState.Pause? { value.endPause() }

        func endCollecting() -> TransferEnd? { value.endCollecting() }
    }

    private func code(_ result: Result<TransferEnd, TransferError>) -> ErrorCode? {
        if case .failure(let error) = result { error.code } else { nil }
    }

    @Test("a body waits at its first byte until it has a destination") func undecided() {
        let state = Subject(length: 10)
        #expect(state.piece(10) == .pause(.undecided))
        #expect(state.pause(for: .undecided) && !state.pause(for: .undecided))
        #expect(!state.value.isStalled(100 * Self.second, limit: Self.second), "the server is not to blame")
        state.receive(at: 5)
        #expect(state.endPause() == .undecided)
        #expect(state.bring(10) == .proceed)
        #expect(state.phase == .complete(since: 0))
        #expect(try! state.value.result(Self.closed).get() == TransferEnd(position: 15, bytes: 10, reason: .length))
    }

    @Test("the required bytes are a success whatever libcurl reports, and the response has a second to end")
    func complete() {
        let state = Subject(length: 100)
        state.receive(length: 60)
        #expect(state.bring(60) == .proceed)
        #expect(!state.value.isOverdue(Self.second) && state.value.isOverdue(Self.second + 1))
        #expect(code(state.value.result(Self.broken)) == nil)
        #expect(state.piece(1, isOpen: false) == .stop)
        #expect(
            try! state.value.result(Self.broken).get()
                == TransferEnd(position: 60, bytes: 60, reason: .length, isOverlong: true))
    }

    @Test("bytes beyond the required length are dropped and reported") func overlong() {
        let state = Subject(length: 100)
        state.receive(length: 60)
        #expect(state.bring(61) == .stop(isShortened: false))
        #expect(
            try! state.value.result(Self.broken).get()
                == TransferEnd(position: 60, bytes: 60, reason: .length, isOverlong: true))
    }

    @Test("fewer bytes than required are incomplete, although libcurl reports success") func incomplete() {
        let state = Subject(length: 100)
        state.receive()
        #expect(state.bring(99) == .proceed)
        #expect(code(state.value.result(Self.closed)) == .incomplete)
        let tls = TransferState.CurlEnd.failed(TransferError(.tls, "the session is lost"))
        #expect(code(state.value.result(tls)) == .tls, "a TLS error takes precedence over a short body")
    }

    @Test("without a length the body ends with the connection, unless TLS ended without close_notify")
    func untilClose() {
        let state = Subject(length: nil)
        state.receive()
        #expect(state.bring(99) == .proceed)
        #expect(try! state.value.result(Self.closed).get().reason == .close)
        #expect(code(state.value.result(.closed(isTruncated: true))) == .incomplete)
        let chunked = Subject(length: nil, isChunked: true)
        chunked.receive()
        #expect(
            try! chunked.value.result(.closed(isTruncated: true)).get().reason == .length, "chunks mark their own end")
        #expect(code(chunked.value.result(Self.broken)) == .incomplete)
    }

    @Test("a shortened body ends at once, and only a short remainder is read", arguments: [false, true])
    func shortened(isLong: Bool) {
        let rest = TransferState.maxDrainedBytes + (isLong ? 1 : 0)
        let state = Subject(length: 1000 + rest)
        state.receive()
        #expect(state.bring(900, shortenedTo: 1000) == .proceed)
        let end = TransferEnd(position: 1000, bytes: 1000, reason: .shortened)
        let action = state.bring(200, shortenedTo: 1000)
        #expect(action == (isLong ? .stop(isShortened: true) : .deliver(end)))
        if isLong {
            #expect(try! state.value.result(Self.broken).get() == end)
        } else {
            #expect(state.phase == .draining(left: Int(rest), since: 0))
            #expect(state.piece(1000) == .drop)
        }
    }

    @Test("bytes that arrived before a late shortening stay") func late() {
        let state = Subject(length: 10_000_000)
        state.receive()
        #expect(state.bring(900) == .proceed)
        #expect(state.bring(100, shortenedTo: 500) == .stop(isShortened: true))
        #expect(
            try! state.value.result(Self.closed).get() == TransferEnd(position: 900, bytes: 900, reason: .shortened))
    }

    @Test("memory collects up to its limit, and a sink may get the remainder of the body") func memory() {
        let state = Subject(length: 100)
        state.value.receive(into: .memory(limit: 50), length: nil, now: 0)
        #expect(state.piece(40) == .collect)
        state.value.recordAccepted(40)
        #expect(state.endCollecting() == TransferEnd(position: 40, bytes: 40, reason: .shortened))
        #expect(state.endCollecting() == nil && state.phase == .undecided)
        state.receive()
        #expect(state.bring(60) == .proceed)
        #expect(state.phase == .complete(since: 0))
        let small = Subject(length: 100)
        small.value.receive(into: .memory(limit: 50), length: nil, now: 0)
        #expect(small.piece(51) == .stop)
        #expect(code(small.value.result(Self.broken)) == .tooLarge)
    }

    @Test("the remainder of a discarded body is read up to a limit") func discard() {
        let state = Subject(length: 100)
        state.value.discard(limit: 80, now: 7)
        #expect(state.piece(80) == .drop)
        #expect(state.phase == .draining(left: 0, since: 7))
        #expect(state.piece(1) == .stop)
    }

    @Test("only a closed rate limit makes required bytes wait, and a grant is used up") func limits() {
        let state = Subject(length: 100)
        state.receive()
        #expect(state.piece(10, isOpen: false) == .pause(.limits))
        #expect(state.pause(for: .limits))
        #expect(state.value.certainBytes(shortenedTo: .max) == nil)
        #expect(state.endPause() == .limits && state.endPause() == nil)
        state.value.resume(granting: 15, now: 3)
        #expect(state.bring(10) == .proceed)
        #expect(state.granted == 5 && state.expectingSince == 3)
        #expect(state.bring(10) == .proceed)
        #expect(state.granted == 0)
    }

    @Test("only bytes that are certain to arrive may collect in the socket") func certain() {
        let state = Subject(length: 100)
        #expect(state.value.certainBytes(shortenedTo: .max) == nil)
        state.receive(at: 50, length: 90)
        #expect(state.value.certainBytes(shortenedTo: .max) == 90)
        #expect(state.value.certainBytes(shortenedTo: 70) == 20)
        #expect(state.bring(5) == .proceed)
        #expect(state.value.certainBytes(shortenedTo: .max) == 85)
        for other in [Subject(length: nil), Subject(length: 100, isHTTP2: true)] {
            other.receive()
            #expect(other.value.certainBytes(shortenedTo: .max) == nil)
        }
    }

    @Test("a server stalls only while it has something to send") func stalled() {
        let begun = TransferState(begun: 0)
        #expect(begun.isStalled(11, limit: 10) && !begun.isStalled(10, limit: 10))
        let state = Subject(length: 100)
        state.receive(now: 5)
        #expect(state.value.isStalled(16, limit: 10))
        #expect(state.pause(for: .sink))
        #expect(!state.value.isStalled(16, limit: 10))
    }

    @Test("libcurl ends a transfer only once, and a refused head says why") func ends() {
        var state = TransferState(begun: 0)
        state.fieldsAreRefused("it is not valid")
        #expect(code(state.result(Self.broken)) == .badResponse)
        let isFirst = state.curlEnded(Self.broken)
        let isSecond = state.curlEnded(Self.closed)
        #expect(isFirst && !isSecond && state.curlEnd == Self.broken)
    }
}

@Suite("The connection of a transfer")
struct TransferConnectionTests {
    private static let refusal = TransferError(.addressForbidden, "not there")

    @Test("a refused address counts only if no other address was connected") func refused() {
        var connection = TransferConnection()
        connection.refuseAddress(Self.refusal)
        #expect(connection.refusal == Self.refusal)
        connection.opened(7)
        #expect(connection.refusal == nil && connection.sockets == [7])
        connection.refuseAddress(Self.refusal)
        #expect(connection.refusal == nil, "7 may still be connected")
        connection.use(TransferConnection.Peer(address: "192.0.2.1", localPort: 5, session: nil))
        #expect(connection.isConnected && connection.peer?.localPort == 5)
    }

    @Test("nothing is sent to a refused peer, or on a connection with unsolicited input") func peer() {
        var connection = TransferConnection()
        connection.opened(7)
        connection.refusePeer(Self.refusal)
        #expect(connection.refusal == Self.refusal && !connection.isConnected && connection.sockets.isEmpty)
        connection = TransferConnection()
        connection.markStale()
        #expect(connection.isStale && !connection.isConnected && connection.refusal == nil)
    }
}

@Suite("The path of a transfer")
struct PathWatchTests {
    private static func path(isQueueing: Bool = false) -> TransferPath {
        TransferPath(roundTrip: 0.1, delay: isQueueing ? 0.2 : 0.1, window: 0, isLossy: false)
    }

    @Test("the path is inspected with the head, when the body has grown by a quarter, and after some time")
    func looks() {
        var watch = PathWatch()
        let looks = [(0, 0), (1, 1), (64 << 10, 2), (100 << 10, 3), (128 << 10, 4), (129 << 10, 200_000_005)]
            .map { watch.isDue(Int64($0.0), at: UInt64($0.1)) }
        #expect(looks == [true, false, true, false, true, true])
    }

    @Test("lost packets count until a queue has been seen") func losses() {
        var watch = PathWatch()
        let first = watch.record(Self.path(), isOutOfOrder: true)
        let queued = watch.record(Self.path(isQueueing: true), isOutOfOrder: true)
        let later = watch.record(Self.path(), isOutOfOrder: true)
        #expect(first && !queued && !later)
    }

    @Test("the window is announced in steps, without the waiting bytes, and half of it behind a queue") func window() {
        var watch = PathWatch()
        let first = watch.window(for: 1 << 20, waiting: 1000)
        #expect(first == 1_063_960)
        let soon = watch.window(for: (1 << 20) - 1000, waiting: 0)
        #expect(soon == nil)
        _ = watch.record(Self.path(isQueueing: true), isOutOfOrder: false)
        let later = watch.window(for: 1 << 19, waiting: 0)
        #expect(later == 278_528)
        let huge = watch.window(for: 64 << 20, waiting: 0)
        #expect(huge == nil)
    }
}
