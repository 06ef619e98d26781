import HaulContract
import HaulHTTP
import HaulStorage
import HaulTerminal

/// Makes the list of downloads from the command's arguments and files.
struct GetPlan {
    private let source: GetSourceOptions
    private let settings: TransferSettings
    private let credentials: GetCredentials
    private let headers: [(String, String)]
    private let checksums: ChecksumFile
    private let made = MadeDirectories()
    /// Where files go, unless a list names another directory.
    let root: String
    /// As -o says, beneath `root`.
    private let path: String?
    private(set) var items: [GetItem] = []
    /// What asked for each download, and its index in `items`; nil for a download that has ended.
    private var known: [String: (entry: Entry, index: Int?)] = [:]
    /// Downloads of the command that have ended before Metalinks are followed.
    private var ended: [GetItem] = []
    /// The files are those of Metalinks that the user has not asked for.
    private var isFollowing = false

    /// Fetches the lists that are URLs.
    ///
    /// - Throws: `ExitStatus.usage`, or what `GetLists` throws; the reason has been printed.
    init(
        _ source: GetSourceOptions, _ sender: GetSender, _ settings: TransferSettings, isVerbose: Bool
    ) async throws {
        (self.source, self.settings) = (source, settings)
        (credentials, headers) = (sender.credentials, sender.headers)
        let lists = try await GetLists(
            source.inputFile + source.metalink + source.urls.filter(source.isMetalink) + source.checksumFile,
            credentials, settings, isVerbose: isVerbose
        ) { [headers] url in Self.fields(headers, besides: [], try settings.configuration?.headers(for: [url]) ?? []) }
        checksums = try ChecksumFile(files: source.checksumFile, lists)
        (root, path) =
            try source.isStreaming
            ? ("/", nil) : GetTarget.of(directory: source.directory, output: source.output, made)
        for (index, text) in source.urls.enumerated() {
            if source.isMetalink(text) {
                for entry in try Metalink.entries(of: text, lists) { try add(entry) }
                continue
            }
            let output = source.outputs.count > 1 ? source.outputs[index] : source.outputs.first
            // Mirrors follow after tabs, as in a list: see `ForeignArguments`.
            let sources = try text.split(separator: "\t").map { try urls(for: String($0)) }
            let files = sources.first ?? []
            for (mirror, text) in zip(sources, text.split(separator: "\t")) where mirror.count != files.count {
                throw ExitStatus.printing(
                    .usage,
                    "--mirror \(MaskedURL.keepingQuery(String(text))) stands for \(mirror.count) URLs, and the URL before it for \(files.count): each file needs a mirror of its own"
                )
            }
            for (index, url) in files.enumerated() {
                try add(try self.entry(for: url, sources.dropFirst().map { $0[index].text }, output))
            }
        }
        for file in source.metalink { for entry in try Metalink.entries(of: file, lists) { try add(entry) } }
        for file in source.inputFile { for entry in try InputFile.entries(of: file, lists) { try add(entry) } }
        if let output = source.output, !source.isToStandardOutput, namesOneFile, items.count > 1 {
            throw GetSourceOptions.namesOneFile(output, "\(items.count) are given")
        }
        try checkNames()
        made.keep()
    }

    /// The URLs that an argument stands for.
    private func urls(for text: String) throws -> [URLPattern.URL] {
        source.takesBrackets ? [URLPattern.URL(text: text)] : try URLPattern(text).urls
    }

    /// Replaces the downloads by the files of Metalinks, which servers have sent instead of the files of `metalinks`. They
    /// go to the directories of these.
    ///
    /// - Throws: What `init` throws. If a server calls another text a Metalink, the command itself is right, and so the
    ///   status is `.jobFailed`.
    mutating func follow(_ metalinks: [GetItem], isVerbose: Bool) async throws {
        // A URL that turned out to be a Metalink has no file of its own.
        let replaced = Set(metalinks.map(\.key))
        ended = items.filter { !replaced.contains($0.key) }
        (items, isFollowing) = ([], true)
        known = known.mapValues { ($0.entry, nil) }
        let urls = metalinks.flatMap(\.urls)
        let fields = Dictionary(zip(urls, metalinks.map(\.job.headers))) { one, _ in one }
        let lists = try await GetLists(urls, credentials, settings, isVerbose: isVerbose) { fields[$0] ?? [] }
        do {
            for (item, url) in zip(metalinks, urls) {
                let entries = try Metalink.entries(
                    of: url, lists,
                    advice: "; the server calls it a Metalink, and --no-follow-metalink saves it as it is")
                for var entry in entries {
                    entry.root = item.directory
                    try add(entry)
                }
            }
            try checkNames()
        } catch ExitStatus.usage { throw ExitStatus.jobFailed }
    }

    /// The command names the file itself, and not a directory.
    private var namesOneFile: Bool { path.map { !$0.hasSuffix("/") } ?? false }

    /// One URL of the command line, with its mirrors.
    private func entry(for url: URLPattern.URL, _ mirrors: [String], _ output: String?) throws -> Entry {
        var entry = Entry()
        entry.urls = [url.text] + mirrors
        if let checksum = source.checksum {
            entry.members.append(("checksum", JSON.quoted(GivenChecksum.normalized(checksum))))
        }
        if source.isStreaming {
            entry.stream = output.map(source.stream)
        } else if source.output == nil, let output {
            let (root, path) = try GetTarget.of(
                directory: source.directory, output: URLPattern.name(output, of: url), made)
            (entry.directory, entry.path) = (root, path)
        }
        return entry
    }

    /// Two downloads may only have one name if the later one in the list is to get a number.
    ///
    /// - Throws: `ExitStatus.usage` if two have; the reason has been printed.
    private mutating func checkNames() throws {
        guard !source.isStreaming else { return }
        // A download of the same URLs as one that has ended will find that file.
        let all = ended + items
        var first: [String: Int] = [:]
        for (position, item) in all.enumerated() {
            guard let path = item.likelyPath else { continue }
            guard let earlier = first.updateValue(position, forKey: "\(item.root)/\(path)"), position >= ended.count,
                earlier >= ended.count || all[earlier].urls != item.urls
            else { continue }
            guard item.ifExists == .rename, all[earlier].ifExists == .rename else {
                let origins = [all[earlier], item].map { $0.origin ?? MaskedURL.keepingQuery($0.urls.first ?? "") }
                throw ExitStatus.printing(
                    .usage,
                    "\(origins[0]) and \(origins[1]) both name their file \(path): give each a name of its own (out= in a list), or choose --if-exists rename"
                )
            }
            for position in [earlier, position] where position >= ended.count {
                items[position - ended.count].sharesName = true
            }
        }
    }

    /// Adds a download that an earlier command left unfinished. Does nothing if the download is in the list already.
    mutating func add(_ left: GetRecord) throws {
        guard var item = left.item, known[item.key] == nil else { return }
        item.followsMetalink = item.followsMetalink && !source.keepsMetalinks
        let entry = Entry(members: item.members)
        var job = try job(of: entry)
        job.ifExists = item.job.ifExists
        item.job = job
        known[item.key] = (entry, items.count)
        items.append(try complete(item))
    }

    /// The download with what the options and the user's defaults send to its servers.
    private func complete(_ item: GetItem) throws -> GetItem {
        var item = item
        if item.isForeign {
            item.job.urls = item.urls.map(credentials.applyNetrc)
        } else {
            item.job.urls = item.urls.map(credentials.apply)
            item.job.headers += Self.fields(
                headers, besides: item.job.headers, try settings.configuration?.headers(for: item.urls) ?? [])
        }
        return item
    }

    /// The header fields of the command, and those of the user's defaults that neither the command nor the job has.
    private static func fields(
        _ given: [(String, String)], besides own: [HeaderField], _ defaults: [(String, String)]
    ) -> [HeaderField] {
        let names = Set(given.map { $0.0.lowercased() } + own.map { $0.name.lowercased() })
        return (given + defaults.filter { !names.contains($0.0.lowercased()) }).map { HeaderField($0.0, $0.1) }
    }

    /// The user's defaults for the host of the first URL.
    private func terms(of urls: [String]) throws -> GetConfiguration.Terms? {
        try settings.configuration.flatMap { defaults in
            try urls.first.flatMap(WebURL.init).flatMap { try defaults.terms(for: $0.host) }
        }
    }

    private mutating func add(_ entry: Entry) throws {
        var entry = entry
        // A list has no output of its own.
        if source.isStreaming { entry.stream = entry.stream ?? source.outputs.first.map(source.stream) }
        let prefix = entry.origin.map { "\($0): " } ?? ""
        if let server = entry.server { try RemoteList.confine(&entry, of: server) }
        let given = entry.urls
        if entry.server != nil, let url = given.first(where: URLRule.isObject) {
            throw ExitStatus.printing(
                .usage,
                "\(prefix)url: a list of a server may not name objects of your buckets (\(MaskedURL.keepingQuery(url)))"
            )
        }
        for url in given {
            guard let scheme = Self.foreignScheme(of: url) else { continue }
            throw ExitStatus.printing(
                .usage,
                "\(prefix)url: must begin with http://, https:// or s3://, not \(scheme): (\(MaskedURL.keepingQuery(url)))"
            )
        }
        let urls = given.map(Self.completed)
        entry.isSchemeAssumed = urls != given
        if entry.isSchemeAssumed { entry.urls = urls }
        // Nothing is written to a directory while streaming.
        let root = try (source.isStreaming ? nil : entry.root ?? entry.directory).map { directory in
            try GetTarget.absolute(
                directory.hasPrefix("/") || GetTarget.isBucket(directory) ? directory : self.root + "/" + directory,
                made)
        }
        var path = namesOneFile ? self.path : entry.path ?? self.path
        if let directory = self.path, directory.hasSuffix("/"), let own = entry.path { path = directory + own }
        if let path { entry.members.append(("path", JSON.quoted(path))) }
        if entry.members.first(where: { $0.0 == "checksum" }) == nil, !checksums.isEmpty {
            guard let name = Self.name(entry.urls, path), let checksum = checksums.checksum(of: name) else {
                let name =
                    Self.name(entry.urls, path) ?? entry.urls.first.map(MaskedURL.keepingQuery)
                    ?? "a file without a name"
                throw ExitStatus.printing(
                    .usage,
                    "\(prefix)\(name) is not in \(source.checksumFile.joined(separator: ", ")) and cannot be verified")
            }
            entry.members.append(("checksum", JSON.quoted(checksum.description)))
        }
        try add(entry, in: root ?? self.root)
    }

    /// Appends the download of an entry whose URLs and path are complete. A URL that is given again is one download,
    /// which has to do what both entries ask.
    private mutating func add(_ entry: Entry, in root: String) throws {
        let item = try item(entry, in: root)
        // Each pipe gets the bytes, whatever URL another one has.
        let key = item.key + (entry.stream ?? "")
        guard let (earlier, index) = known[key], earlier.urls == entry.urls else {
            known[key] = (entry, items.count)
            return items.append(try complete(item))
        }
        var united = earlier
        let difference = united.unite(with: entry)
        if let index {
            if let difference {
                let origins = [earlier, entry].map { $0.origin ?? MaskedURL.keepingQuery($0.urls.first ?? "") }
                throw ExitStatus.printing(
                    .usage, "\(origins[0]) and \(origins[1]) name the same file, and differ in \(difference): keep one")
            }
            known[key] = (united, index)
            items[index] = try complete(try self.item(united, in: root))
        } else if difference != nil || united.members.count != earlier.members.count {
            // The file is there, and a Metalink says more about it, like a checksum.
            known[key] = (entry, items.count)
            items.append(try complete(item))
        }
    }

    /// The job of an entry, with the limits that the options and the user's defaults set for its host.
    private func job(of entry: Entry) throws -> Job {
        let prefix = entry.origin.map { "\($0): " } ?? ""
        let terms = try terms(of: entry.urls)
        let own = Set(entry.members.map(\.0))
        var members = entry.members + (terms?.members ?? []).filter { !own.contains($0.0) }
        if let speed = settings.minSpeed, !members.contains(where: { $0.0 == "min_speed" }) {
            members.append(("min_speed", String(speed)))
        }
        let job: Job
        do {
            job = try Job(json: try JSON(JSON.object(members)))
        } catch let error as Job.Invalid {
            let isAboutURL = error.field == "url" || error.field == "urls"
            let url = isAboutURL ? entry.urls.first.map { " (\(MaskedURL.keepingQuery($0)))" } ?? "" : ""
            let sentence = error.field == "checksum" ? Self.explained(error, entry) : "\(error)\(url)"
            if let field = error.field, !own.contains(field), let line = terms?.lines[field] {
                throw ExitStatus.printing(.usage, "\(line): \(error.reason)")
            }
            throw ExitStatus.printing(.usage, "\(prefix)\(sentence)")
        } catch { throw ExitStatus.printing(.usage, "\(prefix)\(error)") }
        if let url = job.unreadableURL {
            throw ExitStatus.printing(.usage, "\(prefix)url: \(url) has an invalid host name")
        }
        guard job.unknownFields.isEmpty else {
            throw ExitStatus.printing(
                .usage,
                "\(prefix)unknown fields: \(job.unknownFields.joined(separator: ", ")); "
                    + "docs/reference/fields.md lists those that exist"
            )
        }
        return job
    }

    private func item(_ entry: Entry, in root: String) throws -> GetItem {
        let job = try job(of: entry)
        let prefix = entry.origin.map { "\($0): " } ?? ""
        let recorded = entry.members.filter { $0.0 != "headers" && $0.0 != "body" }
        var item = GetItem(
            job: job, root: root, members: recorded,
            // The user allows the file that the URL names to be replaced, and not files that only the server names.
            ifExists: entry.ifExists ?? (isFollowing && source.ifExists == .overwrite ? .reuse : source.ifExists),
            isOnlyNewer: entry.isOnlyNewer || source.newer && !isFollowing)
        guard !item.isOnlyNewer || !GetTarget.isBucket(root) else {
            throw ExitStatus.printing(
                .usage,
                "\(prefix)-N compares the time of a file, which an object in a bucket does not have: choose --if-exists overwrite"
            )
        }
        let policy = item.ifExists
        guard !item.isOnlyNewer || policy == .reuse || policy == .overwrite else {
            throw ExitStatus.printing(
                .usage,
                "\(prefix)-N (conditional-get) replaces an older file, and if-exists \(policy.rawValue) does not: give one of them"
            )
        }
        (item.isFollowed, item.isPartlyRecorded) = (isFollowing, recorded.count < entry.members.count)
        (item.origin, item.stream, item.urlSource) = (entry.origin, entry.stream, URLSource(list: entry.server))
        item.isSchemeAssumed = entry.isSchemeAssumed
        // A Metalink names its files, and none of them is another Metalink.
        item.followsMetalink =
            !source.keepsMetalinks && entry.server == nil && job.urls.count == 1 && entry.path == nil && !namesOneFile
            && entry.stream == nil && job.checksum == nil && job.contentType == nil
        return item
    }

    /// The error for a refused checksum, with what to write instead.
    private static func explained(_ error: Job.Invalid, _ entry: Entry) -> String {
        let json = entry.members.first { $0.0 == "checksum" }?.1
        guard let text = json.flatMap({ try? JSON($0) })?.string else { return "\(error)" }
        let algorithms = [32: "md5", 40: "sha1", 64: "sha256", 128: "sha512"]
        let isBare = text.utf8.allSatisfy { 48...57 ~= $0 || 97...102 ~= $0 | 32 }
        guard isBare, let algorithm = algorithms[text.utf8.count] else {
            return "\(error), or sha256- or sha512- and base 64, as in HTML (\(text))"
        }
        return "checksum: must name its algorithm: write \(algorithm):\(text)"
    }

    /// The scheme of a URL that is neither http, https nor s3; nil without one. "host:8080" has none.
    private static func foreignScheme(of url: String) -> String? {
        guard let colon = url.utf8.firstIndex(of: UInt8(ascii: ":")) else { return nil }
        let scheme = url[..<colon].lowercased()
        let isScheme = url[colon...].hasPrefix("://") || withoutAuthority.contains(scheme)
        return isScheme && !["http", "https", "s3"].contains(scheme) ? scheme : nil
    }

    /// Schemes whose URLs have no "//".
    private static let withoutAuthority: Set = ["magnet", "mailto", "data", "urn", "file", "blob", "about"]

    /// A URL without a scheme means https.
    private static func completed(_ url: String) -> String {
        let url = URLRule.hasScheme(url) ? url : "https://" + url
        // An empty path is "/" (RFC 3986 section 6.2.3). A URL with another "/" has a path, or needs none.
        guard let scheme = url.byteRange(of: "://"), !url[scheme.upperBound...].utf8.contains(UInt8(ascii: "/")),
            let address = WebURL(url), address.path.isEmpty, address.query == nil, !url.contains("#")
        else {
            return url
        }
        return url + "/"
    }

    /// The name under which a list of checksums has the file.
    private static func name(_ urls: [String], _ path: String?) -> String? {
        if let path, !path.hasSuffix("/") { return path }
        return urls.first.flatMap { WebURL($0) ?? WebURL.object($0) }.map(\.lastComponent).flatMap {
            $0.isEmpty ? nil : $0
        }
    }
}
