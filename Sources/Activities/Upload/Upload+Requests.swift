import HaulContract
import HaulHTTP
import HaulStorage
import Synchronization

// Sends files in the bodies of ordinary requests.
extension Upload {
    typealias Opened = (file: Job.Upload.File, source: any SourceFile)

    /// Sends all files in one request: one file as its body, or a form.
    func send(_ files: [Opened], to url: WebURL) async throws(TransferError) -> StoredResponse {
        io.report(.started(total: state.withLock { $0.total }, resumable: false))
        guard plan.isForm else { return try await send(files[0], alreadyReceived: 0) }
        let form = MultipartForm()
        let body = UploadBody(pieces: form.pieces(plan.form, files), executor: executor)
        // A Content-Type of the job would not name the boundary, so it is replaced.
        let headers = plan.headers.filter { !$0.isNamed("content-type") } + [HeaderField("Content-Type", form.type)]
        return try await send(body, to: url, headers, alreadyReceived: 0)
    }

    /// Sends one file as the body of a request.
    private func send(_ opened: Opened, alreadyReceived: Int64) async throws(TransferError) -> StoredResponse {
        let (file, source) = opened
        let target = plan.target(of: file)
        guard let url = WebURL(target) else {
            throw TransferError(.badJob, "\(MaskedURL.text(target)) is not a valid http or https URL")
        }
        let headers = plan.headers(of: file, version: source.version.text)
        if let stream = source as? any SourceStream, stream.size == nil {
            let response = try await send(stream, to: url, headers)
            // S3 and its kind answer 501 to a body without a length.
            guard [411, 501].contains(response.status) else { return response }
            io.report(.warning("the server requires the length, so the pipe is stored before it is sent"))
            try await stream.findSize(isRequired: true)
            state.withLock { ($0.total, $0.response) = (source.size, nil) }
        }
        let body = UploadBody(pieces: [.file(source, 0..<(source.size ?? 0))], executor: executor)
        return try await send(body, to: url, headers, alreadyReceived: alreadyReceived)
    }

    /// Sends a stream while it is read, in a body without a length. A response that requires a length is returned.
    private func send(
        _ stream: any SourceStream, to url: WebURL, _ headers: [HeaderField]
    ) async throws(TransferError) -> StoredResponse {
        let (transfer, _) = try await sendRequest(url, plan.method, [], custom: headers, body: .stream(stream.body))
        let response = try await responseStorage.keep(transfer, method: plan.method)
        state.withLock { ($0.total, $0.response) = (stream.size, response) }
        if [411, 501].contains(response.status), stream.keptFrom == 0 { return response }
        guard job.request.expects(response.status) else { throw .failed(responseStorage.refusal(transfer.head)) }
        guard let size = stream.size, confirmed == size else {
            throw TransferError(
                .incomplete,
                "the server responded with \(response.status) when no more than \(confirmed) bytes were sent, before the pipe had ended"
            )
        }
        return response
    }

    private func send(
        _ body: UploadBody, to url: WebURL, _ headers: [HeaderField], alreadyReceived: Int64
    ) async throws(TransferError) -> StoredResponse {
        var headers = headers
        if let digest = plan.contentDigest {
            let value = Base64.encode(try await body.digest(digest.algorithm))
            headers.append(HeaderField("Content-Digest", "\(digest.rawValue)=:\(value):"))
        }
        let sent: RequestBody = body.count > 0 ? .stream(body) : .bytes([])
        let (transfer, _) = try await sendRequest(
            url, plan.method, [], custom: headers, body: sent, alreadyReceived: alreadyReceived)
        let response = try await responseStorage.keep(transfer, method: plan.method)
        state.withLock { $0.response = response }
        guard job.request.expects(response.status) else { throw .failed(responseStorage.refusal(transfer.head)) }
        guard body.count == 0 || confirmed == body.count else {
            throw TransferError(
                .incomplete,
                "the server responded with \(response.status) when no more than \(confirmed) of \(body.count) bytes were sent"
            )
        }
        return response
    }

    /// Sends a request for each file that no run has sent yet.
    func sendEach(_ files: [Opened]) async throws(TransferError) -> StoredResponse {
        io.report(.started(total: state.withLock { $0.total }, resumable: true))
        state.withLock { $0.fileResults?.begin(plan, versions: files.map(\.source.version.text)) }
        var alreadyReceived: Int64 = 0
        var failures: [Failure] = []
        var last: StoredResponse?
        for (index, opened) in files.enumerated() {
            let size = opened.source.size ?? 0
            if state.withLock({ $0.fileResults?.isDone(index) }) == true {
                alreadyReceived += size
                continue
            }
            // What fails before the next request must not be taken for an end of the last one.
            state.withLock { state in
                state.sentByEarlierRequests += state.sending?.totalSent ?? 0
                (state.sending, state.response) = (nil, nil)
            }
            do throws(TransferError) {
                let response = try await send(opened, alreadyReceived: alreadyReceived)
                last = response
                alreadyReceived += size
                state.withLock { state in
                    state.fileResults?.record(index, status: response.status)
                    state.sentByEarlierRequests += state.sending?.totalSent ?? 0
                    (state.sending, state.alreadyReceived) = (nil, alreadyReceived)
                }
            } catch {
                guard case .failed(let failure) = error else { throw error }
                last = response ?? last
                failures.append(failure)
                let mayGoOn = state.withLock { state in
                    state.fileResults?.record(index, failure)
                    if !plan.isRepeatable, state.sending?.hasBegun ?? false {
                        (state.hasSentUnrepeatable, state.isUnanswered) = (true, state.response == nil)
                    }
                    return state.response != nil
                }
                // The server did not respond, so the next file would probably fail as well.
                guard mayGoOn else { break }
            }
        }
        return try end(failures, last)
    }

    /// The last response, with the results of all files.
    ///
    /// - Throws: The failure of a request that must not be repeated and got no response. Otherwise the first one that
    ///   is worth a retry, else the first one.
    private func end(_ failures: [Failure], _ last: StoredResponse?) throws(TransferError) -> StoredResponse {
        let (results, isUnanswered) = state.withLock { ($0.fileResults!, $0.isUnanswered) }
        var response =
            last
            ?? StoredResponse(
                status: results.lastStatus ?? 200, headers: [], body: [], requestDigest: plan.digest,
                method: plan.method,
                validated: assignment.clock.milliseconds)
        response.files = results.text
        let worst = isUnanswered ? failures.last : failures.first(where: RetryPolicy.isRetryable)
        guard var failure = worst ?? failures.first else { return response }
        if last != nil { state.withLock { $0.response = response } }
        failure.message =
            "\(results.missing.count) of \(plan.files.count) files \(isUnanswered ? "got no response" : "were not sent") "
            + "(\(results.missing.prefix(5).joined(separator: ", "))\(results.missing.count > 5 ? ", …" : "")): "
            + failure.message
        throw .failed(failure)
    }
}
