import HaulBus
import HaulContract
import HaulTerminal

/// What is remembered of one download: a line of the journal.
struct GetRecord: Sendable {
    /// The download's `GetItem.key`.
    let key: String
    let root: String
    /// The job as JSON, without headers and credentials.
    let job: String
    let ifExists: ExistingPolicy
    let isOnlyNewer: Bool
    /// The token of the last run. It names the first partial file of that run.
    var run: String
    /// The last checkpoint, if the download can be continued.
    var resume: ResumePoint?
    /// The file that an earlier run completed.
    var completed: CompletedFile?
    /// Another program's unfinished file, whose bytes were copied. The completed download may replace it.
    var unfinished: CompletedFile?
    /// The download has begun and not ended.
    var isOpen: Bool

    init(_ item: GetItem, run: String, completed: CompletedFile?) {
        (key, root, job) = (item.key, item.root, JSON.object(item.members))
        (ifExists, isOnlyNewer) = (item.ifExists, item.isOnlyNewer)
        (self.run, self.completed, isOpen) = (run, completed, true)
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
        isOpen = json["open"] == .bool(true)
        resume = json["resume"].flatMap { ResumePoint(hash: Self.texts($0), offsets: Self.texts(json["offsets"])) }
        completed = json["completed"].flatMap { CompletedFile(hash: Self.texts($0)) }
        unfinished = json["unfinished"].flatMap { CompletedFile(hash: Self.texts($0)) }
    }

    private static let version: Int64 = 1

    /// What each line begins with.
    static let start = "{\"v\":\(version),\"key\":\""

    /// What the line of a download begins with. A key is hexadecimal, so it needs no escapes.
    static func start(of key: String) -> String { "\(start)\(key)\"" }

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
        if let resume {
            object.set("resume", json: Self.object(resume.fields))
            object.set(
                "offsets",
                json: Self.object(
                    resume.offsets.intervals.map { (String($0.lowerBound), String($0.upperBound)) }))
        }
        if let completed { object.set("completed", json: Self.object(completed.fields)) }
        if let unfinished { object.set("unfinished", json: Self.object(unfinished.fields)) }
        object.set("open", isOpen)
        return object.text
    }

    /// The download to continue; nil if this version does not accept its job.
    var item: GetItem? {
        guard let json = try? JSON(job), let members = json.members, let job = try? Job(json: json) else { return nil }
        var item = GetItem(job: job, root: root, members: members.map { ($0.name, $0.raw) })
        (item.ifExists, item.isOnlyNewer) = (ifExists, isOnlyNewer)
        return item
    }

    private static func object(_ fields: [(String, String)]) -> String {
        JSON.object(fields.map { ($0.0, JSON.quoted($0.1)) })
    }

    private static func texts(_ json: JSON?) -> [String: String] {
        Dictionary((json?.members ?? []).compactMap { member in member.value.string.map { (member.name, $0) } }) { $1 }
    }
}
