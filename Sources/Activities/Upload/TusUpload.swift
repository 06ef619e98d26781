import HaulContract
import HaulHTTP
import HaulStorage

/// An upload that a tus server has begun: a value, by which any worker goes on with it.
struct TusUpload: Sendable, Equatable {
    /// Where the server keeps it. Who knows it may be able to write to it.
    var url: String
    /// The file's, as it was when the upload was made: `SourceVersion.text`.
    var version: String
    /// Another one for each upload that the job has made.
    var generation: String
    /// Bytes that the server has said it has.
    var offset: Int64 = 0
    var server = TusServer()

    init(url: String, version: String, generation: String, server: TusServer) {
        (self.url, self.version, self.generation, self.server) = (url, version, generation, server)
    }

    /// As an earlier run has told it; nil if it was of another file or another URL.
    init?(_ point: ResumePoint, of plan: UploadPlan) {
        guard point.source == MaskedURL.text(plan.url), let json = try? JSON(point.journal),
            json["file"]?.string == plan.files.first?.file, let url = json["tus"]?.string,
            let version = json["version"]?.string
        else { return nil }
        (self.url, self.version, generation) = (url, version, point.generation)
        offset = point.offsets.intervals.first { $0.lowerBound == 0 }?.upperBound ?? 0
        server.terminates = json["terminates"]?.bool ?? false
        server.checksum = json["checksum"]?.string.flatMap(Job.Checksum.Algorithm.init)
    }

    /// What a resume point keeps.
    func journal(of plan: UploadPlan) -> String {
        var object = JSONObject()
        object.set("tus", url)
        object.set("file", plan.files.first?.file)
        object.set("version", version)
        object.set("terminates", server.terminates)
        object.set("checksum", server.checksum?.rawValue)
        return object.text
    }
}

/// What a tus server can, as it says itself: https://tus.io/protocols/resumable-upload#options.
struct TusServer: Sendable, Equatable {
    /// An upload can be removed.
    var terminates = false
    /// Bytes can be checked as they come, by this digest.
    var checksum: Job.Checksum.Algorithm?
    /// Larger files are refused: bytes.
    var maximum: Int64?

    static let version = HeaderField("Tus-Resumable", "1.0.0")

    init() {}

    /// By the answer to OPTIONS. What says nothing of tus may be a proxy's: the server is asked for an upload all the same.
    init(_ head: ResponseHead) throws(TransferError) {
        func list(_ name: String) -> [String] {
            head.headers.all(name).flatMap { $0.split(separator: ",") }.map { $0.filter { $0 != " " } }
        }
        let (versions, extensions) = (list("tus-version"), list("tus-extension"))
        guard 200...299 ~= head.status, !versions.isEmpty else { return }
        guard versions.contains("1.0.0") else {
            throw TransferError(
                .badResponse, "the server speaks tus \(versions.joined(separator: ", ")), and not 1.0.0", isFinal: true)
        }
        guard extensions.contains("creation") else {
            throw TransferError(
                .badResponse, "the tus server lets nobody create uploads (extension creation)", isFinal: true)
        }
        terminates = extensions.contains("termination")
        maximum = head.headers["tus-max-size"].flatMap { Int64($0) }
        if extensions.contains("checksum") {
            let known = list("tus-checksum-algorithm")
            checksum = [.sha256, .sha512, .sha1, .md5].first { known.contains($0.rawValue) }
        }
    }
}

/// What a tus server says about an upload.
enum TusAnswer: Sendable {
    /// It has so many bytes.
    case at(Int64)
    /// It does not know the upload any more.
    case forgotten(String)
    /// Another request holds the upload, perhaps one of ours that it has not given up yet.
    case locked(Failure)
    /// It takes smaller requests only.
    case tooMuch(Failure)
    /// What it has must be asked.
    case unsure(Failure)
}

/// How often a server may go back, forget or refuse before that is an error: a value.
struct TusPatience {
    private var forgotten = 0
    private var doubts = 0
    private var locks = 0
    private var furthest: Int64 = -1

    /// The server is as far as that. Who comes further is forgiven what was before.
    mutating func note(offset: Int64) {
        guard offset > furthest else { return }
        (furthest, doubts, locks) = (offset, 0, 0)
    }

    /// - Throws: When it has happened too often.
    mutating func noteForgotten(_ why: String) throws(TransferError) {
        forgotten += 1
        guard forgotten <= 3 else {
            throw TransferError(.badResponse, "the server forgets the upload again and again: \(why)", isFinal: true)
        }
        furthest = -1
    }

    mutating func noteDoubt(_ failure: Failure) throws(TransferError) {
        doubts += 1
        guard doubts <= 5 else { throw .failed(failure) }
    }

    /// How long to wait for whoever holds the upload.
    mutating func wait(_ failure: Failure) throws(TransferError) -> Duration {
        locks += 1
        guard locks <= 8 else { throw .failed(failure) }
        return .milliseconds(125 << min(locks, 5))
    }
}
