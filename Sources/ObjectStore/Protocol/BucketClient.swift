import HaulContract
import HaulExecutors
import HaulHTTP
import Synchronization

/// Sends signed requests to a bucket, with retries where these may help.
final class BucketClient: Sendable {
    private struct State {
        var skew = ClockSkew()
        var pace = BucketThrottle()
        var region: String
        var hasMoved = false
        /// When the last write that succeeded was sent, in seconds of `watch`.
        var written = -Double.infinity
        /// When the server last refused access or had no space, or when there were no credentials.
        var refused = -Double.infinity
        var requests = 0
        /// Seconds between the local time and the Date of the last response.
        var latestSkew: Int64?
        /// The server compares If-Match with ETags that have no quotes.
        var requiresBareETags = false
    }

    let address: BucketAddress
    let engine: TransferEngine
    let credentials: CredentialsChain
    /// Called with messages for the operator.
    let notify: @Sendable (String) -> Void
    /// What sets the region, in words for the operator.
    let regionSetting: String
    private let watch = Stopwatch()
    private let keys = SigningKeys()
    private let state: Mutex<State>

    init(
        _ address: BucketAddress, engine: TransferEngine, credentials: CredentialsChain,
        regionSetting: String = "--s3-region", notify: @escaping @Sendable (String) -> Void = { _ in }
    ) {
        (self.address, self.engine, self.credentials, self.notify) = (address, engine, credentials, notify)
        self.regionSetting = regionSetting
        state = Mutex(State(region: address.region))
    }

    /// The number of requests that were sent, with all retries.
    var requests: Int { state.withLock { $0.requests } }

    /// Seconds since a write was sent that succeeded; nil if none has, or if any request was refused since then.
    var secondsSinceWriting: Double? {
        state.withLock { $0.written > $0.refused ? watch.seconds - $0.written : nil }
    }

    /// Seconds to add to the local time to get the time of the server.
    var skew: Int64 { state.withLock { $0.skew.seconds } }

    /// An If-Match field, with quotes unless the server requires none (radosgw 16).
    func ifMatch(_ etag: String) -> HeaderField {
        HeaderField("If-Match", state.withLock { $0.requiresBareETags } ? etag : "\"\(etag)\"")
    }

    /// Whether If-Match is sent without quotes now.
    var sendsBareETags: Bool { state.withLock { $0.requiresBareETags } }

    /// To be called if the server says that an object has another ETag, but sends the same one.
    ///
    /// - Parameter sent: Whether the refused request had no quotes. Several requests may have been refused in the same form,
    ///   and the first of them has corrected it for all.
    func toggleETagQuotes(from sent: Bool) {
        state.withLock { if $0.requiresBareETags == sent { $0.requiresBareETags.toggle() } }
    }

    /// Seconds since 1970 by the server's clock, for presigned requests. It includes small differences, which do not
    /// matter to other signatures.
    private var presigningTime: Int64 {
        let (skew, latestSkew) = state.withLock { ($0.skew.seconds, $0.latestSkew ?? $0.skew.seconds) }
        return UnixTime.seconds + (abs(latestSkew - skew) <= ClockSkew.tolerance ? latestSkew : skew)
    }

    /// Seconds since 1970 by the server's clock.
    var time: Int64 { UnixTime.seconds + skew }

    /// Sends a request, and retries it with backoff.
    ///
    /// - Parameter prepare: Runs before each try. If it throws, the request is not sent.
    /// - Throws: The error of the last try.
    func send(
        _ request: StoreRequest, preparing prepare: () async throws(StoreError) -> Void = {}
    ) async throws(StoreError) -> StoreResponse {
        var tries = 0
        var generator = SystemRandomNumberGenerator()
        let begun = ContinuousClock.now
        while true {
            try await prepare()
            let failure: StoreError
            do { return try await sendOnce(request) } catch { failure = error }
            tries += 1
            guard failure.isCorrected || [.transient, .throttled].contains(failure.kind), tries < request.tries,
                ContinuousClock.now - begun < request.maxTime
            else { throw failure }
            if failure.isCorrected, tries < 3 { continue }
            guard failure.isRetryable else { throw failure }
            do { try await Task.sleep(for: RequestBackoff.wait(before: tries, using: &generator)) } catch {
                throw StoreError(TransferError.cancelled)
            }
        }
    }

    /// Waits until the throttle of a store admits one more request.
    ///
    /// That may take minutes, so a request whose sender has checked something waits before these checks: see
    /// `StoreRequest.isPresigned`.
    func waitForTurn() async throws(StoreError) {
        let wait = state.withLock { $0.pace.turn(at: watch.seconds) }
        guard wait > 0 else { return }
        do { try await Task.sleep(for: .seconds(wait)) } catch { throw StoreError(TransferError.cancelled) }
    }

    private func usableCredentials() async throws(StoreError) -> Credentials {
        do throws(StoreError) { return try await credentials.credentials() } catch {
            state.withLock { $0.refused = watch.seconds }
            throw error
        }
    }

    private func sendOnce(_ request: StoreRequest) async throws(StoreError) -> StoreResponse {
        state.withLock { $0.requests += 1 }
        if !request.isPresigned { try await waitForTurn() }
        let credentials = try await usableCredentials()
        let (skew, sent, region) = (skew, watch.seconds, region)
        let now = request.isPresigned ? presigningTime : UnixTime.seconds + skew
        let time = now - request.age - (request.seen.map { (ContinuousClock.now - $0).components.seconds } ?? 0)
        let response: StoreResponse
        let date: Int64?
        do throws(TransferError) {
            let transfer = try await engine.start(signed(request, by: credentials, at: time, in: region))
            let head = transfer.head
            date = head.headers["date"].flatMap(HTTPDate.parse)
            // Before the body, which may take long.
            if let date { state.withLock { $0.latestSkew = date - UnixTime.seconds } }
            let body = try await transfer.collect(limit: request.limit(ofStatus: head.status))
            response = StoreResponse(status: head.status, headers: head.headers, body: body)
        } catch { throw StoreError(error) }
        if response.status == 403, let validity = request.validity, let date, date - time >= validity - 1 {
            // Either the network was slow, or this machine's clock is behind, and each request would expire at once.
            let wasOff = correctSkew(by: response, from: skew)
            throw StoreError(
                status: 403, code: "RequestExpired", message: "the store received the request too late",
                kind: wasOff ? .clock : .transient)
        }
        try await check(response, request, credentials, skew, region, sent: sent)
        return response
    }

    /// Requests an object, and returns the response with its body paused at the first byte. Its status is 200, 206, 304 or
    /// 416. Expired credentials, a skewed clock and another region are corrected, and the request is sent again. If there
    /// are no new credentials yet, it waits for them for a few seconds.
    ///
    /// - Parameters:
    ///   - version: The version of the object; nil for the newest one.
    ///   - template: Gives the header fields, the time limits and the limits of rate.
    ///   - etag: Another version than this one is not needed. The caller compares the response's ETag.
    /// - Throws: The error of the connection, or of the server as `refusal` makes it. `refusal` gets the location of the
    ///   credentials as well, and the status 0 if there are none.
    func open(
        _ key: String, version: String?, like template: HTTPRequest, ifMatch etag: String?,
        refusal: (StoreError, HeaderFields, _ location: String?) -> Failure
    ) async throws(TransferError) -> Transfer {
        var request = StoreRequest("GET", key)
        if let version { request.query = [("versionId", version)] }
        var (tries, isConditional, isBare) = (0, etag != nil, false)
        while true {
            let credentials: Credentials
            do throws(StoreError) { credentials = try await usableCredentials() } catch {
                tries += 1
                if error.kind == .transient, try await Self.waitForRenewal(before: tries) { continue }
                // No request was sent.
                let failure = StoreError(status: 0, code: error.code, message: error.message, kind: error.kind)
                throw .failed(refusal(failure, HeaderFields(), nil))
            }
            let (skew, time, region) = (skew, watch.seconds, region)
            request.headers = template.headers
            if isConditional, let etag {
                isBare = sendsBareETags
                request.headers.append(ifMatch(etag))
            }
            var sent = signed(request, by: credentials, at: UnixTime.seconds + skew, in: region)
            (sent.connectTimeout, sent.stallTimeout) = (template.connectTimeout, template.stallTimeout)
            (sent.limits, sent.hostBuckets) = (template.limits, template.hostBuckets)
            state.withLock { $0.requests += 1 }
            let transfer = try await engine.start(sent)
            let head = transfer.head
            if [200, 206, 304, 416].contains(head.status) {
                // The server refused the ETag that it has: it compares without quotes.
                if !isConditional, let etag, head.headers["etag"].flatMap(StoreResponse.unquoted) == etag {
                    toggleETagQuotes(from: isBare)
                }
                return transfer
            }
            if head.status == 412, isConditional {
                // The head of a response without the condition says which version there is now.
                await transfer.discard()
                isConditional = false
                continue
            }
            let body = try await transfer.collect(limit: 64 << 10)
            let response = StoreResponse(status: head.status, headers: head.headers, body: body)
            let failure: StoreError
            do throws(StoreError) {
                try await check(response, request, credentials, skew, region, sent: time)
                failure = StoreError(status: head.status, headers: head.headers, body: nil)
            } catch { failure = error }
            tries += 1
            let mayRetry =
                try await failure.kind == .expired
                ? Self.waitForRenewal(before: tries) : tries < 3 && failure.isCorrected
            guard mayRetry else {
                let location = await self.credentials.found
                throw .failed(refusal(failure, head.headers, location))
            }
        }
    }

    /// The pauses before expired credentials are read again. A program that renews them may be a little late.
    private static let renewalPauses: [Duration] = [.zero, .seconds(1), .seconds(2)]

    /// Waits before retry `number` (the first retry is 1) of a request whose credentials have expired. False after the
    /// last one.
    private static func waitForRenewal(before number: Int) async throws(TransferError) -> Bool {
        guard number <= renewalPauses.count else { return false }
        do { try await Task.sleep(for: renewalPauses[number - 1]) } catch { throw .cancelled }
        return true
    }

    private var region: String { state.withLock { $0.region } }

    private func signed(
        _ request: StoreRequest, by credentials: Credentials, at time: Int64, in region: String
    ) -> HTTPRequest {
        let location = address.location(of: request.key, region: region)
        let payload =
            request.payload ?? (request.memory == nil ? Signature.emptyPayload : Signature.unsignedPayload)
        let signed = Signature.SignedRequest(
            method: request.method, host: location.host, path: location.path, query: request.query,
            headers: request.headers, payload: payload)
        let signature = Signature(credentials: credentials, region: region, time: time, keys: keys)
        let added = request.validity.map { signature.query(for: signed, validFor: $0) } ?? []
        let items = request.query + added
        let query = items.isEmpty ? "" : "?" + URIText.query(items)
        var result = HTTPRequest(url: location.origin + URIText.path(location.path) + query)
        (result.method, result.memory) = (request.method, request.memory)
        // PUT and POST without a body send an empty one, so that there is a Content-Length.
        if request.memory == nil, ["PUT", "POST"].contains(request.method) { result.memory = RequestMemory([]) }
        result.isSentOnce = request.isSentOnce
        result.headers = request.headers + (request.isPresigned ? [] : signature.fields(for: signed))
        (result.connectTimeout, result.stallTimeout) = (.seconds(request.isPresigned ? 5 : 10), request.stallTimeout)
        return result
    }

    /// Throws the error, unless the response is a success. Corrects the skew, the credentials and the region first.
    ///
    /// - Parameters:
    ///   - skew: Seconds that were added to the local time when the request was signed.
    ///   - used: The region for which it was signed.
    ///   - sent: When it was sent, in seconds of `watch`.
    private func check(
        _ response: StoreResponse, _ request: StoreRequest, _ credentials: Credentials, _ skew: Int64, _ used: String,
        sent: Double
    ) async throws(StoreError) {
        let isSuccess = (200..<300).contains(response.status)
        // A status of 200 may come with an error in the body (CompleteMultipartUpload, CopyObject).
        let isXML = isSuccess && request.method != "GET" && !response.body.isEmpty
        let body = !isSuccess || isXML ? response.xml : nil
        if isSuccess, body?.name != "Error" {
            return state.withLock { state in
                state.pace.recordSuccess()
                if request.method != "GET", request.method != "HEAD" { state.written = max(state.written, sent) }
            }
        }
        let failure = StoreError(status: response.status, headers: response.headers, body: body)
        switch failure.kind {
        case .throttled: state.withLock { $0.pace.recordThrottled(at: watch.seconds) }
        case .denied, .full: state.withLock { $0.refused = watch.seconds }
        default: break
        }
        let isAboutTime = response.status == 403 || failure.kind == .clock
        if isAboutTime, correctSkew(by: response, from: skew) {
            // Servers use several codes for this, so the kind is set here.
            throw StoreError(
                status: failure.status, code: failure.code, message: failure.message, kind: .clock)
        }
        if body == nil, request.method == "HEAD", [400, 401, 403].contains(response.status) {
            try await findReason(ofHeadErrorFor: request.key)
        }
        switch failure.kind {
        case .expired: await self.credentials.drop(credentials)
        case .denied where failure.isAboutKey:
            // The operator may have replaced the key since it was read.
            await self.credentials.drop(credentials)
            guard let renewed = try? await self.credentials.credentials(), renewed != credentials else { break }
            throw StoreError(status: failure.status, code: failure.code, message: failure.message, kind: .expired)
        case .region(let region?):
            // Several requests may have been signed for the wrong region. The first response has corrected it for all.
            let (isRight, hasChanged) = state.withLock { state in
                if region != used, !state.hasMoved, region != state.region {
                    (state.region, state.hasMoved) = (region, true)
                    return (true, true)
                }
                return (region != used && region == state.region, false)
            }
            guard isRight else {
                throw StoreError(
                    status: failure.status, code: failure.code, message: failure.message, kind: .permanent)
            }
            guard hasChanged else { break }
            notify("the bucket \(address.bucket) is in the region \(region): set \(regionSetting)")
        case .region(nil):
            throw StoreError(status: failure.status, code: failure.code, message: failure.message, kind: .permanent)
        default: break
        }
        throw failure
    }

    /// Sets the skew by the Date of an error response. True if the request was signed with a wrong skew.
    ///
    /// - Parameter used: Seconds that were added to the local time when the request was signed.
    private func correctSkew(by response: StoreResponse, from used: Int64) -> Bool {
        let (hasChanged, skew) = state.withLock { state in
            (state.skew.record(date: response.headers["date"], at: UnixTime.seconds), state.skew.seconds)
        }
        if hasChanged {
            let way = skew < 0 ? "ahead of" : "behind"
            notify(
                "this machine's clock is \(abs(skew)) s \(way) the object store's: requests are signed by the store's")
        }
        // Several requests may have been signed with the wrong skew. The first response has corrected it for all.
        return abs(skew - used) > ClockSkew.tolerance
    }

    /// Finds out why a HEAD failed. Its response has no body, so that expired credentials look like missing
    /// permissions, and only a GET gets the reason.
    ///
    /// - Throws: The error of the GET, if it has the reason. Otherwise it returns, and the caller throws that of the
    ///   HEAD.
    private func findReason(ofHeadErrorFor key: String) async throws(StoreError) {
        var request = StoreRequest("GET", key)
        request.headers = [HeaderField("Range", "bytes=0-0")]
        do { _ = try await sendOnce(request) } catch {
            switch error.kind {
            case .clock, .expired, .region, .throttled, .denied, .cancelled, .noSuchBucket: throw error
            default: break
            }
        }
    }
}

extension StoreError {
    /// `check` has corrected the clock, the credentials or the region, so that no backoff is needed.
    fileprivate var isCorrected: Bool {
        switch kind {
        case .clock, .expired, .region: true
        default: false
        }
    }

    /// The server does not accept the access key or the secret, whatever is requested.
    fileprivate var isAboutKey: Bool { ["InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken"].contains(code) }

    /// False if libcurl does not send such a request, or if the response is too long, because a retry would fail again.
    fileprivate var isRetryable: Bool { status != 0 || code != "bad_job" && code != "too_large" }
}
