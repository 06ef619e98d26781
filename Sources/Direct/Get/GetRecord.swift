import HaulBus
import HaulContract
import HaulHTTP
import HaulStorage
import HaulTerminal

/// What is remembered of one download: a line of the download log.
struct GetRecord: Sendable {
    /// The download's `GetItem.key`.
    let key: String
    /// Instead of `key` in a bucket, which other users and machines may share: a random name of this download. The store
    /// takes an object with this mark for the download's own. nil in a directory.
    var bucketKey: String?
    let root: String
    /// The job as JSON, without headers and credentials.
    let job: String
    let ifExists: ExistingPolicy
    let isOnlyNewer: Bool
    let urlSource: URLSource
    let followsMetalink: Bool
    /// The job lacks the body or the header fields of the request, so only the same list can send that again.
    let isPartial: Bool
    /// The token of the last run. It names the first partial file of that run.
    var run: String
    /// The last checkpoint, if the download can be continued.
    var resume: ResumePoint?
    /// The file that an earlier run completed.
    var completed: CompletedFile?
    /// Another program's unfinished file, whose bytes were copied. The completed download may replace it.
    var unfinished: CompletedFile?
    /// The hidden name that a killed run may have left beside the completed file; "" if there is none, nil if it is not
    /// known.
    var hidden: String?
    /// The download has begun and not ended.
    var isOpen: Bool

    /// The `run` of a download that has not begun.
    static let notStarted = "0"

    init(_ item: GetItem, run: String, completed: CompletedFile?) {
        (key, root, job) = (item.key, item.root, JSON.object(item.members))
        (ifExists, isOnlyNewer, urlSource) = (item.ifExists, item.isOnlyNewer, item.urlSource)
        (followsMetalink, isPartial) = (item.followsMetalink, item.isPartlyRecorded)
        (self.run, self.completed, isOpen) = (run, completed, true)
        bucketKey = GetTarget.isBucket(root) ? Job.Checksum.Algorithm.sha1.hexadecimal(of: Token.make()) : nil
    }

    /// nil if the line cannot be read. It is then ignored.
    init?(_ text: [UInt8]) {
        guard let json = try? JSON(text), json["v"]?.integer == Self.version, let key = json["key"]?.string,
            let root = json["root"]?.string, let run = json["run"]?.string,
            let job = json.members?.first(where: { $0.name == "job" })?.raw
        else { return nil }
        (self.key, self.root, self.run, self.job) = (key, root, run, job)
        ifExists = json["if_exists"]?.string.flatMap(ExistingPolicy.init) ?? .reuse
        isOnlyNewer = json["newer"] == .bool(true)
        urlSource = URLSource(recorded: json["list"]?.string)
        followsMetalink = json["follow"] == .bool(true)
        isPartial = json["partial"] == .bool(true)
        isOpen = json["open"] == .bool(true)
        resume = json["resume"].flatMap { ResumePoint(hash: Self.texts($0), offsets: Self.texts(json["offsets"])) }
        completed = json["completed"].flatMap { CompletedFile(hash: Self.texts($0)) }
        unfinished = json["unfinished"].flatMap { CompletedFile(hash: Self.texts($0)) }
        hidden = json["hidden"]?.string
        bucketKey = json["bucket_key"]?.string
    }

    private static let version: Int64 = 1

    /// What each line begins with.
    static let start = "{\"v\":\(version),\"key\":\""

    /// What the line of a download begins with. A key is hexadecimal, so it needs no escapes.
    static func start(of key: String) -> String { "\(start)\(key)\"" }

    /// Names a file: a hash of its absolute path, however that is divided into directory and name.
    static func fileKey(of path: String, in root: String) -> String {
        Job.Checksum.Algorithm.sha1.hexadecimal(of: (root == "/" ? "" : root) + "/" + path)
    }

    /// The `fileKey` of the completed file.
    var fileKey: String? { completed.map { Self.fileKey(of: $0.file, in: root) } }

    /// What the store knows the download's files by.
    var storeKey: String { bucketKey ?? key }

    /// The partial files that the last run may have left.
    var partialLocations: [PartialLocation] {
        guard let file = resume?.file ?? item?.likelyPath else { return [] }
        return [resume?.generation, run].compactMap(\.self).map {
            PartialLocation(file: file, key: storeKey, generation: $0)
        }
    }

    /// The URLs of the download.
    var urls: [String] { item?.urls ?? [] }

    /// The URL from which the completed file came.
    var sourceURL: String? { urls.first { MaskedURL.text($0) == completed?.source } ?? urls.first }

    /// Whether the completed file came from one of these URLs.
    func isFile(of urls: [String]) -> Bool {
        let own = self.urls
        if own == urls { return true }
        // The source is masked, so several URLs may match it.
        let sources = own.filter { MaskedURL.text($0) == completed?.source }
        return !sources.isEmpty && sources.allSatisfy(urls.contains)
    }

    /// The line, without its newline. `open` is the last member: a line that ends with it is complete.
    var text: String {
        var object = JSONObject()
        object.set("v", Self.version)
        object.set("key", key)
        object.set("root", root)
        object.set("run", run)
        object.set("job", json: job)
        if ifExists != .reuse { object.set("if_exists", ifExists.rawValue) }
        if isOnlyNewer { object.set("newer", true) }
        object.set("list", urlSource.recorded)
        if followsMetalink { object.set("follow", true) }
        if isPartial { object.set("partial", true) }
        if let resume {
            object.set("resume", json: Self.object(resume.fields))
            object.set(
                "offsets",
                json: Self.object(
                    resume.offsets.intervals.map { (String($0.lowerBound), String($0.upperBound)) }))
        }
        if let completed { object.set("completed", json: Self.object(completed.fields)) }
        if let unfinished { object.set("unfinished", json: Self.object(unfinished.fields)) }
        object.set("hidden", hidden)
        object.set("bucket_key", bucketKey)
        // Before `open`, where `DownloadLogFile` finds it without parsing the line.
        if !isOpen { object.set("file", fileKey) }
        object.set("open", isOpen)
        return object.text
    }

    /// The download to continue; nil if this version does not accept its job.
    var item: GetItem? {
        guard let json = try? JSON(job), let members = json.members, let job = try? Job(json: json) else { return nil }
        var item = GetItem(
            job: job, root: root, members: members.map { ($0.name, $0.raw) }, ifExists: ifExists,
            isOnlyNewer: isOnlyNewer)
        (item.urlSource, item.followsMetalink, item.isPartlyRecorded) = (urlSource, followsMetalink, isPartial)
        return item
    }

    private static func object(_ fields: [(String, String)]) -> String {
        fields.reduce(into: JSONObject()) { $0.set($1.0, $1.1) }.text
    }

    private static func texts(_ json: JSON?) -> [String: String] {
        Dictionary((json?.members ?? []).compactMap { member in member.value.string.map { (member.name, $0) } }) { $1 }
    }
}
