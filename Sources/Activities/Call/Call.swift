import HaulContract
import HaulExecutors
import HaulHTTP
import Synchronization

/// One run of a job of the kind `request`: it sends the request and stores the response.
///
/// A request that is not idempotent is sent at most once. Before it is sent, Redis records that, so that no other run
/// sends it again, even if this worker dies.
package final class Call: Activity {
    private struct State {
        var transfer: Transfer?
        var response: StoredResponse?
    }

    private let assignment: Assignment
    private let context: ActivityContext
    private let request: CallRequest
    private let limit: TokenBucket?
    private let sending = SendingProgress()
    private let io: RunIO
    private let state = Mutex(State())

    package init(_ assignment: Assignment, _ io: RunIO, context: ActivityContext) {
        (self.assignment, self.io, self.context) = (assignment, io, context)
        request = CallRequest(assignment.job)
        limit = assignment.job.limitRate.map { TokenBucket(bytesPerSecond: $0) }
    }

    private var job: Job { assignment.job }

    private var responseStorage: ResponseStorage {
        ResponseStorage(
            job: job, clock: assignment.clock, requestDigest: request.digest, receiver: context.receiver)
    }

    // MARK: Called from other threads

    package var executor: any TaskExecutor { context.engine.executor }

    package func progress() -> ActivityProgress {
        var progress = ActivityProgress()
        guard let transfer = state.withLock({ $0.transfer }) else { return progress }
        progress.received = transfer.progress.received
        if case .bytes(let length) = transfer.head.length { progress.total = length }
        (progress.transferred, progress.connections) = (progress.received, 1)
        return progress
    }

    package var mustNotBeInterrupted: Bool { !isRepeatable }

    private var isRepeatable: Bool { request.isRepeatable || !sending.hasBegun }

    // MARK: The run

    package func run() async -> ActivityResult {
        var result = ActivityResult(await outcome(), progress())
        (result.response, result.isRepeatable) = (state.withLock { $0.response }, isRepeatable)
        return result
    }

    private func outcome() async -> ActivityOutcome {
        if let stored = assignment.storedResponse, isFresh(stored) {
            return .responded(stored, seconds: 0, unchanged: true)
        }
        if assignment.wasSent, !request.isRepeatable {
            return .failed(ResponseStorage.lostRun)
        }
        let begun = ContinuousClock.now
        do throws(TransferError) {
            guard let url = WebURL(request.url) else {
                throw TransferError(.badJob, "\(MaskedURL.text(request.url)) is not a valid http or https URL")
            }
            let host = url.hostAndPort
            guard await io.waitForHost({ await context.hosts.enter(host) }) else { return .stopped }
            defer { context.hosts.leave(host) }
            if !request.isRepeatable, await !io.markSent() { return .stopped }
            let (response, isUnchanged) = try await send(url, host)
            return .responded(response, seconds: (ContinuousClock.now - begun).secondsValue, unchanged: isUnchanged)
        } catch {
            let (response, status) = state.withLock { ($0.response, $0.transfer?.head.status) }
            return ResponseStorage.outcome(
                of: error, mayHaveArrived: !isRepeatable && response == nil, status: status, in: context.store)
        }
    }

    /// Whether this is a response to the same request, and one that the job would accept. An earlier push of it may have
    /// expected another one.
    private func isAcceptable(_ stored: StoredResponse) -> Bool {
        stored.requestDigest == request.digest && job.request.expects(stored.status)
            && stored.body.count <= job.request.maxResponse ?? .max
    }

    /// Whether this is an acceptable response whose age the job allows.
    private func isFresh(_ stored: StoredResponse) -> Bool {
        guard let freshFor = job.freshFor, isAcceptable(stored) else { return false }
        return .milliseconds(assignment.clock.milliseconds - stored.validated) < freshFor
    }

    /// The stored response for a conditional request. Only a job with `fresh_for` has conditions in its request.
    private var conditionalResponse: StoredResponse? {
        guard job.freshFor != nil, request.isConditional, let stored = assignment.storedResponse,
            isAcceptable(stored), stored.status == 200, !stored.resource.isEmpty
        else { return nil }
        return stored
    }

    private var conditions: [HeaderField] {
        guard let stored = conditionalResponse else { return [] }
        // A 304 to a weak date would also be sent for a later version of the same second.
        let isDated = Entity.isStrong(stored["last-modified"], sentAt: stored["date"])
        return [
            stored["etag"].flatMap { $0.isEmptyTag ? nil : HeaderField("If-None-Match", $0) },
            stored["last-modified"].flatMap { isDated ? HeaderField("If-Modified-Since", $0) : nil },
        ].compactMap(\.self)
    }

    /// Whether a 304 is about the stored response: of the same resource, and without other validators.
    private func isConfirmed(by head: ResponseHead, from finalURL: FinalURL) -> Bool {
        guard let stored = conditionalResponse, finalURL.url.resource == stored.resource, !head.hasUnusableValidators
        else { return false }
        func repeats(_ name: String) -> Bool {
            // A 304 compares tags weakly (RFC 9110 section 13.1.2).
            func opaque(_ tag: String) -> Substring { tag.hasPrefix("W/") ? tag.dropFirst(2) : tag[...] }
            guard let theirs = head.headers[name], let ours = stored[name] else { return true }
            return opaque(theirs) == opaque(ours)
        }
        return repeats("etag") && repeats("last-modified")
    }

    /// The header fields that sign a webhook at this time; none for another request.
    private func signature() throws(TransferError) -> [HeaderField] {
        guard let name = job.request.webhook else { return [] }
        guard let keys = context.webhookKeys[name] else {
            throw TransferError(
                .badJob, "this worker has no secret \(name) for webhooks: start it with --webhook-secret \(name)=FILE")
        }
        return keys.fields(
            id: job.id ?? assignment.key, timestamp: assignment.clock.milliseconds / 1000, body: request.body ?? [])
    }

    private func send(_ url: WebURL, _ host: String) async throws(TransferError) -> (StoredResponse, isUnchanged: Bool)
    {
        var template = HTTPRequest(url: "")
        template.method = request.method
        template.body = request.body.map(RequestBody.bytes)
        template.connectTimeout = job.connectTimeout ?? context.connectTimeout
        template.stallTimeout = job.stallTimeout ?? context.stallTimeout
        template.limits = [limit, context.limit].compactMap(\.self) + assignment.limits
        template.hostBuckets = assignment.hostBuckets
        template.isSentOnce = !request.isRepeatable || job.retries == 0 && !["GET", "HEAD"].contains(request.method)
        template.sending = sending
        var follower = RedirectFollower(
            engine: context.engine, template: template, custom: request.headers + (try signature()),
            digests: DigestSession(), cookies: assignment.cookies, trace: io.trace,
            authentication: context.authentication, followsRedirects: !request.isWebhook)
        let hasCoding = request.headers.contains { $0.name.lowercased() == "accept-encoding" }
        if let stored = conditionalResponse, !conditions.isEmpty { follower.conditions = (stored.resource, conditions) }
        var (transfer, finalURL): (Transfer, FinalURL)
        do throws(TransferError) {
            (transfer, finalURL) = try await follower.send(url, hasCoding ? [] : [.identity])
            if transfer.head.status == 304, follower.conditions != nil, !isConfirmed(by: transfer.head, from: finalURL)
            {
                await transfer.discard()
                follower.conditions = nil
                (transfer, finalURL) = try await follower.send(url, hasCoding ? [] : [.identity])
            }
        } catch {
            if case .failed(let failure) = error, failure.code == .connect {
                context.hosts.backOff(host, retryAfter: nil)
            }
            throw error
        }
        state.withLock { $0.transfer = transfer }
        let head = transfer.head
        var length: Int64?
        if case .bytes(let count) = head.length { length = count }
        io.report(.started(total: length, resumable: false))
        if head.status == 304, follower.conditions != nil, let stored = conditionalResponse {
            await transfer.discard()
            var response = stored
            response.validated = assignment.clock.milliseconds
            return (response, true)
        }
        var response = try await responseStorage.keep(transfer, method: request.method)
        if request.isConditional, response.validator("etag") != nil || response.validator("last-modified") != nil {
            response.resource = finalURL.url.resource
        }
        guard job.request.expects(head.status) else {
            state.withLock { $0.response = response }
            var failure = responseStorage.refusal(head)
            if request.isWebhook, (301...308).contains(head.status), let location = head.headers["location"] {
                // A URL hides its credentials, as far as it can be read.
                let target = finalURL.url.resolve(location).map { "\($0)" } ?? "another address"
                failure.message =
                    "the server redirects (\(head.status)) to \(target); a webhook follows no redirect: name the address itself"
            }
            if head.status == 429 || head.status == 503 {
                context.hosts.backOff(host, retryAfter: failure.retryAfter)
            }
            throw .failed(failure)
        }
        return (response, false)
    }
}
