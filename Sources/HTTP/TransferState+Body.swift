import HaulContract

// The pieces of a body, as libcurl brings them.
extension TransferState {
    /// What is to be done with a piece.
    enum PieceAction: Equatable {
        /// Nothing is taken: libcurl brings it again after a pause.
        case pause(Pause)
        case append(Portion)
        case collect
        case drop
        /// libcurl must end the transfer.
        case stop
    }

    /// The part of a piece that the sink is to have.
    struct Portion: Equatable {
        /// Bytes of the whole piece.
        let piece: Int
        /// Bytes from its beginning that are wanted.
        let wanted: Int
        /// The file offset where this transfer ends. It may have been shortened.
        let limit: Int64
        /// The file offset where the response's own bytes end.
        let end: Int64

        /// What the server may still send of a shortened response; nil if it is not shortened, or if the rest is short.
        func window(from position: Int64) -> Int64? {
            limit < end && end - limit > TransferState.shortRest ? limit - position : nil
        }
    }

    /// What is to be done when a sink has its portion.
    enum PortionAction: Equatable {
        case goOn
        /// The caller gets this, while the rest is read for the connection's sake.
        case deliver(TransferEnd)
        /// libcurl must end the transfer. The rest of a response was not wanted if it is shortened.
        case stop(isShortened: Bool)
    }

    /// Rests up to this long are read and dropped to keep a connection: bytes.
    static let shortRest: Int64 = 128 << 10

    /// A piece of `bytes` bytes has come.
    ///
    /// - Parameters:
    ///   - end: The file offset to stop at; see `Transfer.shorten(to:)`.
    ///   - isOpen: The limits of rate allow it to be taken.
    mutating func piece(_ bytes: Int, shortenedTo end: Int64, isOpen: Bool) -> PieceAction {
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
            guard count.taken + Int64(bytes) <= Int64(limit) else {
                return stopped(.failed(TransferError(.tooLarge, "the body is longer than \(limit) bytes")))
            }
            return .collect
        default: return .append(portion(of: bytes, shortenedTo: end))
        }
    }

    private func portion(of bytes: Int, shortenedTo end: Int64) -> Portion {
        let responseEnd = count.expected.map { count.offset + $0 } ?? .max
        let limit = min(responseEnd, max(end, count.position))
        return Portion(
            piece: bytes, wanted: Int(min(Int64(bytes), limit - count.position)), limit: limit, end: responseEnd)
    }

    private mutating func stopped(_ reason: Stop) -> PieceAction {
        phase = .stopping(reason)
        return .stop
    }

    /// So many bytes went where they belong.
    mutating func took(_ bytes: Int) {
        count.taken += Int64(bytes)
        granted = max(0, granted - bytes)
    }

    /// The sink has its portion; `took` was called before.
    mutating func appended(_ portion: Portion) -> PortionAction {
        if count.position == portion.end {
            guard portion.wanted < portion.piece else {
                phase = .complete(since: expecting)
                return .goOn
            }
            count.isOverlong = true
            phase = .stopping(.complete)
            return .stop(isShortened: false)
        }
        guard count.position == portion.limit else { return .goOn }
        guard let left = count.left, left <= Self.shortRest else {
            phase = .stopping(.shortened)
            return .stop(isShortened: true)
        }
        phase = .draining(left: Int(left), since: expecting)
        return .deliver(count.end(.shortened))
    }

    /// Bytes that are sure to come to the sink; nil where that is not known, or where a slow body must be read as it comes: only
    /// a length tells an end that may wait in the socket, and libcurl must answer the frames of HTTP/2.
    func certain(shortenedTo end: Int64) -> Int64? {
        guard case .receiving(.sink) = phase, pause == nil, head?.isHTTP2 == false, let announced = count.announced
        else { return nil }
        return min(announced, count.demanded ?? .max, end - count.offset) - count.taken
    }
}
