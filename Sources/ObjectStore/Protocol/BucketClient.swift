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
        /// When a write last succeeded, in seconds of `watch`.
        var written: Double?
        var requests = 0
        /// Seconds between the local time and the Date of the last reply.
        var distance: Int64?
        /// The server compares If-Match with ETags without their quotes.
        var requiresBareETags = false
    }

    let address: BucketAddress
    let engine: TransferEngine
    let credentials: CredentialsChain
    /// Called with messages for the operator.
    let notify: @Sendable (String) -> Void
    private let watch = Stopwatch()
    private let keys = SigningKeys()
    private let state: Mutex<State>

    init(
        _ address: BucketAddress, engine: TransferEngine, credentials: CredentialsChain,
        notify: @escaping @Sendable (String) -> Void = { _ in }
    ) {
        (self.address, self.engine, self.credentials, self.notify) = (address, engine, credentials, notify)
        state = Mutex(State(region: address.region))
    }

    /// The number of requests that were sent, with all retries.
    var requests: Int { state.withLock { $0.requests } }

    /// Seconds since a write last succeeded; nil if none has.
    var secondsSinceWriting: Double? { state.withLock { state in state.written.map { watch.seconds - $0 } } }

    /// Seconds to add to the local time to get the server's.
    var skew: Int64 { state.withLock { $0.skew.seconds } }

    /// An If-Match field, with quotes unless the server requires none (radosgw 16).
    func ifMatch(_ etag: String) -> HeaderField {
        HeaderField("If-Match", state.withLock { $0.requiresBareETags } ? etag : "\"\(etag)\"")
    }

    /// The server says that an object has another ETag, but sends the same one.
    func toggleETagQuotes() { state.withLock { $0.requiresBareETags.toggle() } }

    /// Seconds since 1970 by the server's clock, with the differences that a signature usually tolerates.
    private var exactTime: Int64 {
        let (skew, distance) = state.withLock { ($0.skew.seconds, $0.distance ?? $0.skew.seconds) }
        return UnixTime.seconds + (abs(distance - skew) <= ClockSkew.worthwhile ? distance : skew)
    }

    /// Seconds since 1970 by the server's clock.
    var time: Int64 { UnixTime.seconds + skew }

    /// Sends a request, with backoff between its tries.
    ///
    /// - Throws: The refusal of the last try.
    func send(_ request: StoreRequest) async throws(StoreRefusal) -> StoreReply {
        var tries = 0
        var generator = SystemRandomNumberGenerator()
        let begun = ContinuousClock.now
        while true {
            let refusal: StoreRefusal
            do { return try await sendOnce(request) } catch { refusal = error }
            tries += 1
            var isAtOnce = false
            switch refusal.meaning {
            case .passing, .throttled: break
            // `sendOnce` has corrected the clock, the credentials or the region: no backoff is needed.
            case .clock, .expired, .region: isAtOnce = tries < 3
            default: throw refusal
            }
            guard tries < request.tries, ContinuousClock.now - begun < request.maxTime else { throw refusal }
            if isAtOnce { continue }
            guard refusal.isWorthWaiting else { throw refusal }
            do { try await Task.sleep(for: RequestBackoff.wait(before: tries, using: &generator)) } catch {
                throw StoreRefusal(TransferError.cancelled)
            }
        }
    }

    private func sendOnce(_ request: StoreRequest) async throws(StoreRefusal) -> StoreReply {
        let wait = state.withLock { state in
            state.requests += 1
            return state.pace.turn(at: watch.seconds)
        }
        if wait > 0 {
            do { try await Task.sleep(for: .seconds(wait)) } catch { throw StoreRefusal(TransferError.cancelled) }
        }
        let credentials = try await credentials.credentials()
        let skew = skew
        let now = request.isNaming ? exactTime : UnixTime.seconds + skew
        let time = now - request.age - (request.seen.map { (ContinuousClock.now - $0).components.seconds } ?? 0)
        let reply: StoreReply
        do throws(TransferError) {
            let transfer = try await engine.start(signed(request, by: credentials, at: time))
            let body = try await transfer.collect(limit: request.limit)
            reply = StoreReply(status: transfer.head.status, headers: transfer.head.headers, body: body)
        } catch { throw StoreRefusal(error) }
        let date = reply.headers["date"].flatMap(HTTPDate.parse)
        if let date { state.withLock { $0.distance = date - UnixTime.seconds } }
        if reply.status == 403, let validity = request.validity, let date, date - time >= validity - 1 {
            // Either the network was slow, or this machine's clock is behind, and each request would expire at once.
            let wasOff = correctSkew(by: reply, from: skew)
            throw StoreRefusal(
                status: 403, code: "RequestExpired", message: "the store received the request too late",
                meaning: wasOff ? .clock : .passing)
        }
        try await check(reply, request, credentials, skew)
        return reply
    }

    private func signed(_ request: StoreRequest, by credentials: Credentials, at time: Int64) -> HTTPRequest {
        let region = state.withLock { $0.region }
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
        result.headers = request.headers + (request.isNaming ? [] : signature.fields(for: signed))
        (result.connectTimeout, result.stallTimeout) = (.seconds(request.isNaming ? 5 : 10), request.stallTimeout)
        return result
    }

    /// Throws the refusal, unless the reply is a success. Corrects the skew, the credentials and the region first.
    ///
    /// - Parameter skew: Seconds that were added to the local time when the request was signed.
    private func check(
        _ reply: StoreReply, _ request: StoreRequest, _ credentials: Credentials, _ skew: Int64
    ) async throws(StoreRefusal) {
        let isFine = (200..<300).contains(reply.status)
        // A status of 200 may come with an error in the body (CompleteMultipartUpload, CopyObject).
        let isXML = isFine && request.method != "GET" && !reply.body.isEmpty
        let body = !isFine || isXML ? reply.xml : nil
        if isFine, body?.name != "Error" {
            return state.withLock { state in
                state.pace.recordServed()
                if request.method != "GET", request.method != "HEAD" { state.written = watch.seconds }
            }
        }
        let refusal = StoreRefusal(status: reply.status, headers: reply.headers, body: body)
        if refusal.meaning == .throttled { state.withLock { $0.pace.recordThrottled(at: watch.seconds) } }
        let isAboutTime = reply.status == 403 || refusal.meaning == .clock
        if isAboutTime, correctSkew(by: reply, from: skew) {
            // Servers use several codes for this, so the meaning is set here.
            throw StoreRefusal(
                status: refusal.status, code: refusal.code, message: refusal.message, meaning: .clock)
        }
        if body == nil, request.method == "HEAD", [400, 401, 403].contains(reply.status) {
            try await learn(why: request.key)
        }
        switch refusal.meaning {
        case .expired: await self.credentials.drop(credentials)
        case .region(let region?):
            let isNews = state.withLock { state in
                guard !state.hasMoved, region != state.region else { return false }
                (state.region, state.hasMoved) = (region, true)
                return true
            }
            guard isNews else {
                throw StoreRefusal(
                    status: refusal.status, code: refusal.code, message: refusal.message, meaning: .final)
            }
            notify("the bucket \(address.bucket) is in the region \(region): set --s3-region")
        case .region(nil):
            throw StoreRefusal(status: refusal.status, code: refusal.code, message: refusal.message, meaning: .final)
        default: break
        }
        throw refusal
    }

    /// Sets the skew by the Date of a refusal. True if the request was signed with a wrong skew.
    ///
    /// - Parameter used: Seconds that were added to the local time when the request was signed.
    private func correctSkew(by reply: StoreReply, from used: Int64) -> Bool {
        let (isNews, skew) = state.withLock { state in
            (state.skew.record(date: reply.headers["date"], at: UnixTime.seconds), state.skew.seconds)
        }
        if isNews {
            let way = skew < 0 ? "ahead of" : "behind"
            notify(
                "this machine's clock is \(abs(skew)) s \(way) the object store's: requests are signed by the store's")
        }
        // Several requests may have been signed with the wrong skew. The first reply has corrected it for all.
        return abs(skew - used) > ClockSkew.worthwhile
    }

    /// Finds out why a HEAD was refused. The reply has no body, so expired credentials look like missing permissions. A
    /// GET gets the reason.
    ///
    /// - Throws: The refusal of the GET, if it has the reason. Otherwise returns, and the refusal of the HEAD counts.
    private func learn(why key: String) async throws(StoreRefusal) {
        var request = StoreRequest("GET", key)
        request.headers = [HeaderField("Range", "bytes=0-0")]
        do { _ = try await sendOnce(request) } catch {
            switch error.meaning {
            case .clock, .expired, .region, .throttled, .denied, .cancelled, .noSuchBucket: throw error
            default: break
            }
        }
    }
}

extension StoreRefusal {
    /// False if libcurl does not send such a request, or the reply is too long: another try would end the same way.
    fileprivate var isWorthWaiting: Bool { status != 0 || code != "bad_job" && code != "too_large" }
}
