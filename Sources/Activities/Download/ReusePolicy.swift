import HaulContract
import HaulHTTP
import HaulStorage

/// Decides whether a push may use what earlier pushes of its id have left, and what must be proven first. Nothing else
/// decides that: an earlier push may have had another URL and other conditions, and none of them is verified by itself.
struct ReusePolicy: Sendable {
    /// Whether bytes came from one of the push's URLs.
    enum Origin: Sendable {
        case same, other
        /// A worker of version 0.2 has recorded a URL with a query, from which redirects led elsewhere. Only the server
        /// can say whether that is this push's URL.
        case unknown
    }

    /// What a whole file needs to be this push's result.
    enum Proof: Sendable, Equatable {
        case nothing
        /// The server must say that its present version is the file's.
        case server
        /// The file must have this digest.
        case digest(Job.Checksum)
        /// No proof suffices: the file is fetched.
        case impossible
    }

    let job: Job
    let mirrors: [Mirrors.Mirror]
    /// The strictest limit of a file's size, in bytes.
    let maxBytes: Int64?
    /// What unsettled runs have left is of an earlier push.
    var isPushedAgain = false

    /// For a file that an earlier push has completed `age` ago, or that the server has confirmed then. Only a GET
    /// without a body can use it.
    func proof(for file: CompletedFile, age: Duration) -> Proof {
        let origin = origin(of: file)
        guard job.method == "GET", job.body == nil, origin != .other, mayHave(file.bytes),
            isConfirmed(file.contentType),
            job.checksum == nil || job.checksum?.description == file.checksum
        else { return .impossible }
        // A failed push may have shown that the server has another version: then the file was confirmed at 0.
        let isFresh = file.validated > 0 && job.freshFor.map { age < $0 } ?? false
        return isFresh && origin == .same ? .nothing : .server
    }

    /// For a file to which a run has given its name, and whose job was not settled then.
    func proof(for file: StoredFile, of resume: ResumePoint) -> Proof {
        // An object store may have made an object of another length than the file has.
        guard mayHave(file.bytes), resume.entity.total ?? file.bytes == file.bytes, isConfirmed(resume.contentType)
        else { return .impossible }
        if let checksum = job.checksum { return .digest(checksum) }
        return switch origin(of: resume) {
        case .same where !isPushedAgain: .nothing
        case .same, .unknown: job.method == "GET" && job.body == nil ? .server : .impossible
        case .other: .impossible
        }
    }

    /// For a partial file of an earlier run that has all bytes. No response shows anything about them any more.
    func proof(for whole: Generation) -> Proof {
        guard isConfirmed(whole.contentType) else { return .impossible }
        // The commit verifies the digest.
        return job.checksum == nil ? .server : .nothing
    }

    /// Whether more bytes can be joined to `count` bytes of an earlier run. The validators of each response prove that
    /// they belong together, or the digest of the whole.
    func mayJoin(_ resume: ResumePoint, count: Int64) -> Bool {
        guard job.method == "GET", job.body == nil, count > 0, let total = resume.entity.total, mayHave(total) else {
            return false
        }
        let isKnown = resume.entity.digest != nil || !resume.isMixed && resume.entity.strongValidator != nil
        return job.checksum != nil || isKnown && origin(of: resume) != .other
    }

    /// Whether the bytes of `record` came from one of the push's URLs.
    func origin(of record: some SourcedRecord) -> Origin {
        let origins = mirrors.map { $0.origin(of: record) }
        return origins.contains(.same) ? .same : origins.contains(.unknown) ? .unknown : .other
    }

    /// Whether the server has confirmed the media type that this push requires.
    func isConfirmed(_ contentType: String?) -> Bool {
        job.contentType.map { MediaType.essence($0) == contentType } ?? true
    }

    private func mayHave(_ bytes: Int64) -> Bool { job.size ?? bytes == bytes && bytes <= maxBytes ?? bytes }
}

extension Mirrors.Mirror {
    /// The URL as records name it: `ResumePoint.source`.
    var source: String { MaskedURL.text(url) }

    /// `ResumePoint.sourceResource` of bytes from here.
    var sourceResource: String { address?.sourceResource ?? "" }

    /// Whether the bytes of `record` came from this URL.
    func origin(of record: some SourcedRecord) -> ReusePolicy.Origin {
        guard record.source == source else { return .other }
        let resource = sourceResource
        // Without a query, nothing of the URL is masked.
        if resource.isEmpty { return .same }
        guard record.sourceResource.isEmpty else { return record.sourceResource == resource ? .same : .other }
        // Redirects may have led from another URL to the resource, but the bytes are its own.
        return record.entity.resource == resource ? .same : .unknown
    }
}
