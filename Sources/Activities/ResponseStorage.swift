import HaulContract
package import HaulHTTP
import HaulStorage

/// Makes the response that a job of the kind `request` or `upload` stores, and the outcome of a run that failed.
struct ResponseStorage: Sendable {
    let job: Job
    let clock: SharedClock
    /// A digest of the request. It shows whether a stored response belongs to this request.
    let requestDigest: String
    var receiver: (any ResponseReceiver)?

    /// The maximum size of a body in bytes, unless the job sets `max_response`.
    static let defaultMaxResponse = 64 << 10

    /// Receives the body and returns the response with it, or without it if there is a `receiver`. A response with an
    /// unexpected status is returned without a body that is too long, because its status says more about the failure.
    ///
    /// - Throws: `too_large` if the body is longer than the job allows, `bad_response` if its length is unreadable.
    func keep(_ transfer: Transfer, method: String) async throws(TransferError) -> StoredResponse {
        let isExpected = job.request.expects(transfer.head.status)
        if transfer.head.length == .invalid {
            transfer.cancel()
            throw TransferError(
                .badResponse,
                "the server sent differing or unreadable lengths, or a transfer coding that was not requested")
        }
        if let receiver, isExpected {
            do throws(TransferError) {
                _ = try await transfer.receive(into: receiver.destination(for: transfer.head))
            } catch {
                // What is written cannot be taken back, so another response would follow the first part of this one.
                guard case .failed(var failure) = error, receiver.hasWritten else { throw error }
                failure.isFinal = true
                failure.message += "; the request is not repeated, because a part of the response is written"
                throw .failed(failure)
            }
            return response(transfer.head, [], method)
        }
        let limit = job.request.maxResponse ?? Self.defaultMaxResponse
        if job.request.webhook != nil, isExpected {
            return response(transfer.head, await bodyOfAcceptance(transfer, limit: limit), method)
        }
        if let body = try await body(of: transfer, limit: limit) { return response(transfer.head, body, method) }
        guard isExpected else {
            var response = response(transfer.head, [], method)
            // A later push may expect this status, and must not take it for a response without a body.
            response.requestDigest = "-"
            return response
        }
        throw TransferError(
            .tooLarge, "the response (HTTP \(transfer.head.status)) is longer than \(limit) bytes: see max_response")
    }

    /// What arrives within some seconds of the body of a response that accepts a webhook. The status has accepted it,
    /// so the event is not sent again, whatever becomes of the body.
    private func bodyOfAcceptance(_ transfer: Transfer, limit: Int) async -> [UInt8] {
        let timer = Task {
            try await Task.sleep(for: .seconds(5))
            await transfer.endCollecting()
        }
        defer {
            timer.cancel()
            transfer.cancel()
        }
        return (try? await body(of: transfer, limit: limit)) ?? []
    }

    /// nil if the body has more than `limit` bytes. The transfer has ended then.
    private func body(of transfer: Transfer, limit: Int) async throws(TransferError) -> [UInt8]? {
        if case .bytes(let length) = transfer.head.length, length > limit {
            transfer.cancel()
            return nil
        }
        do { return try await transfer.collect(limit: limit) } catch {
            if case .failed(let failure) = error, failure.code == .tooLarge { return nil }
            throw error
        }
    }

    private func response(_ head: ResponseHead, _ body: [UInt8], _ method: String) -> StoredResponse {
        StoredResponse(
            status: head.status, headers: StoredResponse.joined(head.headers.fields), body: body,
            requestDigest: requestDigest, method: method, validated: clock.milliseconds)
    }

    /// The failure for a status that the job does not expect.
    func refusal(_ head: ResponseHead) -> Failure {
        let now = head.headers["date"].flatMap(HTTPDate.parse) ?? UnixTime.seconds
        return Failure(
            .http(head.status), "the server answered \(head.status), which is not an expected status",
            retryAfter: head.headers["retry-after"].flatMap { RetryPolicy.retryAfter($0, now: now) })
    }

    /// The outcome of a failed run.
    ///
    /// - Parameters:
    ///   - mayHaveArrived: The request was sent, must not be sent again, and got no whole response.
    ///   - status: The status of a response whose body broke off.
    ///   - store: The store whose lack of space parks the job.
    static func outcome(
        of error: TransferError, mayHaveArrived: Bool, status: Int? = nil, in store: any Store
    ) -> ActivityOutcome {
        guard case .failed(let failure) = error, !Task.isCancelled else {
            // If the task is not cancelled, the engine has cancelled the transfer.
            return error == .noSpace ? .parked(store.waitsFor) : .stopped
        }
        // A whole response shows what the server did with the request. Without one that is unknown.
        guard mayHaveArrived, isConnectionError(failure.code) else { return .failed(failure) }
        let began = status.map { "the server began to respond with \($0), but " } ?? ""
        return .failed(unknown(began + failure.message))
    }

    /// Errors of the connection: the server may or may not have received the request.
    static func isConnectionError(_ code: ErrorCode) -> Bool {
        [.dns, .connect, .tls, .proxy, .stalled, .incomplete, .badResponse, .localLimit, .io].contains(code)
    }

    static let lostRun = unknown(
        "an earlier run may have sent the request, and ended before it could record the result")

    private static func unknown(_ cause: String) -> Failure {
        Failure(
            .outcomeUnknown,
            "the request was sent, and is not repeated because it is unknown whether the server has executed it "
                + "(\(cause)); see idempotent", isFinal: true)
    }
}

/// The idempotent methods: a request with one of them may be sent again (RFC 9110 section 9.2.2).
enum IdempotentMethod {
    static func contains(_ method: String) -> Bool {
        ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE"].contains(method)
    }
}

/// Takes the bodies of expected responses as they arrive, for a command that prints them. Without a receiver a response
/// is kept in memory, up to the job's `max_response`.
package protocol ResponseReceiver: Sendable {
    /// Whether anything of a response is written, which another one could only follow.
    var hasWritten: Bool { get }

    /// Where the body of this response goes.
    func destination(for head: ResponseHead) -> any BodyDestination
}
