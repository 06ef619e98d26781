import HaulContract
import HaulHTTP
import HaulStorage

/// What becomes of another file that has a download's name already.
enum ExistingPolicy: String, Sendable, CaseIterable {
    /// It is left, if it is what the server has. Otherwise the download fails.
    case reuse
    case overwrite, rename, fail
    /// It is left, whatever it is, and that is no failure.
    case skip

    /// What a job can be told. A file's name is never changed but by `rename`: nobody at a terminal looks for `small (1).bin`.
    var ofJob: Job.IfExists {
        switch self {
        case .overwrite: .overwrite
        case .rename: .rename
        case .reuse, .fail, .skip: .fail
        }
    }
}

/// One file that `haul get` is to bring.
struct GetItem: Sendable {
    /// As it is to be done, with all that the command's options add.
    var job: Job
    /// The directory, without links, that the job's path begins at.
    let root: String
    var ifExists = ExistingPolicy.reuse
    /// Only if the server's is newer than the one that is there.
    var isOnlyNewer = false
    /// What the record keeps of the job: no headers, no credentials of options.
    var members: [(String, String)]
    /// The URL had no scheme.
    var isSchemeAssumed = false
    /// Where it was asked for, for errors: "line 3".
    var origin: String?

    /// As they were named: without the credentials of options.
    let urls: [String]
    /// Names the record and the partial file. A download is continued under the same name, or where none was given under the same
    /// URL: two URLs that differ in their query only may be two files.
    let key: String
    /// The file's path in `root` as far as it is known before the server was asked.
    let likelyPath: String?

    /// `job` is as it was named, before the command's options add anything.
    init(job: Job, root: String, members: [(String, String)]) {
        (self.job, self.root, self.members, urls) = (job, root, members, job.urls)
        let hasName = job.path.map { !$0.hasSuffix("/") } ?? false
        let name = hasName ? ["path", job.path ?? ""] : ["urls", job.path ?? ""] + job.urls
        key = Job.Checksum.Algorithm.sha1.hexadecimal(of: ([root] + name).joined(separator: "\n"))
        likelyPath = hasName ? job.path : Self.path(of: job)
    }

    /// The file's name was given, and is not left to the URL or the server.
    var hasName: Bool { job.path.map { !$0.isEmpty && $0.utf8.last != UInt8(ascii: "/") } ?? false }

    private static func path(of job: Job) -> String? {
        let name = job.urls.first.flatMap(WebURL.init).flatMap { FileName.sanitise($0.lastComponent) }
        return name.map { (job.path ?? "") + $0 }
    }

    /// What a bar or a failure calls it until its name is known.
    var label: String { likelyPath ?? job.urls.first.map(MaskedURL.text) ?? "download" }

    /// Where a path in `root` is, as seen from the current directory.
    func shown(_ path: String, from here: String) -> String {
        if root == here { return path }
        let beneath = here == "/" ? "/" : here + "/"
        if root.hasPrefix(beneath) { return String(root.dropFirst(beneath.count)) + "/" + path }
        return (root == "/" ? "" : root) + "/" + path
    }
}
