import HaulContract
import HaulHTTP
import HaulStorage

/// What to do if another file has the name of a download.
enum ExistingPolicy: String, Sendable, CaseIterable {
    /// Keep the file if it is the same as the server's. Otherwise the download fails.
    case reuse
    case overwrite, rename, fail
    /// Keep the file, whatever it holds. The download does not count as failed.
    case skip

    /// The policy for the job. Only `rename` lets the job change a file's name: a user at a terminal does not look for
    /// `small (1).bin`.
    var ofJob: Job.IfExists {
        switch self {
        case .overwrite: .overwrite
        case .rename: .rename
        case .reuse, .fail, .skip: .fail
        }
    }
}

/// One file that `haul get` downloads.
struct GetItem: Sendable {
    /// The job to run, with the headers and credentials of the command's options.
    var job: Job
    /// The absolute directory, without symbolic links, or the bucket. The job's path is relative to it.
    let root: String
    let ifExists: ExistingPolicy
    /// Download only if the server's file is newer than the local one.
    let isOnlyNewer: Bool
    /// The members of the job that the record keeps: no headers, no credentials of options.
    var members: [(String, String)]
    /// The URL was given without a scheme, so https was assumed.
    var isSchemeAssumed = false
    /// The location in a list, for error messages: "line 3".
    var origin: String?
    var urlSource = URLSource.user
    /// Where the bytes are written as they arrive: a pipe, a device, or `-`. nil for a file.
    var stream: String?
    /// If the server sends a Metalink, the files that it names are wanted, and not the Metalink.
    var followsMetalink = false
    /// A Metalink that a server has sent for another URL names the file, so that it replaces none.
    var isFollowed = false
    /// The request has a body or header fields of its own, which may be secrets, so no record has them.
    var isPartlyRecorded = false
    /// Another download of the command has the same name.
    var sharesName = false

    /// The URLs as given, without the credentials of options.
    let urls: [String]
    /// Names the record, and in a directory the partial file: a hash of the root and the file's name. If no name was
    /// given, or if the name may get a number, it is a hash of the path and all URLs with their queries: URLs that differ
    /// only in the query may be different files.
    let key: String
    /// The file's path in `root`, as far as it is known before the server responds.
    let likelyPath: String?

    /// - Parameter job: The job as given, without the headers and credentials of options.
    init(
        job: Job, root: String, members: [(String, String)], ifExists: ExistingPolicy = .reuse,
        isOnlyNewer: Bool = false
    ) {
        (self.job, self.root, self.members, urls) = (job, root, members, job.urls)
        (self.ifExists, self.isOnlyNewer) = (ifExists, isOnlyNewer)
        self.job.ifExists = isOnlyNewer ? .overwrite : ifExists.ofJob
        let hasName = job.path.map { !$0.hasSuffix("/") } ?? false
        let name =
            hasName && ifExists != .rename ? ["path", job.path ?? ""] : ["urls", job.path ?? ""] + job.urls
        key = Job.Checksum.Algorithm.sha1.hexadecimal(of: ([root] + name).joined(separator: "\n"))
        likelyPath = hasName ? job.path : Self.path(of: job)
    }

    /// Any file that has the name ends the download. One with a checksum must have it.
    var isSkippable: Bool { ifExists == .skip && job.checksum == nil }

    /// The servers get no passwords, header fields and cookies of the command.
    var isForeign: Bool { !urlSource.isTrusted(with: urls) }

    /// The file's name was given. Otherwise it comes from the URL or the server.
    var hasName: Bool { job.path.map { !$0.isEmpty && $0.utf8.last != UInt8(ascii: "/") } ?? false }

    /// The directory of the file in `root`: "" or with a "/" at its end.
    var folder: String {
        job.path.map { $0.pathParts.dropLast(hasName ? 1 : 0).map { $0 + "/" }.joined() } ?? ""
    }

    /// The absolute path of `folder`, or the prefix of its keys in a bucket.
    var directory: String { (root == "/" ? "" : root) + "/" + folder }

    private static func path(of job: Job) -> String? {
        let url = job.urls.first.flatMap { WebURL($0) ?? WebURL.object($0) }
        let name = url.flatMap { FileName.sanitize($0.lastComponent) }
        return name.map { (job.path ?? "") + $0 }
    }

    /// The same download into another directory, as a file of this name that no policy is about.
    func moved(to root: String, as name: String) -> GetItem {
        var given = job
        (given.urls, given.path) = (urls, name)
        var item = GetItem(job: given, root: root, members: members)
        item.job.urls = job.urls
        (item.urlSource, item.origin, item.isSchemeAssumed) = (urlSource, origin, isSchemeAssumed)
        return item
    }

    /// The name in bars and messages until the file's name is known.
    var label: String { likelyPath ?? job.urls.first.map(MaskedURL.keepingQuery) ?? "download" }

    /// A path in `root`, relative to the current directory if `root` is in it, else absolute.
    func shown(_ path: String, from here: String) -> String {
        if root == here { return path }
        let beneath = here == "/" ? "/" : here + "/"
        if root.hasPrefix(beneath) { return String(root.dropFirst(beneath.count)) + "/" + path }
        return (root == "/" ? "" : root) + "/" + path
    }
}
