import Glibc
import HaulBus
import HaulContract
import HaulHTTP
import HaulStorage
import HaulTerminal

/// What `haul put` sends: the jobs, and the directory that their files are in.
struct PutPlan {
    /// One request, or one upload by tus.
    struct Item: Sendable {
        let job: Job
        /// The files as they were given.
        let label: String
    }

    /// Absolute, without symbolic links.
    let root: String
    private(set) var items: [Item] = []
    /// The pipes among the files, by the paths that the jobs have for them.
    private(set) var pipes: [String: PipeSource] = [:]

    /// - Parameter labels: The files as they were given; - is standard input.
    /// - Throws: `ExitStatus.usage`; the reason has been printed.
    init(files labels: [String], url: String, _ options: PutOptions, _ credentials: GetCredentials) throws {
        if let twice = labels.indices.first(where: {
            PipeSource.isPipe(labels[$0]) && labels[..<$0].contains(labels[$0])
        }) {
            throw ExitStatus.printing(
                .usage, "\(PipeSource.name(of: labels[twice])) is given twice, and a pipe can be read only once")
        }
        let paths = try labels.map { PipeSource.isPipe($0) ? nil : try Self.absolute($0) }
        let shared = Self.directory(of: paths.compactMap(\.self))
        root = shared
        var (relative, names): ([String], [String]) = ([], [])
        for (label, path) in zip(labels, paths) {
            if let path {
                let rest = path.utf8.dropFirst(shared == "/" ? 1 : shared.utf8.count + 1)
                relative.append(String(decoding: rest, as: UTF8.self))
                names.append(Self.name(ofFile: label, at: path))
            } else {
                let name = try Self.name(ofPipe: label, url, options)
                // No file has this path, because it has a directory that was never made.
                relative.append("pipe-\(Token.make())/\(name)")
                names.append(name)
                pipes[relative.last!] = PipeSource(label)
            }
        }
        if options.isForm {
            let list = relative.map { JSON.object([("file", JSON.quoted($0))]) }
            let members = [("files", "[\(list.joined(separator: ","))]")]
            var job = try Self.job(url, members, options, credentials)
            for (index, name) in names.enumerated() { job.upload.files[index].filename = name }
            items = [Item(job: job, label: labels.joined(separator: ", "))]
            return
        }
        guard labels.count == 1 || Self.isDirectory(url) || options.tus else {
            throw ExitStatus.printing(
                .usage, "for several files give a URL that ends with / (their names are added), or --form, or --tus"
            )
        }
        if !options.tus { try Self.refuseEqualNames(labels, names, url) }
        items = try labels.indices.map { index in
            var job = try Self.job(url, [("file", JSON.quoted(relative[index]))], options, credentials)
            job.upload.filename = names[index]
            return Item(job: job, label: labels[index])
        }
    }

    /// - Throws: `ExitStatus.usage` if two files would get one URL; the reason has been printed.
    private static func refuseEqualNames(_ labels: [String], _ names: [String], _ url: String) throws {
        let named = Dictionary(grouping: zip(labels, names)) { $0.1 }
        guard let (name, files) = named.filter({ $0.value.count > 1 }).min(by: { $0.key < $1.key }) else { return }
        throw ExitStatus.printing(
            .usage,
            "\(files[0].0) and \(files[1].0) would both be sent to \(MaskedURL.keepingQuery(url))\(name): send one of them to "
                + "another URL")
    }

    /// The name that the server gets: the one that was given, which may be that of a symbolic link, as in curl. /dev/stdin
    /// and the like name no file, so the one behind them gives its name.
    private static func name(ofFile label: String, at path: String) -> String {
        let isDescriptor = label == "/dev/stdin" || label.hasPrefix("/dev/fd/") || label.hasPrefix("/proc/")
        return (isDescriptor ? path : label).pathParts.last ?? path
    }

    /// The name that the server gets. A pipe of the shell, like /dev/fd/63, has only a number.
    private static func name(ofPipe path: String, _ url: String, _ options: PutOptions) throws -> String {
        if let name = path.pathParts.last, path != "-", !path.hasPrefix("/dev/"), !path.hasPrefix("/proc/") {
            return String(name)
        }
        guard !isDirectory(url) || options.isForm || options.tus else {
            throw ExitStatus.printing(
                .usage,
                "\(path) has no name to add to \(MaskedURL.keepingQuery(url)): give the whole URL, without / at its end"
            )
        }
        return "standard-input"
    }

    private static func job(
        _ url: String, _ members: [(String, String)], _ options: PutOptions, _ credentials: GetCredentials
    ) throws -> Job {
        var members = [("kind", JSON.quoted(Job.Kind.upload.rawValue)), ("url", JSON.quoted(url))] + members
        func add(_ name: String, _ text: String?) { if let text { members.append((name, text)) } }
        add("method", options.method.map(JSON.quoted))
        if options.tus { add("protocol", JSON.quoted(Job.Upload.Method.tus.rawValue)) }
        add("content_digest", options.contentDigest.map(JSON.quoted))
        if !options.field.isEmpty {
            let pairs = try options.field.map(NamedValue.parts)
            add("form", try NamedValue.object(pairs, of: "--field", "a form of Haul has each name once"))
        }
        var job: Job
        do { job = try Job(json: try JSON(JSON.object(members))) } catch {
            let isAboutURL = (error as? Job.Invalid)?.field == "url"
            throw ExitStatus.printing(.usage, "\(error)\(isAboutURL ? " (\(MaskedURL.keepingQuery(url)))" : "")")
        }
        if let url = job.unreadableURL { throw ExitStatus.printing(.usage, "url: \(url) has an invalid host name") }
        job.urls = job.urls.map(credentials.apply)
        job.headers = try (options.request.headers().map(GetSender.header) + credentials.headers).map {
            HeaderField($0.0, $0.1)
        }
        return job
    }

    /// The absolute path of a file. Symbolic links are resolved here: jobs may not follow links out of their root.
    private static func absolute(_ path: String) throws -> String {
        var status = stat()
        guard stat(path, &status) != 0 || status.st_mode & S_IFMT == S_IFREG else {
            let what =
                switch status.st_mode & S_IFMT {
                case S_IFDIR: "is a directory"
                case S_IFSOCK: "is a socket"
                default: "is a device"
                }
            throw ExitStatus.printing(
                .usage, "\(path) \(what), and only files and pipes are sent")
        }
        guard let real = realpath(path, nil) else {
            throw ExitStatus.printing(.usage, "\(path): \(String(cString: strerror(errno)))")
        }
        defer { free(real) }
        return String(cString: real)
    }

    /// The deepest directory that contains all of them.
    private static func directory(of paths: [String]) -> String {
        var shared = Array((paths.first ?? "/").pathParts.dropLast())
        for path in paths {
            let parts = path.pathParts.dropLast()
            shared = Array(zip(shared, parts).prefix { $0.0 == $0.1 }.map { $0.0 })
        }
        return "/" + shared.joined(separator: "/")
    }

    static func isDirectory(_ url: String) -> Bool {
        url.utf8.prefix { $0 != UInt8(ascii: "?") && $0 != UInt8(ascii: "#") }.last == UInt8(ascii: "/")
    }
}
