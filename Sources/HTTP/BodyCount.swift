import HaulContract

/// How many bytes of a body were announced, are wanted, and have come.
struct BodyCount: Equatable {
    /// The file offset of the first byte.
    var offset: Int64 = 0
    /// What the head says; nil if it does not.
    var announced: Int64?
    /// Exactly so many are wanted; nil if the response says how many.
    var demanded: Int64?
    var taken: Int64 = 0
    /// The server sent more than was wanted.
    var isOverlong = false

    /// The bytes that the body must have, if that is known.
    var expected: Int64? { demanded ?? announced }
    /// The file offset of the next byte.
    var position: Int64 { offset + taken }
    /// The bytes that the response still has.
    var left: Int64? { announced.map { $0 - taken } }

    func end(_ reason: TransferEnd.Reason) -> TransferEnd {
        TransferEnd(position: position, bytes: taken, reason: reason, isOverlong: isOverlong)
    }

    /// What became of the body. libcurl has called bodies whole that were not, so the count decides where there is one.
    func result(_ end: TransferState.LibraryEnd, isChunked: Bool) -> Result<TransferEnd, TransferError> {
        if let expected {
            return taken < expected ? .failure(incomplete(end, of: expected)) : .success(self.end(.length))
        }
        switch end {
        case .failed(let error): return .failure(error)
        case .closed where isChunked: return .success(self.end(.length))
        case .closed(isCut: false): return .success(self.end(.close))
        case .closed(isCut: true):
            return .failure(
                TransferError(
                    .incomplete,
                    "the TLS connection broke off after \(taken) bytes, and the server did not say how many there are"))
        }
    }

    private func incomplete(_ end: TransferState.LibraryEnd, of expected: Int64) -> TransferError {
        // A broken chunk coding or a lost TLS session is worse than a short body.
        if case .failed(let error) = end, case .failed(let failure) = error,
            [.badResponse, .tls].contains(failure.code)
        {
            return error
        }
        return TransferError(.incomplete, "the connection ended after \(taken) of \(expected) bytes")
    }
}
