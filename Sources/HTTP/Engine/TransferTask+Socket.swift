import CHaulLinux
import HaulExecutors

/// The state of the socket that a body arrives on, and of how its bytes are read.
struct SocketReading {
    var pace = SlowBodyDetector()
    var mark = LowWaterMark()
    var path = PathWatch()
    /// At the last check the server had closed its side, and nothing was left to read.
    var hasEnded = false
    var bufferLimit = ReceiveBufferLimit()
    var framing = FramingOverhead()
}

// Slow bodies. A small piece costs TCP, the loop and libcurl about ten times as much as its bytes do, and a thousand
// slow servers send ten thousand pieces a second. So the bytes of a slow body collect in its socket, up to most of a
// block or for as long as `patience`.
extension TransferTask {
    /// The last bytes of a body are always read as they arrive. TLS may have taken some of them, less than a record,
    /// out of the socket without showing any. So fewer bytes may still come through the socket than are missing.
    private static let maxTail: Int64 = 32 << 10

    /// To be called at each tick. Finds out whether the body is slow, and reads bytes that have waited in the socket
    /// for longer than `patience`. So all bytes of a body that becomes slower or stops are read soon.
    func updatePace(_ now: UInt64, patience: UInt64) {
        reading.pace.update(state.count.accepted, at: now, patience: patience)
        if !reading.pace.isSlow || now >= state.expectingSince + patience { reading.mark.set(1) }
    }

    /// To be called when the head has arrived: an earlier transfer on the connection may have had a rate limit.
    func beginBufferLimit() {
        if !hasLimits, connection.sockets.isEmpty { shared.connections.hold(reading.mark.socket, false) }
        limitReceiveBuffer(monotonicNanoseconds())
    }

    /// To be called at each tick. Keeps the server from sending many bytes before the rate limits have counted them.
    func limitReceiveBuffer(_ now: UInt64) {
        let socket = reading.mark.socket
        guard socket >= 0, !isSending, hasLimits || reading.bufferLimit.isHeld else { return }
        let isHeld =
            hasLimits
            ? reading.bufferLimit.hold(
                buffer: Int(clinux_receive_buffer(socket)), accepted: state.count.accepted, at: now,
                roundTrip: progress.path?.roundTrip ?? 0)
            : reading.bufferLimit.end()
        if let isHeld { shared.connections.hold(socket, isHeld) }
    }

    /// Stops the collecting until libcurl has read the socket.
    func readWhatWaits() {
        guard reading.pace.isSlow else { return }
        reading.mark.set(1)
        shared.slow.join(self)
    }

    /// Lets bytes collect from now on, but never more than are certain to arrive. A rate limit sets its own speed.
    func gather() {
        guard reading.pace.isSlow, !isRetired, !hasLimits, let certain = state.certainBytes(shortenedTo: progress.end)
        else { return }
        caller.sink?.releaseMemory()
        reading.mark.set(Int(max(1, min(Int64(LowWaterMark.highest), certain - Self.maxTail))))
    }
}

// The end of the server's side of the connection.
extension TransferTask {
    /// To be called at each tick. Whether the server has closed its side without sending a head. libcurl has read this
    /// end, but goes on sending the body, and would wait until the stall timeout. The end must be seen at two ticks, so
    /// that libcurl has read everything before it.
    func hasNoResponse() -> Bool {
        guard outgoing != nil, state.head == nil, connection.isConnected, reading.mark.socket >= 0 else { return false }
        let before = reading.hasEnded
        reading.hasEnded = ConnectionSockets.hasEnded(reading.mark.socket)
        return before && reading.hasEnded
    }
}

// What the server sends besides the body.
extension TransferTask {
    /// To be called when the head has arrived.
    func beginFraming(isHTTP2: Bool) {
        guard mayHaveFraming else { return }
        reading.framing = FramingOverhead(read: bytesRead ?? 0, buffer: easy?.bufferSize ?? 0, isHTTP2: isHTTP2)
    }

    /// The bytes that libcurl has read from the connection; nil if that is not known.
    private var bytesRead: Int64? {
        let received = reading.mark.socket < 0 ? 0 : clinux_received(reading.mark.socket)
        return received > 0 ? received - Int64(clinux_waiting(reading.mark.socket)) : nil
    }

    /// Whether a server can send anything but the body: with a known length and without TLS it cannot.
    var mayHaveFraming: Bool {
        guard let head = state.head else { return false }
        if case .bytes = head.length { return head.isHTTP2 || connection.peer?.session != nil }
        return true
    }

    /// Takes new framing from the rate limits, and returns the number of its bytes.
    ///
    /// - Parameter piece: Bytes of the body that libcurl is delivering.
    @discardableResult
    func countFraming(besides piece: Int = 0, isEnd: Bool = false) -> Int {
        guard hasLimits, mayHaveFraming, let read = bytesRead else { return 0 }
        let bytes = reading.framing.uncounted(read: read, accepted: state.count.accepted + Int64(piece), isEnd: isEnd)
        if bytes != 0 { for bucket in request.limits { bucket.take(bytes) } }
        return bytes
    }

    /// To be called at each tick. Whether the server sends far more bytes than a body needs.
    func isMostlyFraming() -> Bool {
        // Before the body is requested, its caller would not learn the reason.
        guard state.phase != .undecided, mayHaveFraming, let read = bytesRead else { return false }
        return reading.framing.isExcessive(read: read, accepted: state.count.accepted)
    }
}

// The path to the server.
extension TransferTask {
    /// The whole body comes in a round trip or two. So nothing depends on its path: no connection is added, and the
    /// response is not shortened.
    private var isShort: Bool {
        guard case .bytes(let length) = state.head?.length else { return false }
        return length <= TransferState.maxDrainedBytes
    }

    func samplePath() {
        guard hasLimits || !isShort, reading.path.isDue(state.count.accepted, at: state.expectingSince) else { return }
        var path = clinux_path()
        guard reading.mark.socket >= 0, clinux_read_path(reading.mark.socket, &path) == 0, path.round_trip > 0
        else { return }
        let roundTrip = Double(path.round_trip) / 1e6
        let delay = path.received_round_trip == 0 ? roundTrip : Double(path.received_round_trip) / 1e6
        let seen = TransferPath(roundTrip: roundTrip, delay: delay, window: Int64(path.window), isLossy: false)
        progress.record(seen, isLossy: reading.path.record(seen, isOutOfOrder: path.out_of_order > 0))
    }

    /// Lets the server send hardly more than the `wanted` bytes of a shortened response.
    func boundWindow(_ wanted: Int64) {
        let socket = reading.mark.socket
        guard socket >= 0,
            let window = reading.path.window(for: wanted, waiting: Int64(clinux_waiting(socket)))
        else { return }
        clinux_bound_window(socket, Int32(window))
    }
}
