import HaulBus
import HaulContract
import HaulHTTP
import HaulHTTPServer
import HaulRedis
import HaulStorage

// The files of completed downloads, for saving them with a browser or with curl.

extension API {
    /// The bytes of a file that are read and sent at once.
    private static let chunkSize: Int64 = 64 << 10

    /// The file of a completed download, or the part of it that `Range` asks for (RFC 9110 section 14). It is sent only
    /// if it is still the file that the job has downloaded.
    func file(_ path: [String], _ request: ServerRequest, _ caller: Caller) async throws(APIError) -> ServerResponse {
        guard caller.role == .operator else {
            throw APIError(403, .viewer, "a viewer gets no files: sign in as an operator")
        }
        let queue = try reader(path[1]).queue
        guard let folder = configuration.files[queue.name] else {
            throw APIError(404, .notFound, "this server sends no files of the queue \(queue.name): --serve-files")
        }
        let (source, file) = try await source(of: path[3], in: queue, folder)
        let size = source.version.size
        let tag = "\"\(Hexadecimal.text(SHA256.digest(Array(source.version.text.utf8)).prefix(16)))\""
        var fields = [
            ("Content-Type", "application/octet-stream"), ("Content-Disposition", Self.disposition(file)),
            ("Accept-Ranges", "bytes"), ("ETag", tag), ("Cache-Control", "private, no-cache"),
        ]
        if request["if-none-match"]?.contains(tag) ?? false { return ServerResponse(304, fields: fields) }
        // A part of another version must not be joined with this one.
        let isSameVersion = request["if-range"].map { $0 == tag } ?? true
        let range = RequestedRange(isSameVersion ? request["range"] : nil, of: size)
        switch range {
        case .whole: break
        case .part(let part):
            fields.append(("Content-Range", "bytes \(part.lowerBound)-\(part.upperBound - 1)/\(size)"))
        case .unsatisfiable: return ServerResponse(416, fields: [("Content-Range", "bytes */\(size)")])
        }
        guard let hold = streams.hold(counter.next(), for: caller) else {
            throw APIError(429, .tooMany, "too many streams and files are open: wait until one has ended")
        }
        if request.method == "GET" { audit.savedFile(file, of: path[3], in: queue.name, by: caller) }
        let bytes = range.bytes(of: size)
        return ServerResponse(
            range.isWhole ? 200 : 206, fields: fields,
            body: .stream(length: Int64(bytes.count)) { [hold] writer in
                defer { withExtendedLifetime(hold) {} }
                var position = bytes.lowerBound
                while position < bytes.upperBound {
                    let end = min(position + Self.chunkSize, bytes.upperBound)
                    try await writer.send(try await source.read(position..<end))
                    position = end
                }
            })
    }

    /// The open file of a job, and its path.
    private func source(
        of id: String, in queue: Queue, _ folder: any SourceFolder
    ) async throws(APIError) -> (source: any SourceFile, path: String) {
        let record: JobRecord?
        do throws(RedisError) { record = try await queue.job(id) } catch { throw APIError(error) }
        guard let record else { throw .unknownJob(id) }
        guard record.state == .completed, record["kind"] == nil, let file = CompletedFile(hash: record.fields) else {
            throw APIError(404, .notFound, "the job \(id) has no file: only a completed download has one")
        }
        let source: any SourceFile
        do throws(TransferError) { source = try await folder.source(file.file) } catch {
            guard case .failed(let failure) = error else { throw APIError(503, .cancelled, "the request was given up") }
            throw APIError(404, .notFound, "the file of the job \(id) cannot be sent: \(failure.message)")
        }
        guard source.version == SourceVersion(size: file.bytes, modified: file.modified, inode: file.inode) else {
            throw APIError(
                404, .notFound, "the file \(file.file) was changed or replaced after the job \(id) completed it")
        }
        return (source, file.file)
    }

    /// A browser saves the file under its own name, and never shows it as a part of this site (RFC 6266).
    private static func disposition(_ path: String) -> String {
        let name = path.split(separator: "/").last.map(String.init) ?? "file"
        let encoded = name.utf8.map { byte in
            switch byte {
            case 48...57, 65...90, 97...122, UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"):
                String(UnicodeScalar(byte))
            default: "%" + Hexadecimal.text([byte]).uppercased()
            }
        }
        return "attachment; filename*=UTF-8''\(encoded.joined())"
    }
}
