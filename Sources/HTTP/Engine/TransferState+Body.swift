import HaulContract

// What happens to the pieces of a body that libcurl delivers.
extension TransferState {
    /// What to do with a piece.
    enum PieceAction: Equatable {
        /// Accept nothing: libcurl delivers the piece again after a pause.
        case pause(Pause)
        case append(Chunk)
        case collect
        case drop
        /// libcurl must end the transfer.
        case stop
    }

    /// The part of a piece that goes to the sink.
    struct Chunk: Equatable {
        /// The size of the whole piece in bytes.
        let piece: Int
        /// The number of bytes from its start that are required.
        let wanted: Int
        /// The file offset where this transfer ends. It may have been shortened.
        let limit: Int64
        /// The file offset where the response itself ends.
        let end: Int64

        /// The bytes that the server may still send of a shortened response; nil for others, or if its remainder is
        /// short.
        func window(from position: Int64) -> Int64? {
            limit < end && end - limit > TransferState.maxDrainedBytes ? limit - position : nil
        }
    }

    /// What to do once the sink has its chunk.
    enum ChunkAction: Equatable {
        case proceed
        /// The caller gets this result. The remainder is read only so that the connection can be reused.
        case deliver(TransferEnd)
        /// libcurl must end the transfer. If `isShortened`, the rest of the response was not wanted.
        case stop(isShortened: Bool)
    }

    /// A remainder of at most this many bytes is read and dropped, so that the connection can be reused.
    static let maxDrainedBytes: Int64 = 128 << 10

    /// Decides what to do with a piece of `bytes` bytes.
    ///
    /// - Parameters:
    ///   - end: The file offset to stop at; see `Transfer.shorten(to:)`.
    ///   - isOpen: Whether the rate limits allow the piece to be accepted.
    mutating func action(forPiece bytes: Int, shortenedTo end: Int64, isOpen: Bool) -> PieceAction {
        switch phase {
        case .head, .undecided: return .pause(.undecided)
        case .stopping: return .stop
        case .complete:
            count.isOverlong = true
            return stopped(.complete)
        default: break
        }
        guard isOpen else { return .pause(.limits) }
        switch phase {
        case .draining(let left, let since):
            guard bytes <= left else { return stopped(.complete) }
            phase = .draining(left: left - bytes, since: since)
            return .drop
        case .receiving(.memory(let limit)):
            guard count.accepted + Int64(bytes) <= Int64(limit) else {
                return stopped(.failed(TransferError(.tooLarge, "the body is longer than \(limit) bytes")))
            }
            return .collect
        default: return .append(chunk(of: bytes, shortenedTo: end))
        }
    }

    private func chunk(of bytes: Int, shortenedTo end: Int64) -> Chunk {
        let responseEnd = count.expected.map { count.offset + $0 } ?? .max
        let limit = min(responseEnd, max(end, count.position))
        return Chunk(
            piece: bytes, wanted: Int(min(Int64(bytes), limit - count.position)), limit: limit, end: responseEnd)
    }

    private mutating func stopped(_ reason: Stop) -> PieceAction {
        phase = .stopping(reason)
        return .stop
    }

    /// Records that this many bytes have reached their destination.
    mutating func recordAccepted(_ bytes: Int) {
        count.accepted += Int64(bytes)
        granted = max(0, granted - bytes)
    }

    /// Decides what comes after a chunk that the sink has. `recordAccepted` must be called first.
    mutating func action(after chunk: Chunk) -> ChunkAction {
        if count.position == chunk.end {
            guard chunk.wanted < chunk.piece else {
                phase = .complete(since: expectingSince)
                return .proceed
            }
            count.isOverlong = true
            phase = .stopping(.complete)
            return .stop(isShortened: false)
        }
        guard count.position == chunk.limit else { return .proceed }
        guard let left = count.left, left <= Self.maxDrainedBytes else {
            phase = .stopping(.shortened)
            return .stop(isShortened: true)
        }
        phase = .draining(left: Int(left), since: expectingSince)
        return .deliver(count.end(.shortened))
    }

    /// The number of bytes that are certain to reach the sink. nil if it is unknown, or if a slow body must be read as
    /// it arrives: without a length its end may wait in the socket, and libcurl must answer HTTP/2 frames.
    func certainBytes(shortenedTo end: Int64) -> Int64? {
        guard case .receiving(.sink) = phase, pause == nil, head?.isHTTP2 == false, let announced = count.announced
        else { return nil }
        return min(announced, count.required ?? .max, end - count.offset) - count.accepted
    }
}
