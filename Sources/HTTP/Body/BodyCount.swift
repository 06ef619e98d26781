import HaulContract

/// The bytes of a body: how many were announced, how many are required, and how many have been accepted.
struct BodyCount: Equatable {
    /// The file offset of the first byte.
    var offset: Int64 = 0
    /// From the response head; nil if the head gives no length.
    var announced: Int64?
    /// The exact number of bytes that the caller requires; nil to accept what the response announces.
    var required: Int64?
    var accepted: Int64 = 0
    /// The server sent more than was required.
    var isOverlong = false

    /// The number of bytes that the body must have, if it is known.
    var expected: Int64? { required ?? announced }
    /// The file offset of the next byte.
    var position: Int64 { offset + accepted }
    /// The bytes that the response still has to deliver; nil if the head gives no length.
    var left: Int64? { announced.map { $0 - accepted } }

    func end(_ reason: TransferEnd.Reason) -> TransferEnd {
        TransferEnd(position: position, bytes: accepted, reason: reason, isOverlong: isOverlong)
    }

    /// The outcome of the body. libcurl has reported incomplete bodies as complete, so a known count decides.
    func result(_ end: TransferState.CurlEnd, isChunked: Bool) -> Result<TransferEnd, TransferError> {
        // Then some of the accepted bytes may belong to the framing, although their number is right.
        if isChunked, case .failed(let error) = end, case .failed(let failure) = error, failure.code == .badResponse {
            return .failure(error)
        }
        if let expected {
            return accepted < expected ? .failure(incomplete(end, of: expected)) : .success(self.end(.length))
        }
        switch end {
        case .failed(let error): return .failure(error)
        case .closed where isChunked: return .success(self.end(.length))
        case .closed(isTruncated: false): return .success(self.end(.close))
        case .closed(isTruncated: true):
            return .failure(
                TransferError(
                    .incomplete,
                    "the TLS connection broke off after \(accepted) bytes, and the server did not say how many there are"
                ))
        }
    }

    private func incomplete(_ end: TransferState.CurlEnd, of expected: Int64) -> TransferError {
        // A broken chunked coding or a lost TLS session is a worse error than a short body.
        if case .failed(let error) = end, case .failed(let failure) = error,
            [.badResponse, .tls].contains(failure.code)
        {
            return error
        }
        return TransferError(.incomplete, "the connection ended after \(accepted) of \(expected) bytes")
    }
}
