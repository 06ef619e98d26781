import HaulContract
import HaulHTTP
import HaulStorage

/// An unfinished upload at a tus server, with everything that a worker needs to continue it.
struct TusUpload: Sendable, Equatable {
    /// The upload's URL. It may be a secret: whoever knows the URL may be able to write to the upload.
    var url: String
    /// The version of the file when the upload was created: `SourceVersion.text`.
    var version: String
    /// Differs for each upload that the job has created.
    var generation: String
    /// The bytes that the server has confirmed.
    var offset: Int64 = 0
    var server = TusServer()
    /// The server does not know the length of the upload yet.
    var isLengthDeferred = false
    /// The maximum bytes of the next request. In the record it is `portion`.
    private(set) var chunkSize = Int64.max
    /// The maximum bytes of any request, because the server or a proxy before it has refused more.
    private(set) var limit = Int64.max
    /// The offset after the last byte that was sent; nil if an earlier run may have sent more. It is not recorded.
    var sentEnd: Int64?
    /// The last request, if it got no response.
    var unanswered: Unanswered?

    struct Unanswered: Sendable, Equatable {
        /// Where the request began.
        let offset: Int64
        /// The bytes of it that were sent.
        let sent: Int64
    }

    /// Bytes. No request is made smaller than this.
    static let minChunk: Int64 = 64 << 10

    init(url: String, version: String, generation: String, server: TusServer) {
        (self.url, self.version, self.generation, self.server) = (url, version, generation, server)
    }

    /// Reads an earlier run's resume point. nil if it is of another file or another URL, or if version 0.2 has written
    /// it for a URL with a query, which it does not record.
    init?(_ point: ResumePoint, of plan: UploadPlan) {
        guard point.source == MaskedURL.text(plan.url), let json = try? JSON(point.storeState),
            json["resource"]?.string ?? "" == plan.sourceResource, json["file"]?.string == plan.files.first?.file,
            let url = json["tus"]?.string,
            let version = json["version"]?.string
        else { return nil }
        (self.url, self.version, generation) = (url, version, point.generation)
        offset = point.offsets.intervals.first { $0.lowerBound == 0 }?.upperBound ?? 0
        limit = json["limit"]?.integer.flatMap { $0 > 0 ? $0 : nil } ?? .max
        chunkSize = json["portion"]?.integer.flatMap { $0 > 0 ? $0 : nil } ?? limit
        if let offset = json["unanswered"]?.integer, let sent = json["sent"]?.integer {
            unanswered = Unanswered(offset: offset, sent: sent)
        }
        isLengthDeferred = json["deferred"]?.bool ?? false
        server.terminates = json["terminates"]?.bool ?? false
        server.checksum = json["checksum"]?.string.flatMap(Job.Checksum.Algorithm.init)
    }

    /// The upload as text, for the resume point.
    func storeState(of plan: UploadPlan) -> String {
        var object = JSONObject()
        object.set("tus", url)
        object.set("file", plan.files.first?.file)
        if !plan.sourceResource.isEmpty { object.set("resource", plan.sourceResource) }
        object.set("version", version)
        object.set("terminates", server.terminates)
        object.set("checksum", server.checksum?.rawValue)
        if isLengthDeferred { object.set("deferred", true) }
        if chunkSize < .max { object.set("portion", chunkSize) }
        if limit < .max { object.set("limit", limit) }
        if let unanswered {
            object.set("unanswered", unanswered.offset)
            object.set("sent", unanswered.sent)
        }
        return object.text
    }

    /// No request may have more bytes.
    mutating func limit(to bytes: Int64) { (chunkSize, limit) = (bytes, bytes) }

    /// Records how many bytes the server has. Some servers, and proxies before them, discard a request that breaks off.
    /// So after such a request the next one is half of what was sent, and after each success twice as large.
    mutating func record(offset new: Int64) {
        if let unanswered {
            if new <= unanswered.offset, unanswered.sent >= Self.minChunk {
                chunkSize = max(Self.minChunk, min(chunkSize, unanswered.sent) / 2)
            }
        } else if new > offset {
            chunkSize = min(limit, chunkSize > .max / 2 ? .max : chunkSize * 2)
        }
        (unanswered, offset) = (nil, new)
    }
}

/// The abilities that a tus server announces: https://tus.io/protocols/resumable-upload#options.
struct TusServer: Sendable, Equatable {
    /// Uploads can be removed (extension termination).
    var terminates = false
    /// Uploads can be created before their length is known (extension creation-defer-length).
    var defersLength = false
    /// The digest by which the server checks the bytes of each request (extension checksum); nil if it checks none.
    var checksum: Job.Checksum.Algorithm?
    /// The maximum size of a file that the server accepts, in bytes.
    var maximum: Int64?

    static let version = HeaderField("Tus-Resumable", "1.0.0")

    init() {}

    /// Reads the response to OPTIONS. A response without tus fields is not an error, since it may come from a proxy.
    ///
    /// - Throws: `bad_response` if the server does not speak tus 1.0.0, or does not let clients create uploads.
    init(_ head: ResponseHead) throws(TransferError) {
        func list(_ name: String) -> [String] {
            head.headers.all(name).flatMap { $0.split(separator: ",") }.map { $0.filter { $0 != " " } }
        }
        let (versions, extensions) = (list("tus-version"), list("tus-extension"))
        guard 200...299 ~= head.status, !versions.isEmpty else { return }
        guard versions.contains("1.0.0") else {
            throw TransferError(
                .badResponse,
                "the server speaks tus \(versions.joined(separator: ", ").truncated(toBytes: 100)), and not 1.0.0",
                isFinal: true)
        }
        guard extensions.contains("creation") else {
            throw TransferError(
                .badResponse, "the tus server does not let clients create uploads (extension creation)", isFinal: true)
        }
        terminates = extensions.contains("termination")
        defersLength = extensions.contains("creation-defer-length")
        maximum = head.headers["tus-max-size"].flatMap { Int64($0) }
        if extensions.contains("checksum") {
            let known = list("tus-checksum-algorithm")
            checksum = [.sha256, .sha512, .sha1, .md5].first { known.contains($0.rawValue) }
        }
    }
}

/// What a tus server's response says about an upload.
enum TusResponse: Sendable {
    /// The server has this many bytes.
    case offset(Int64)
    /// The server does not know the upload any more.
    case forgotten(String)
    /// The server has locked the upload for another request, perhaps for one of ours that it still waits for.
    case locked(Failure)
    /// The server accepts only smaller requests.
    case tooLarge(Failure)
    /// The response does not say how much the server has, so it must be asked.
    case unknownOffset(Failure)
}

/// Counts how often a server forgets the upload, leaves its offset unknown or has the upload locked, until that is an
/// error.
struct TusFailureCounts {
    private var forgotten = 0
    private var unknownOffsets = 0
    private var locks = 0
    private var highestOffset: Int64 = -1

    /// Records the server's offset. If the offset has grown, earlier unknown offsets and locks no longer count.
    mutating func record(offset: Int64) {
        guard offset > highestOffset else { return }
        (highestOffset, unknownOffsets, locks) = (offset, 0, 0)
    }

    /// - Throws: `bad_response` when the server has forgotten the upload for the fourth time.
    mutating func recordForgotten(_ why: String) throws(TransferError) {
        forgotten += 1
        guard forgotten <= 3 else {
            throw TransferError(.badResponse, "the server forgets the upload again and again: \(why)", isFinal: true)
        }
        highestOffset = -1
    }

    mutating func recordUnknownOffset(_ failure: Failure) throws(TransferError) {
        unknownOffsets += 1
        guard unknownOffsets <= 5 else { throw .failed(failure) }
    }

    /// How long to wait for the lock: 0.25 s, then twice as long each time, up to 4 s.
    ///
    /// - Throws: `failure` after eight waits without progress.
    mutating func lockDelay(_ failure: Failure) throws(TransferError) -> Duration {
        locks += 1
        guard locks <= 8 else { throw .failed(failure) }
        return .milliseconds(125 << min(locks, 5))
    }
}
