import ArgumentParser
import HaulBus
import HaulContract
import HaulHTTP
import HaulRedis
import HaulTerminal

struct Push: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "push", abstract: "Queue downloads and print their ids.",
        discussion: """
            With - the jobs come on standard input: a URL or a JSON object on each line. Lines that begin with # are \
            comments.
            """)

    @OptionGroup var common: CommonOptions
    @Argument(help: "URLs, or - for standard input.") var urls: [String]
    @Option(help: "The job's id.") var id: String?
    @Option(
        name: [.customShort("o", allowingJoined: true), .customLong("path")],
        help: "Path beneath the workers' root; ends in / for a directory.")
    var path: String?
    @Option(
        help: "reuse, overwrite, rename or fail.", completion: .list(["reuse", "overwrite", "rename", "fail"]))
    var ifExists: String?
    @Option(help: "sha256:…, sha512:…, sha1:… or md5:….") var checksum: String?
    @Option(
        name: [.customShort("H", allowingJoined: true), .long], help: "A header, \"Name: value\". May be repeated.")
    var header: [String] = []
    @Option(help: "Most connections for this file, 1 to 16.") var connections: Int?
    @Option(help: "Bytes per second, like 500k or 5M.") var limitRate: ByteCount?
    @Option(help: "Attempts after the first.") var retries: Int?
    @Option(help: "Seconds before the job may start.") var delay: Double?
    @Option(help: "Seconds within which it must be done.") var deadline: Double?
    @Option(help: "Also push the final event onto this reply list.") var replyTo: String?
    @Option(help: "The batch that the jobs belong to.") var batch: String?
    @Option(help: "How many jobs the batch has. [as many as are pushed now]") var batchSize: Int?
    @Option(help: "Also push the batch's final event onto this reply list.") var batchReplyTo: String?
    @Option(help: "The group, like a tenant, with which they take turns for slots.") var group: String?
    @Option(help: "Any JSON up to 4 KiB, echoed in events.") var meta: String?
    @Flag(help: "Wait until the jobs have ended.") var wait = false
    @OptionGroup var display: ProgressOption

    func run() async throws {
        let elements = try elements()
        let queue = try await common.connect()
        // Without permission to read jobs the command fails here, before it has pushed anything.
        if wait { _ = try await queue.jobs(elements.map(\.id)) }
        let report = await queue.report(ofPushing: elements)
        let pushed = report.timestamps
        for element in elements where report.error == nil || pushed[element.id] != nil {
            Terminal.line(common.json ? "{\"id\":\(JSON.quoted(element.id))}" : element.id)
        }
        if let error = report.error { throw Self.failure(error, pushed, of: elements) }
        // Without jobs there is nothing to wait for, and a follower without ids would follow all jobs.
        guard wait, !elements.isEmpty else { return }
        try await Follower(queue, elements, json: common.json, progress: display.progress, pushed: pushed).follow()
    }

    /// Says how many jobs are pushed, and which are not, so that only these are pushed again. A request that is pushed
    /// again after it has ended is sent twice.
    private static func failure(_ error: RedisError, _ pushed: [String: Int64], of elements: [Element]) -> ExitStatus {
        let rest = elements.map(\.id).filter { pushed[$0] == nil }
        let isUncertain = [.closed, .timedOut, .cancelled].contains(error.code)
        guard !pushed.isEmpty else {
            let advice =
                ". It is unknown whether jobs were pushed: look with haul list before you push them again"
            return .printing(isUncertain ? RedisError(error.code, error.message + advice) : error)
        }
        let names = rest.prefix(10).joined(separator: ", ") + (rest.count > 10 ? " and \(rest.count - 10) more" : "")
        return .printing(
            RedisError(
                error.code,
                "\(error.message). \(elements.count - rest.count) of \(elements.count) jobs were pushed, whose ids are printed; "
                    + "\(isUncertain ? "perhaps not" : "not") pushed: \(names). Push only these again"))
    }

    private func elements() throws -> [Element] {
        guard urls == ["-"] else {
            if urls.contains("-") {
                throw ExitStatus.printing(.usage, "- reads all jobs from standard input: leave out the other URLs")
            }
            if id != nil, urls.count > 1 {
                throw ExitStatus.printing(.usage, "--id names one job, but several URLs are given: leave out --id")
            }
            try checkPath(of: urls.count)
            return try elements(urls.map { ([("url", JSON.quoted($0))], "") })
        }
        let elements = try elements(readJobs())
        try checkPath(of: elements.count)
        if let id, elements.count(where: { $0.id == id }) > 1 {
            throw ExitStatus.printing(.usage, "--id names one job, but several lines are given. Nothing was pushed.")
        }
        return elements
    }

    private typealias Given = (members: [(String, String)], prefix: String)

    private func elements(_ jobs: [Given]) throws -> [Element] {
        func made(with options: [(String, String)]) throws -> [Element] {
            try jobs.map { job in
                let given = Set(job.members.map(\.0))
                return try element(job.members + options.filter { !given.contains($0.0) }, job.prefix)
            }
        }
        let alone = try made(with: options())
        // A job that is given twice counts once, and one that names a batch of its own is in that one.
        let own = zip(jobs, alone).filter { job, _ in !job.members.contains { $0.0 == "batch" } }.map(\.1.id)
        guard let batch = try batch(of: Set(own).count) else { return alone }
        return try made(with: options() + [("batch", batch)])
    }

    /// The jobs on standard input: the members of each, and its line for messages.
    private func readJobs() throws -> [Given] {
        var jobs: [Given] = []
        var number = 0
        while let line = readLine() {
            number += 1
            let text = line.drop { $0 == " " || $0 == "\t" }
            guard !text.isEmpty, !text.hasPrefix("#") else { continue }
            let prefix = "line \(number): "
            // `readLine` replaces bytes that are not UTF-8 by this character. The job would have another URL.
            guard !text.unicodeScalars.contains("\u{FFFD}") else {
                throw ExitStatus.printing(.usage, "\(prefix)is not UTF-8 text. Nothing was pushed.")
            }
            guard text.hasPrefix("{") else {
                guard text.contains("://") else {
                    throw ExitStatus.printing(
                        .usage,
                        "\(prefix)\(JSON.quoted(String(text.prefix(80)))) is neither a URL nor a JSON object. Nothing was pushed."
                    )
                }
                jobs.append(([("url", JSON.quoted(String(text)))], prefix))
                continue
            }
            do { jobs.append((try JSON(String(text)).members?.map { ($0.name, $0.raw) } ?? [], prefix)) } catch {
                throw ExitStatus.printing(.usage, "\(prefix)is not JSON: \(error). Nothing was pushed.")
            }
        }
        return jobs
    }

    /// Refuses one file name for several jobs: they would get the same file.
    private func checkPath(of count: Int) throws {
        guard let path, count > 1, !path.hasSuffix("/") else { return }
        throw ExitStatus.printing(
            .usage,
            "-o \(path) names one file, but \(count) jobs are given: end it in / for a directory. Nothing was pushed.")
    }

    /// - Parameter prefix: Where the job was read, for error messages: "line 3: ".
    private func element(_ members: [(String, String)], _ prefix: String = "") throws -> Element {
        let json: JSON
        do { json = try JSON(JSON.object(members)) } catch {
            throw ExitStatus.printing(.usage, "\(prefix)the job would not be valid: \(error). Nothing was pushed.")
        }
        do {
            let job = try Job(json: json)
            if let unknown = job.unknownFields.first {
                throw ExitStatus.printing(
                    .usage,
                    "\(prefix)\(unknown): no such field (docs/reference/fields.md lists them). Nothing was pushed.")
            }
            if let url = job.unreadableURL {
                throw ExitStatus.printing(.usage, "\(prefix)url: \(url) has an invalid host name. Nothing was pushed.")
            }
            let element = try Element(json)
            if let unknown = element.unknownStepFields.first {
                throw ExitStatus.printing(
                    .usage,
                    "\(prefix)\(unknown): no such field (docs/reference/fields.md lists them). Nothing was pushed.")
            }
            return element
        } catch let error as Job.Invalid {
            let shown = error.field == "url" ? MaskedURL.keepingQuery(json["url"]?.string ?? "") : ""
            let url = shown.isEmpty ? "" : " (\(shown))"
            throw ExitStatus.printing(.usage, "\(prefix)\(error)\(url). Nothing was pushed.")
        }
    }

    private func options() throws -> [(String, String)] {
        var result: [(String, String)] = []
        func add(_ name: String, _ text: String?) { if let text { result.append((name, text)) } }
        add("id", id.map(JSON.quoted))
        add("path", path.map(JSON.quoted))
        add("if_exists", ifExists.map(JSON.quoted))
        add("checksum", checksum.map(JSON.quoted))
        add("connections", connections.map { String($0) })
        add("limit_rate", limitRate.map { String($0.bytes) })
        add("retries", retries.map { String($0) })
        for (name, seconds) in [("delay", delay), ("deadline", deadline)] {
            guard seconds?.isFinite ?? true else {
                throw ExitStatus.printing(
                    .usage, "--\(name) must be a number of seconds, not \(seconds ?? 0). Nothing was pushed.")
            }
            add(name, seconds.map { String($0) })
        }
        add("reply_to", replyTo.map(JSON.quoted))
        add("group", group.map(JSON.quoted))
        if let meta {
            guard (try? JSON(meta)) != nil else {
                throw ExitStatus.printing(.usage, "--meta must be JSON. Nothing was pushed.")
            }
            add("meta", meta)
        }
        if !header.isEmpty {
            let fields = try header.map { line in
                let parts = line.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
                guard parts.count == 2 else {
                    throw ExitStatus.printing(
                        .usage, "--header must be \"Name: value\", not \"\(line)\". Nothing was pushed.")
                }
                return (String(parts[0]), String(parts[1].drop { $0 == " " }))
            }
            add("headers", try NamedValue.headers(fields, of: "--header"))
        }
        return result
    }

    /// The member `batch` of each of `count` jobs, as JSON; nil without `--batch`.
    private func batch(of count: Int) throws -> String? {
        guard let batch else {
            guard batchSize == nil, batchReplyTo == nil else {
                throw ExitStatus.printing(
                    .usage, "--batch-size and --batch-reply-to require --batch. Nothing was pushed.")
            }
            return nil
        }
        var object = JSONObject()
        object.set("name", batch)
        object.set("size", batchSize ?? count)
        object.set("reply_to", batchReplyTo)
        return object.text
    }
}
