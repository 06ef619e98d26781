import HaulContract
import HaulHTTP
import HaulStorage
import Synchronization

// tus 1.0: https://tus.io/protocols/resumable-upload. Only the server knows which bytes it has. Its responses are
// accepted if they are plausible.
extension Upload {
    /// Bytes of one request whose digest the server checks. They are read twice, and sent again if the digest is wrong.
    private static let maxCheckedChunk: Int64 = 16 << 20
    /// Bytes of one request with bytes of a stream. They are kept in memory until the server has confirmed them, while
    /// those of the next request are read.
    private static let maxStreamedChunk: Int64 = 7 << 20

    func sendByTus(_ source: any SourceFile, to url: WebURL) async throws(TransferError) -> StoredResponse {
        let stream = source as? any SourceStream
        if let resumed, resumed.version != source.version.text {
            throw TransferError(
                .sourceChanged,
                "the file is not the one with which the upload began; push the job again to send the new version")
        }
        var failures = TusFailureCounts()
        var (isOffsetKnown, isReported) = (false, false)
        while true {
            guard let upload = state.withLock({ $0.tus }) else {
                try await create(source, at: url)
                (isOffsetKnown, isReported) = (true, true)
                io.report(.started(total: source.size, resumable: true))
                continue
            }
            if isOffsetKnown, upload.offset == source.size, !upload.isLengthDeferred, let response = response {
                return response
            }
            let tusResponse = isOffsetKnown ? try await patch(upload, source, url) : try await head(upload, source, url)
            switch tusResponse {
            case .offset(let offset):
                failures.record(offset: offset)
                if let stream, offset < stream.keptFrom {
                    throw TransferError(
                        .sourceChanged,
                        "the server went back to byte \(offset), and the bytes before \(stream.keptFrom) of the pipe are gone, because the server had them: send a file",
                        isFinal: true)
                }
                if !isReported { io.report(.resumed(offset: offset, total: source.size)) }
                if isReported, offset < upload.offset {
                    io.report(.warning("the server has lost bytes: its offset fell from \(upload.offset) to \(offset)"))
                }
                (isOffsetKnown, isReported) = (true, true)
                state.withLock { state in
                    state.tus?.record(offset: offset)
                    state.total = source.size
                }
                stream?.drop(before: offset)
            case .forgotten(let why):
                try failures.recordForgotten(why)
                guard stream.map({ $0.keptFrom == 0 }) ?? true else {
                    throw TransferError(
                        .badResponse, "\(why), and a pipe cannot be read again from its beginning: send a file",
                        isFinal: true)
                }
                io.report(.restarted(why: why))
                state.withLock { $0.tus = nil }
            case .tooLarge(let failure):
                // A proxy may limit the size of a request, which the server behind it does not announce.
                let smaller = min(upload.chunkSize, try await end(of: upload, source) - upload.offset) / 4
                guard smaller >= TusUpload.minChunk else { throw .failed(failure) }
                state.withLock { $0.tus?.limit(to: smaller) }
            case .unknownOffset(let failure):
                try failures.recordUnknownOffset(failure)
                isOffsetKnown = false
            case .locked(let failure):
                let wait = try failures.lockDelay(failure)
                do { try await Task.sleep(for: wait) } catch { throw .cancelled }
                isOffsetKnown = false
            }
        }
    }

    /// Asks what the server supports, then creates an upload.
    private func create(_ source: any SourceFile, at url: WebURL) async throws(TransferError) {
        let server = try await server(at: url)
        if let stream = source as? any SourceStream, !server.defersLength {
            try await stream.findSize(isRequired: true)
        }
        let size = source.size
        state.withLock { $0.total = size }
        if let maximum = server.maximum, let size, size > maximum {
            throw TransferError(.tooLarge, "the file has \(size) bytes; the server accepts at most \(maximum)")
        }
        let length =
            size.map { HeaderField("Upload-Length", String($0)) } ?? HeaderField("Upload-Defer-Length", "1")
        let (transfer, finalURL) = try await send(
            url, "POST", [length] + metadata, body: .bytes([]))
        let response = try await keep(transfer, "POST")
        guard 200...299 ~= response.status else { throw .failed(responseStorage.refusal(transfer.head)) }
        guard let location = transfer.head.headers["location"], let uploadURL = finalURL.url.resolve(location) else {
            // The next attempt would not get it either, and might leave another upload at the server.
            throw .failed(
                Failure(
                    .badResponse,
                    "the server answered \(response.status) to the creation of an upload, without a Location: \(url) does not seem to be where a tus server creates uploads",
                    isFinal: true))
        }
        guard url.scheme == "http" || uploadURL.scheme == "https" else {
            throw TransferError(
                .redirectForbidden, "the tus server redirects from https to http (\(uploadURL.host)); that is refused")
        }
        guard uploadURL.unmasked.utf8.count <= URLRule.maxBytes else {
            throw TransferError(
                .badResponse, "the tus server's URL of the upload is longer than \(URLRule.maxBytes) bytes (Location)",
                isFinal: true)
        }
        state.withLock { state in
            state.createdUploads += 1
            state.tus = TusUpload(
                url: uploadURL.withoutCredentials.unmasked, version: source.version.text,
                generation: "\(assignment.token).\(state.createdUploads)", server: server)
            state.tus?.isLengthDeferred = size == nil
            state.tus?.sentEnd = 0
        }
        io.recordLocation(resumePoint)
    }

    /// Asks what the server supports. A server that closes the connection instead may still accept uploads.
    private func server(at url: WebURL) async throws(TransferError) -> TusServer {
        let options: Transfer
        do throws(TransferError) { (options, _) = try await send(url, "OPTIONS") } catch {
            guard case .failed(let failure) = error, [.incomplete, .badResponse].contains(failure.code) else {
                throw error
            }
            return TusServer()
        }
        let server = try TusServer(options.head)
        await options.discard()
        return server
    }

    /// The file's name and type, without which some servers forget an upload, unless the job sets the field itself.
    private var metadata: [HeaderField] {
        if plan.headers.contains(where: { $0.isNamed(Self.metadataName) }) { return [] }
        let file = plan.files[0]
        let items = [("filename", file.sentName), ("filetype", file.type ?? Job.Upload.File.defaultType)]
        let text = items.map { "\($0.0) \(Base64.encode($0.1.utf8))" }.joined(separator: ",")
        return [HeaderField("Upload-Metadata", text)]
    }

    private static let metadataName = "upload-metadata"

    /// Asks how many bytes the server has.
    private func head(
        _ upload: TusUpload, _ source: any SourceFile, _ url: WebURL
    ) async throws(TransferError) -> TusResponse {
        let (transfer, _) = try await send(url, "HEAD", upload: upload)
        let response = try await keep(transfer, "HEAD")
        guard 200...299 ~= response.status else {
            let failure = responseStorage.refusal(transfer.head)
            switch response.status {
            // Each of these says that there is no such upload (section HEAD of the protocol). 400 is what some servers
            // respond when they cannot read their record of it.
            case 400, 403, 404, 410:
                return .forgotten("the server does not know the upload any more (\(response.status))")
            case 423: return .locked(failure)
            default: throw .failed(failure)
            }
        }
        // No more can have arrived than was sent, nor of a stream more than was read.
        let end =
            if let sentEnd = upload.sentEnd { sentEnd } else if let size = source.size {
                size
            } else if let stream = source as? any SourceStream {
                try await stream.waitForBytes(0, from: stream.keptFrom)
            } else { Int64(0) }
        let claimed = response["upload-offset"].flatMap { Int64($0) }
        guard let offset = claimed, 0...end ~= offset else {
            let why =
                "the tus server has \(response["upload-offset"]?.truncated(toBytes: 40) ?? "no number of") bytes of \(end)"
            // Another run may have sent them, whose claim a failover of Redis has lost, or the server is wrong. The next
            // upload has bytes of this run alone, while another attempt would have to believe the server.
            if upload.sentEnd != nil, claimed ?? 0 > end { return .forgotten(why) }
            throw TransferError(.badResponse, why)
        }
        if let length = response["upload-length"] {
            guard length == source.size.map(String.init) else {
                return .forgotten("the server's upload is one of \(length.truncated(toBytes: 40)) bytes")
            }
            state.withLock { $0.tus?.isLengthDeferred = false }
        }
        return .offset(offset)
    }

    /// Where the next request ends. Waits for bytes of a stream.
    private func end(of upload: TusUpload, _ source: any SourceFile) async throws(TransferError) -> Int64 {
        let maxBytes = upload.server.checksum == nil ? upload.chunkSize : min(upload.chunkSize, Self.maxCheckedChunk)
        guard let stream = source as? any SourceStream else {
            return upload.offset + min((source.size ?? 0) - upload.offset, maxBytes)
        }
        let chunk = min(maxBytes, Self.maxStreamedChunk)
        // One byte more, so that the last request knows that it is the last one.
        let end = try await stream.waitForBytes(chunk + 1, from: upload.offset)
        return min(end, upload.offset + chunk)
    }

    private func recordSent(from start: Int64) {
        let end = start + sent
        state.withLock { state in
            if let before = state.tus?.sentEnd { state.tus?.sentEnd = max(before, end) }
        }
    }

    /// Sends the bytes that the server does not have, one chunk at most.
    private func patch(
        _ upload: TusUpload, _ source: any SourceFile, _ url: WebURL
    ) async throws(TransferError) -> TusResponse {
        let (start, end) = (upload.offset, try await end(of: upload, source))
        let body = UploadBody(pieces: [.file(source, start..<end)], executor: executor)
        var headers = [
            HeaderField("Upload-Offset", String(start)),
            HeaderField("Content-Type", "application/offset+octet-stream"),
        ]
        let isLast = end == source.size
        if upload.isLengthDeferred, isLast { headers.append(HeaderField("Upload-Length", String(end))) }
        if let algorithm = upload.server.checksum {
            let digest = Base64.encode(try await body.digest(algorithm))
            headers.append(HeaderField("Upload-Checksum", "\(algorithm.rawValue) \(digest)"))
        }
        let (transfer, response): (Transfer, StoredResponse)
        do throws(TransferError) {
            (transfer, _) = try await send(
                url, "PATCH", headers, body: start == end ? .bytes([]) : .stream(body), alreadyReceived: start,
                upload: upload)
            response = try await keep(transfer, "PATCH")
            recordSent(from: start)
        } catch {
            recordSent(from: start)
            let sent = sent
            state.withLock { $0.tus?.unanswered = TusUpload.Unanswered(offset: start, sent: sent) }
            throw error
        }
        let failure = responseStorage.refusal(transfer.head)
        switch response.status {
        case 200...299:
            guard let offset = response["upload-offset"].flatMap({ Int64($0) }) else {
                return .unknownOffset(
                    Failure(.badResponse, "the tus server does not send the offset of the upload (Upload-Offset)"))
            }
            if isLast { state.withLock { $0.tus?.isLengthDeferred = false } }
            guard offset > start || start == end, offset <= start + sent else {
                return .unknownOffset(
                    Failure(
                        .badResponse,
                        "the tus server has \(offset) bytes, though \(sent) were sent from \(start) on"))
            }
            return .offset(offset)
        case 404, 410: return .forgotten("the server does not know the upload any more (\(response.status))")
        case 409: return .unknownOffset(failure)
        // The checksum was wrong, and the server has dropped the bytes (extension checksum).
        case 460: return .unknownOffset(Failure(.checksumMismatch, "the server received other bytes than were sent"))
        case 413: return .tooLarge(failure)
        case 423: return .locked(failure)
        default: throw .failed(failure)
        }
    }

    /// Removes an upload that no run will continue, if the server supports that.
    func terminate() async {
        let upload = state.withLock { $0.tus.take() }
        guard let upload, upload.server.terminates, let url = WebURL(plan.url) else { return }
        // A task of its own, since a cancelled task sends nothing. Wait 5 s at most.
        await Task {
            let work = Task {
                guard let (transfer, _) = try? await send(url, "DELETE", upload: upload) else { return }
                await transfer.discard()
            }
            let timer = Task {
                try? await Task.sleep(for: .seconds(5))
                work.cancel()
            }
            await work.value
            timer.cancel()
        }.value
    }

    private func keep(_ transfer: Transfer, _ method: String) async throws(TransferError) -> StoredResponse {
        let response = try await responseStorage.keep(transfer, method: method)
        state.withLock { $0.response = response }
        return response
    }

    /// Sends a request about `upload`, or without one to the URL that creates uploads. The job's header fields and
    /// credentials are sent only to the origin of the job's URL.
    private func send(
        _ url: WebURL, _ method: String, _ headers: [HeaderField] = [], body: RequestBody? = nil,
        alreadyReceived: Int64? = nil,
        upload: TusUpload? = nil
    ) async throws(TransferError) -> (Transfer, FinalURL) {
        var finalURL: FinalURL?
        if let upload {
            guard let location = WebURL(upload.url) else {
                throw TransferError(.badResponse, "the tus server's Location of the upload is not a valid URL")
            }
            finalURL = FinalURL(url: location.withCredentials(of: url), origin: url, cookies: assignment.cookies)
        }
        let custom = plan.headers.filter {
            !$0.isNamed("content-type") && (method == "POST" || !$0.isNamed(Self.metadataName))
        }
        return try await sendRequest(
            url, method, [TusServer.version] + headers, custom: custom,
            body: body, alreadyReceived: alreadyReceived ?? upload?.offset ?? 0, from: finalURL)
    }
}
