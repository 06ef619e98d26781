import HaulContract
import HaulExecutors
import HaulHTTP
import HaulStorage
import Synchronization

// From the first request until all bytes have arrived.
extension Download {
    var follower: RedirectFollower {
        var template = HTTPRequest(url: "")
        template.method = job.method
        template.body = job.body.map(RequestBody.text)
        template.connectTimeout = job.connectTimeout ?? context.connectTimeout
        template.stallTimeout = job.stallTimeout ?? context.stallTimeout
        template.limits = limits
        template.hostBuckets = assignment.hostBuckets
        (template.isSentOnce, template.sending) = (job.method != "GET", sending)
        return RedirectFollower(
            engine: context.engine, buckets: context.buckets, template: template, custom: headers, digests: digests,
            cookies: assignment.cookies, trace: io.trace, authentication: context.authentication,
            acceptsAnyEncoding: true)
    }

    /// Fetches the file from the start (`.begin`), or its missing bytes (`.fetchMissing`), and commits it.
    func fetch(_ step: Step) async throws(TransferError) -> Step {
        if case .fetchMissing = step, let generation, let total = generation.entity.total,
            generation.partial.written.contains(0..<total), let why = try await refusal(of: generation)
        {
            return .restart(why: why)
        }
        var first: FirstResponse?
        if case .begin = step {
            let response: FirstResponse
            switch try await begin() {
            case .response(let good): response = good
            case .finished(let outcome): return .finished(outcome)
            }
            guard let length = response.length else { return .finished(try await fetchToEnd(response)) }
            if isSmall(length), let outcome = try await fetchAtOnce(response, length) { return .finished(outcome) }
            first = response
        }
        while true {
            guard let generation, let total = generation.entity.total else { return .begin }
            var fetcher = SegmentFetcher(
                self, generation, total: total,
                refusesRanges: first?.transfer.head.headers["accept-ranges"]?.lowercased() == "none")
            switch try await fetcher.run(first: first) {
            case .whole: break
            case .restart(let why): return .restart(why: why)
            case .damaged(let why):
                // If this run gets no further, no other run may continue.
                await generation.partial.discard(soon: false)
                return .restart(why: why)
            }
            first = nil
            if generation.partial.written.contains(0..<total) {
                return .finished(try await commit(generation, total))
            }
        }
    }

    /// Why the bytes of an earlier run, which only lack a name, are not this push's file; nil if they are. No request for
    /// bytes would show that.
    private func refusal(of whole: Generation) async throws(TransferError) -> String? {
        switch reusePolicy.proof(for: whole) {
        case .nothing, .digest: return nil
        case .server where try await isUnchanged(whole.entity): return nil
        case .server: return "the remote file has changed, or nothing proves that it has not"
        case .impossible: return "nothing shows which content type the bytes so far have"
        }
    }

    var isResumable: Bool {
        state.withLock { state in
            guard let entity = state.generation?.entity, entity.total != nil else { return false }
            return job.method == "GET" && !state.isAlone
                && (entity.strongValidator != nil || expectedDigest(of: entity) != nil)
        }
    }

    /// The digest that the whole file must have: the job's, else the server's.
    func expectedDigest(of entity: Entity) -> Job.Checksum? { job.checksum ?? entity.digest }

    /// Whether bytes of several responses may be joined, because a digest will verify the whole file.
    var isProven: Bool {
        state.withLock { state in !state.isAlone && state.generation.flatMap { expectedDigest(of: $0.entity) } != nil }
    }

    var mirrors: Mirrors { state.withLock { $0.mirrors } }

    /// The maximum number of connections at once.
    var connectionLimit: Int { state.withLock { $0.isAlone } ? 1 : job.connections ?? context.connections }

    /// A small file is received into memory and then committed in one step, unless a checkpoint is due before.
    private func isSmall(_ length: Int64) -> Bool {
        // The bytes are compared with those of an existing file first, which requires a partial file.
        length <= 64 << 10 && job.minSpeed == nil && assignment.existing?.isCompared != true
    }

    /// The result of the request for the whole file.
    private enum WholeFileResponse {
        case response(FirstResponse)
        /// The existing file is the one that the server offers.
        case finished(ActivityOutcome)
    }

    /// Requests the whole file, without a range. A returned response is accepted; unless it is small, its file is open.
    private func begin() async throws(TransferError) -> WholeFileResponse {
        state.withLock { $0.received.beginGeneration() }
        let mirrors = mirrors
        let (mirror, host) = (mirrors.current, mirrors[mirrors.current].host)
        guard await enter(host) else { throw .cancelled }
        if job.method != "GET", await !io.markSent() {
            context.hosts.leave(host)
            throw .cancelled
        }
        do {
            let condition = assignment.existing?.modifiedSince.map { HeaderField("If-Modified-Since", $0) }
            let (transfer, finalURL) = try await follower.send(
                mirrors[mirror], [.identity] + [condition].compactMap(\.self))
            let result = try await accept(transfer, finalURL, from: mirror, of: host)
            if case .finished = result { context.hosts.leave(host) }
            return result
        } catch {
            if case .failed(let failure) = error { backOff(host, after: failure) }
            context.hosts.leave(host)
            throw error
        }
    }

    /// Makes this worker's downloads wait for a host that has refused a request. `leave` comes after it, because it would
    /// otherwise let the next download take the place of the refused connection.
    func backOff(_ host: String, after failure: Failure) {
        guard [.http(429), .http(503), .connect].contains(failure.code) else { return }
        context.hosts.backOff(host, retryAfter: failure.retryAfter)
    }

    /// Accepts a response to the request for the whole file, or throws why it cannot be accepted.
    private func accept(
        _ transfer: Transfer, _ finalURL: FinalURL, from mirror: Int, of host: String
    ) async throws(TransferError) -> WholeFileResponse {
        if let outcome = try await existing(transfer, finalURL, isUnmodified: true) { return .finished(outcome) }
        let entity: Entity
        let length: Int64?
        switch ResponseExpectation(kind: .whole, isProven: false, resource: finalURL.resource).decision(
            on: transfer.head)
        {
        case .takeWhole(let found, let announced): (entity, length) = (found, announced)
        case .fail(let failure): throw .failed(failure)
        default: throw .failed(Failure(.badResponse, "the server's response does not fit the request"))
        }
        if let refusal = refusal(of: transfer.head, length) { throw .failed(refusal) }
        if let outcome = try await existing(transfer, finalURL, entity) { return .finished(outcome) }
        let generation = beginGeneration(of: entity, from: finalURL, named: suggestedName(transfer.head, finalURL.url))
        if length.map(isSmall) != true { try await open(generation) }
        state.withLock { state in
            state.mirrors[mirror].finalURL = finalURL
            state.mirrors[mirror].entity = entity
        }
        io.report(.started(total: length, resumable: isResumable))
        io.trace?(entity.validatorSummary(isResumable: isResumable))
        if let warning = compressionWarning(transfer.head, finalURL.url) {
            io.report(.warning(warning))
        }
        return .response(FirstResponse(transfer: transfer, host: host, generation: generation, length: length))
    }

    /// The outcome if the file exists already. nil if it does not, or if the caller did not ask for the check.
    private func existing(
        _ transfer: Transfer, _ finalURL: FinalURL, _ entity: Entity? = nil, isUnmodified: Bool = false
    ) async throws(TransferError) -> ActivityOutcome? {
        guard let existing = assignment.existing else { return nil }
        if isUnmodified, transfer.head.status != 304 || existing.modifiedSince == nil { return nil }
        let offer = Offer(
            name: suggestedName(transfer.head, finalURL.url), entity: entity ?? Entity(transfer.head, total: nil),
            source: MaskedURL.text(mirrors[mirrors.current].url), isUnmodified: isUnmodified,
            hasMismatch: state.withLock { $0.hasMismatch })
        guard let file = try await existing.completedFile(for: offer) else { return nil }
        await transfer.discard()
        return .completed(file, seconds: 0, unchanged: true)
    }

    /// Begins a new generation, whose partial file is not open yet.
    private func beginGeneration(of entity: Entity, from finalURL: FinalURL, named name: String) -> Generation {
        state.withLock { state in
            // The token names the run's first generation. A restart within the run appends a random suffix.
            let isFirst = state.generation == nil && resume?.generation != assignment.token
            let suffix = isFirst ? "" : "." + String(UInt32.random(in: 0...(.max)), radix: 16)
            let partial = context.store.begin(
                file(of: entity), generation: assignment.token + suffix, suggested: name)
            let mirror = state.mirrors[state.mirrors.current]
            let generation = Generation(
                partial: partial, predecessor: state.generation?.partialInStore, entity: entity, source: mirror.source,
                sourceResource: mirror.sourceResource, contentType: job.contentType.map(MediaType.essence),
                finalURL: finalURL.text)
            state.generation = generation
            state.completeness = entity.total == nil ? .end : .length
            return generation
        }
    }

    private func open(_ generation: Generation, with bytes: [UInt8] = []) async throws(TransferError) {
        try await generation.partial.open(
            total: generation.entity.total, hashing: expectedDigest(of: generation.entity)?.algorithm, with: bytes)
        io.recordLocation(generation.resumePoint(in: context.store))
        await discardPredecessor()
    }

    /// Removes what the generation before a restart has left, now that no run would continue it.
    func discardPredecessor() async {
        let predecessor = state.withLock { state in
            defer { state.generation?.predecessor = nil }
            return state.generation?.predecessor
        }
        await predecessor?.discard(soon: true)
    }

    /// Receives a small file into memory and commits it in one step. nil if a checkpoint was due before the end: the
    /// bytes so far are in the partial file then, and the rest is fetched as for a large file.
    private func fetchAtOnce(_ first: FirstResponse, _ length: Int64) async throws(TransferError) -> ActivityOutcome? {
        begin(0, first.transfer)
        var isOpen = true
        func close() {
            guard isOpen else { return }
            isOpen = false
            end(0, first.transfer)
            context.hosts.leave(first.host)
        }
        defer { close() }
        let bytes = try await first.transfer.collect(limit: Int(length))
        if bytes.count == length {
            // Release the host's connection before the commit, which may take long.
            close()
            return try await commit(first.generation, bytes)
        }
        try await open(first.generation, with: bytes)
        isOpen = false
        state.withLock { $0.received.handOver(0) }
        return nil
    }

    /// Receives a response of unknown length over one connection, and commits the file.
    private func fetchToEnd(_ first: FirstResponse) async throws(TransferError) -> ActivityOutcome {
        var generation = first.generation
        let total = try await receiveToEnd(first)
        try await confirmEnd(of: first, at: total)
        generation.entity.total = total
        state.withLock { $0.generation?.entity.total = total }
        return try await commit(generation, total)
    }

    /// Returns the length in bytes.
    private func receiveToEnd(_ first: FirstResponse) async throws(TransferError) -> Int64 {
        defer { context.hosts.leave(first.host) }
        let transfer = first.transfer
        // One byte more than allowed shows that the file is too long.
        if let limit = [sizeLimit, job.size].compactMap(\.self).min() { transfer.shorten(to: limit + 1) }
        begin(0, transfer)
        defer { end(0, transfer) }
        let watch = speedFloor.map { floor in Task { await isTooSlow(transfer, floor) } }
        let result: TransferEnd
        do throws(TransferError) {
            result = try await transfer.receive(into: first.generation.partial, at: 0)
            watch?.cancel()
        } catch {
            watch?.cancel()
            if let floor = speedFloor, await watch?.value == true { throw .failed(floor.failure) }
            throw error
        }
        if let limit = sizeLimit, result.position > limit { throw .failed(tooLarge(limit)) }
        if let size = job.size, result.position > size {
            throw .failed(Failure(.sizeMismatch, "the file is longer than the \(size) bytes that were expected"))
        }
        if transfer.head.length == .untilClose {
            state.withLock { $0.completeness = .nothing }
            io.report(
                .warning(
                    "the server marked the end of the file only by closing the connection, so the file may be incomplete"
                ))
        }
        return result.position
    }

    /// Asks a server of HTTP/2 for what follows the last byte of a file of unknown length. libcurl 7.88 does not report
    /// whether the stream has ended, or whether the server has reset it without an error, in the middle of the body.
    private func confirmEnd(of first: FirstResponse, at total: Int64) async throws(TransferError) {
        guard first.transfer.head.isHTTP2, job.method == "GET", job.size == nil,
            expectedDigest(of: first.generation.entity) == nil
        else { return }
        guard await enter(first.host) else { throw .cancelled }
        defer { context.hosts.leave(first.host) }
        let mirrors = mirrors
        var ends: Bool?
        do throws(TransferError) {
            let (transfer, _) = try await follower.send(
                mirrors[mirrors.current], [.identity, HeaderField("Range", "bytes=\(total)-")],
                from: mirrors[mirrors.current].finalURL)
            ends = ResponseExpectation.ends(at: total, transfer.head)
            await transfer.discard()
        } catch {
            // A URL that responds only once cannot be requested again.
            if Task.isCancelled { throw .cancelled }
        }
        switch ends {
        case true?: break
        case false?:
            throw TransferError(
                .incomplete, "the server ended the response after \(total) bytes, although the file goes on")
        case nil:
            state.withLock { $0.completeness = .nothing }
            io.report(
                .warning("over HTTP/2, the server did not send the file's length, so the file may be incomplete"))
        }
    }

    var speedFloor: SpeedFloor? {
        job.minSpeed.map { SpeedFloor(bytesPerSecond: $0, window: context.speedWindow) }
    }

    /// Cancels the transfer once it is too slow, and returns true. False if the task is cancelled before.
    private func isTooSlow(_ transfer: Transfer, _ floor: SpeedFloor) async -> Bool {
        var (floor, holds) = (floor, HoldRatio(isExpected: false))
        let watch = Stopwatch()
        while (try? await Task.sleep(for: .seconds(1))) != nil {
            let now = watch.seconds
            holds.sample([0: Double(transfer.progress.held) / 1e9], now: now)
            if floor.isTooSlow(arrived: transferred, isHeld: holds.isLarge, now: now) {
                transfer.cancel()
                return true
            }
        }
        return false
    }

    var sizeLimit: Int64? { [job.maxBytes, context.maxFileSize].compactMap(\.self).min() }

    func refusal(of head: ResponseHead, _ length: Int64?) -> Failure? {
        if assignment.refusesMetalinks,
            head.headers["content-type"].map({ MediaType.metalinks.contains(MediaType.essence($0)) }) == true
        {
            return Failure(.wrongContentType, "the server sent a Metalink", isFinal: true)
        }
        if let refusal = typeRefusal(of: head) { return refusal }
        guard let length else { return nil }
        if let size = job.size, size != length {
            return Failure(.sizeMismatch, "the file has \(length) bytes, and \(size) were expected")
        }
        if let limit = sizeLimit, length > limit {
            return tooLarge(limit)
        }
        return nil
    }

    /// The failure of a response that has not the media type which the job requires; nil if it has.
    func typeRefusal(of head: ResponseHead) -> Failure? {
        guard let wanted = job.contentType else { return nil }
        let sent = head.headers["content-type"].map(MediaType.essence) ?? "none"
        guard sent != MediaType.essence(wanted) else { return nil }
        return Failure(
            .wrongContentType,
            "the server sent \(sent.truncated(toBytes: 200)), not \(wanted): this may be a login or error page")
    }

    func tooLarge(_ limit: Int64) -> Failure {
        Failure(.tooLarge, "the file is larger than the \(limit) bytes allowed")
    }

    /// Counts a transfer as one of the present generation.
    func begin(_ id: Int, _ transfer: Transfer) { state.withLock { $0.received.begin(id, transfer) } }

    func end(_ id: Int, _ transfer: Transfer) { state.withLock { $0.received.end(id, transfer) } }
}

/// The response to the request for the whole file.
struct FirstResponse: Sendable {
    let transfer: Transfer
    /// The host whose limit counts the connection.
    let host: String
    let generation: Generation
    let length: Int64?
}
