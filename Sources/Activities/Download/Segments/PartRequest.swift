import HaulContract
import HaulHTTP

/// A request for a range of a known entity, to one of the job's mirrors.
struct PartRequest: Sendable {
    /// The result of the request.
    enum Response: Sendable {
        case part(Transfer, FinalURL, Entity, length: Int64)
        case refused(ResponseDecision)
        /// Nothing proves that this mirror has the same bytes as the others.
        case unverifiable
    }

    let range: Range<Int64>
    let entity: Entity
    let total: Int64
    let mirror: Int
    /// The download has no other connection.
    let isOnly: Bool

    /// Requests the URL where earlier redirects led, which is certainly the same resource. If that URL has expired or
    /// its host is gone, the original URL is requested.
    func send(for download: Download) async throws(TransferError) -> Response {
        guard let finalURL = download.mirrors[mirror].finalURL, finalURL.isRedirected else {
            return try await send(for: download, from: nil)
        }
        do throws(TransferError) {
            let response = try await send(for: download, from: finalURL)
            guard case .refused(let decision) = response, decision.isFinal else { return response }
        } catch {
            guard isOnly, case .failed(let failure) = error, Mirrors.isToBlame(for: failure.code), !Task.isCancelled
            else {
                throw error
            }
        }
        return try await send(for: download, from: nil)
    }

    private func send(for download: Download, from finalURL: FinalURL?) async throws(TransferError) -> Response {
        let mirrors = download.mirrors
        let mirror = mirrors[mirror]
        // The validators of other mirrors say nothing about this one.
        let known = mirror.entity
        let validator = mirror.honoursIfRange ? known?.strongValidator : nil
        let isLast = range.upperBound == total
        var headers = [
            HeaderField("Range", "bytes=\(range.lowerBound)-" + (isLast ? "" : "\(range.upperBound - 1)")), .identity,
        ]
        if let validator { headers.append(HeaderField("If-Range", validator)) }
        download.io.trace?("requests the bytes \(range.lowerBound) to \(range.upperBound - 1)")
        let (transfer, finalURL) = try await download.follower.send(mirror, headers, from: finalURL)
        // The job's own checksum covers all mirrors. An only connection's bytes are verified once the file is whole.
        let needsDigest = !isOnly && self.mirror != mirrors.current && download.job.checksum == nil
        if needsDigest, transfer.head.status == 206, DigestFields.checksum(transfer.head) != entity.digest {
            await transfer.discard()
            return .unverifiable
        }
        var expected = known ?? Entity(transfer.head, total: total, resource: finalURL.resource)
        (expected.encoding, expected.digest) = (entity.encoding, entity.digest)
        let expectation = ResponseExpectation(
            kind: .part(position: range.lowerBound, end: range.upperBound, of: expected, ifRange: validator != nil),
            isProven: download.isProven, resource: finalURL.resource)
        var decision = expectation.decision(on: transfer.head)
        if let refusal = typeRefusal(of: transfer.head, for: download), case .takePart = decision { decision = refusal }
        if case .takePart(_, let length) = decision { return .part(transfer, finalURL, expected, length: length) }
        await transfer.discard()
        return .refused(decision)
    }

    /// The refusal of a part whose media type is not the one that the job requires. nil if it is, and if a response for
    /// this entity has shown that before: a part need not repeat it (RFC 9110 section 15.3.7).
    private func typeRefusal(of head: ResponseHead, for download: Download) -> ResponseDecision? {
        guard !download.reusePolicy.isConfirmed(download.generation?.contentType),
            let failure = download.typeRefusal(of: head)
        else { return nil }
        return head.headers["content-type"] == nil
            ? .restart(why: "the server's part does not say its content type") : .fail(failure)
    }
}

extension ResponseDecision {
    /// The same request to the same URL would get the same response.
    fileprivate var isFinal: Bool {
        switch self {
        case .fail(let failure): !RetryPolicy.isRetryable(failure)
        case .restart, .restartWhole: true
        default: false
        }
    }

    /// Why the bytes so far must be dropped; nil if they need not be.
    var why: String? {
        switch self {
        case .restart(let why), .restartWhole(let why): why
        default: nil
        }
    }
}
