import Contract
import Executors
import Glibc
import Synchronization
import Transfer

// From the first request until all bytes are in.
extension Download {
    var exchange: Exchange {
        var template = Request(url: "")
        template.method = job.method
        template.body = job.body
        template.connectTimeout = job.connectTimeout.map { .seconds($0) } ?? context.connectTimeout
        template.stallTimeout = job.stallTimeout.map { .seconds($0) } ?? context.stallTimeout
        template.limits = limits
        return Exchange(engine: context.engine, template: template, custom: job.headers)
    }

    var limits: [TokenBucket] {
        (job.limitRate.map { [TokenBucket(bytesPerSecond: $0)] } ?? []) + (context.limit.map { [$0] } ?? [])
    }

    /// Fetches from the start (`.begin`) or what is missing (`.go`), until the file is whole and placed.
    func fetch(_ step: Step) async throws(TransferError) -> Step {
        if case .begin = step {
            let next = try await fetchWhole()
            if case .go = next {} else { return next }
        }
        var reconnects = 0
        var useIfRange = true
        while true {
            guard let output = state.withLock({ $0.output }), let total = state.withLock({ $0.entity.total }) else {
                return .begin
            }
            // What is handed over but not written yet would look like a gap.
            _ = try await output.checkpoint()
            guard let gap = output.written.gaps(in: total).first else { return .finished(try await commit(total)) }
            let before = output.written.count
            do {
                let result = try await fetchPart(gap, of: total, useIfRange: useIfRange)
                switch result {
                case .askAgain: useIfRange = false
                case .restart(let why): return .restart(why: why)
                case .done: break
                }
            } catch {
                guard case .failed(let failure) = error, RetryPolicy.isRetryable(failure.code),
                    failure.retryAfter == nil,
                    output.written.count - before >= Self.worthwhile, reconnects < Self.maximumReconnects, isResumable
                else { throw error }
                reconnects += 1
                try await pause(.milliseconds(200))
            }
        }
    }

    var isResumable: Bool {
        state.withLock { ($0.entity.strongValidator != nil || job.checksum != nil) && $0.entity.total != nil }
            && job.method == "GET"
    }

    enum PartResult {
        case done, askAgain
        case restart(why: String)
    }

    func fetchPart(_ gap: Range<Int64>, of total: Int64, useIfRange: Bool) async throws(TransferError)
        -> PartResult
    {
        let (entity, output) = state.withLock { ($0.entity, $0.output!) }
        let isLast = gap.upperBound == total
        var headers = [
            (name: "Range", value: "bytes=\(gap.lowerBound)-" + (isLast ? "" : "\(gap.upperBound - 1)")),
            (name: "Accept-Encoding", value: "identity"),
        ]
        let validator = useIfRange ? entity.strongValidator : nil
        if let validator { headers.append(("If-Range", validator)) }
        let (transfer, _) = try await exchange.ask(job.urls[0], headers)
        let question = Question(
            kind: .part(position: gap.lowerBound, end: gap.upperBound, of: entity, ifRange: validator != nil),
            isProven: job.checksum != nil)
        switch question.judge(transfer.head) {
        case .takePart(let position, let length):
            begin(transfer, base: output.written.count)
            defer { end(transfer) }
            _ = try await transfer.receive(into: output, at: position, length: length)
            return .done
        case .askWithoutIfRange: return .askAgain
        case .restart(let why): return .restart(why: why)
        case .fail(let failure): throw .failed(failure)
        case .takeWhole, .unchanged: return .restart(why: "the server sent what was not asked for")
        }
    }

    /// A plain GET without a range. `.go` if the connection was lost on the way and the rest can be fetched.
    func fetchWhole() async throws(TransferError) -> Step {
        let (transfer, url) = try await exchange.ask(job.urls[0], [("Accept-Encoding", "identity")])
        guard case .takeWhole(let entity, let length) = Question(kind: .whole, isProven: false).judge(transfer.head)
        else {
            if case .fail(let failure) = Question(kind: .whole, isProven: false).judge(transfer.head) {
                throw .failed(failure)
            }
            throw .failed(Failure(.badResponse, "the server's answer does not fit the question"))
        }
        if let refusal = refusal(of: transfer.head, length) { throw .failed(refusal) }
        let output = try await open(entity, suggested: suggestedName(transfer.head, url))
        let resumable = isResumable
        report(.started(total: length, resumable: resumable, file: state.withLock { $0.target!.path }))
        if let length, length > 0 {
            if !context.store.hasRoom(for: length) {
                transfer.cancel()
                if !context.store.couldEverHold(length) {
                    throw .failed(Failure(.tooLarge, "the file is larger than the disk"))
                }
                throw .noSpace
            }
            try await output.reserve(length)
        }
        begin(transfer, base: 0)
        let result: TransferEnd
        do {
            defer { end(transfer) }
            let limit = job.maxBytes ?? context.maximumSize
            // One byte more than allowed tells that there is more.
            result = try await transfer.receive(into: output, at: 0, length: length ?? nil)
            if let limit, result.position > limit { throw TransferError.failed(tooLarge(limit)) }
        } catch {
            let error = error as! TransferError
            guard case .failed(let failure) = error, RetryPolicy.isRetryable(failure.code), resumable else {
                throw error
            }
            guard let durable = try? await output.checkpoint(), durable.count >= Self.worthwhile else { throw error }
            try await pause(.milliseconds(200))
            return .go
        }
        if length == nil {
            state.withLock { $0.entity.total = result.position }
            if transfer.head.length == .untilClose {
                report(.warning("the server told the file's end only by closing the connection: it may be cut short"))
            }
        }
        _ = try await output.checkpoint()
        return .finished(try await commit(result.position))
    }

    func refusal(of head: ResponseHead, _ length: Int64?) -> Failure? {
        if let wanted = job.contentType {
            let sent = head.headers["content-type"]?.split(separator: ";").first.map(\.trimmed)?.lowercased() ?? "none"
            if sent != wanted.lowercased() {
                return Failure(
                    .wrongContentType, "the server sent \(sent), not \(wanted): this may be a login or error page")
            }
        }
        guard let length else { return nil }
        if let size = job.size, size != length {
            return Failure(.sizeMismatch, "the file has \(length) bytes, the job says \(size)")
        }
        if let limit = [job.maxBytes, context.maximumSize].compactMap(\.self).min(), length > limit {
            return tooLarge(limit)
        }
        return nil
    }

    func tooLarge(_ limit: Int64) -> Failure {
        Failure(.tooLarge, "the file is larger than the \(limit) bytes allowed")
    }

    func suggestedName(_ head: ResponseHead, _ final: WebURL) -> String {
        head.headers["content-disposition"].flatMap(ContentDisposition.fileName).flatMap(FileName.sanitise)
            ?? WebURL(job.urls[0]).flatMap { FileName.sanitise($0.lastComponent) } ?? FileName.sanitise(
                final.lastComponent) ?? "download"
    }

    /// A new generation of the partial file, beside the final name.
    func open(_ entity: Entity, suggested: String) async throws(TransferError) -> OutputFile {
        let (job, store, key, completed, earlier) = (job, context.store, key, completed, resume)
        let used = state.withLock { $0.partial?.generation }
        // The token names a run's first generation; a restart within the run adds to it.
        let generation =
            used == nil && earlier?.generation != token
            ? token : token + "." + String(UInt32.random(in: 0...(.max)), radix: 16)
        let target = try await onFileThread { () throws(Failure) in
            let target = try Target(job.path, suggested: suggested, in: store)
            try target.check(job.ifExists, mayReplace: target.isOwn(completed, store: store))
            return target
        }
        let result: Result<PartialFile, TransferError> = await context.engine.path.blocking.run {
            Result { () throws(TransferError) in
                try PartialFile.create(in: target.directory, key: key, generation: generation)
            }
        }
        let partial = try result.get()
        let output = OutputFile(
            descriptor: partial.descriptor, path: context.engine.path, durability: context.durability,
            digest: job.checksum?.algorithm)
        state.withLock { state in
            state.output = output
            state.partial = partial
            state.target = target
            state.entity = entity
            state.source = MaskedURL.text(job.urls[0])
            state.base = 0
            state.checkpointed = nil
        }
        return output
    }

    func begin(_ transfer: Transfer, base: Int64) {
        state.withLock { state in
            state.transfer = transfer
            state.base = base
        }
    }

    func end(_ transfer: Transfer) {
        state.withLock { state in
            state.transfer = nil
            state.base += transfer.progress.received
            state.earlier += transfer.progress.received
        }
    }
}
