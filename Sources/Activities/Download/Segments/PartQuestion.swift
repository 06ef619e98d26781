import HaulContract
import HaulHTTP

/// The question for some bytes of a known entity, to one of the job's mirrors.
struct PartQuestion: Sendable {
    /// What became of it.
    enum Answer: Sendable {
        case part(Transfer, Landing, Entity, length: Int64)
        case refused(ResponseDecision)
        /// From a mirror whose bytes nothing says to be the same.
        case apart
    }

    let range: Range<Int64>
    let entity: Entity
    let total: Int64
    let mirror: Int
    /// No other connection is there.
    let isOnly: Bool

    /// Asks where the redirects of the first response led, which is the same resource for certain. What they led to may have
    /// expired, or its host may be gone: then the original URL is asked.
    func ask(_ download: Download) async throws(TransferError) -> Answer {
        guard let landing = download.mirrors[mirror].landing, landing.isElsewhere else {
            return try await ask(download, from: nil)
        }
        do throws(TransferError) {
            let answer = try await ask(download, from: landing)
            guard case .refused(let decision) = answer, decision.isFinal else { return answer }
        } catch {
            guard isOnly, case .failed(let failure) = error, Mirrors.isToBlame(for: failure.code), !Task.isCancelled
            else {
                throw error
            }
        }
        return try await ask(download, from: nil)
    }

    private func ask(_ download: Download, from landing: Landing?) async throws(TransferError) -> Answer {
        let mirrors = download.mirrors
        let mirror = mirrors[mirror]
        // What the mirror itself has said of the entity: others' validators say nothing of it.
        let known = mirror.entity
        let validator = mirror.honoursIfRange ? known?.strongValidator : nil
        let isLast = range.upperBound == total
        var headers = [
            HeaderField("Range", "bytes=\(range.lowerBound)-" + (isLast ? "" : "\(range.upperBound - 1)")), .identity,
        ]
        if let validator { headers.append(HeaderField("If-Range", validator)) }
        download.assignment.trace?("asks for the bytes \(range.lowerBound) to \(range.upperBound - 1)")
        let (transfer, landing) = try await download.exchange.ask(mirror, headers, from: landing)
        // Only the job's own checksum is about all mirrors; what is asked when there is no other is checked when it is whole.
        let needsDigest = !isOnly && self.mirror != mirrors.current && download.job.checksum == nil
        if needsDigest, transfer.head.status == 206, DigestFields.checksum(transfer.head) != entity.digest {
            await transfer.discard()
            return .apart
        }
        var expected = known ?? Entity(transfer.head, total: total, resource: landing.resource)
        (expected.encoding, expected.digest) = (entity.encoding, entity.digest)
        let question = Question(
            kind: .part(position: range.lowerBound, end: range.upperBound, of: expected, ifRange: validator != nil),
            isProven: download.isProven, resource: landing.resource)
        let decision = question.decision(on: transfer.head)
        if case .takePart(_, let length) = decision { return .part(transfer, landing, expected, length: length) }
        await transfer.discard()
        return .refused(decision)
    }
}

extension ResponseDecision {
    /// The same question to the same URL would be answered the same way.
    fileprivate var isFinal: Bool {
        switch self {
        case .fail(let failure): !RetryPolicy.isRetryable(failure)
        case .restart, .restartWhole: true
        default: false
        }
    }

    /// Why what is there is to be dropped.
    var why: String? {
        switch self {
        case .restart(let why), .restartWhole(let why): why
        default: nil
        }
    }
}
